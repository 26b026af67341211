"""Multicast groups that any island may send to: a source tree for every sender.

Asked for through the northbound interface, or by hosts themselves with IGMP. For each group and
each island that may send to it, the least-delay tree from that island to the members is laid out
before the first packet, as PIM does it once a source is known (RFC 7761). Why not by a first packet
that goes to the controller: that packet would be late or lost, a sender would need a time-out, and
any island could load the controller with packets to groups of its choice. Why not one shared tree:
its ways are longer than the least delay, which is what is emulated here. The price is a rule a
sender in every switch on the way, nine a group in a network of nine.

Members and routes change; the trees follow. A tree's number is made of the group's slot and the
sender's index, so that a change of one group never renumbers the trees of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from controller.fabric import HIGHEST_TREE_ID, Fabric, group_ip
from controller.intents import least_delay_tree
from controller.membership import Memberships
from controller.trees import MulticastTree
from topologies.errors import UserError
from topologies.routing import Routes

FIRST_ID_OF_GROUPS = 20_001


@dataclass(frozen=True)
class MulticastGroup:
    """A group and the island members it was given; those who join by IGMP come on top.

    Attributes:
        group_ip: IPv4 multicast address.
        slot: small number of the group, from 0, that its trees are numbered by.
        members: sites whose islands always receive.
        senders: sites whose islands may send; None for all.
        requested: whether somebody asked for it by the northbound interface, so that it stays when
            the last host leaves.
    """

    group_ip: str
    slot: int
    members: tuple[str, ...] = ()
    senders: tuple[str, ...] | None = None
    requested: bool = False


def free_slot(groups: Iterable[MulticastGroup]) -> int:
    """The smallest slot that no group has."""
    taken = {group.slot for group in groups}
    return next(slot for slot in range(len(taken) + 1) if slot not in taken)


def free_group_ip(taken: Iterable[str]) -> str:
    """The first address of the run's own block that is not taken."""
    used = set(taken)
    return next(ip for number in range(1, len(used) + 2) if (ip := group_ip(number)) not in used)


def most_groups(site_count: int) -> int:
    """Groups for which there are tree numbers, if every site may send to each."""
    return (HIGHEST_TREE_ID - FIRST_ID_OF_GROUPS + 1) // site_count


def with_joined(
    groups: tuple[MulticastGroup, ...], memberships: Memberships, fixed: Iterable[str], most: int
) -> tuple[MulticastGroup, ...]:
    """Groups asked for, and those that hosts want; new ones get the smallest free slots.

    Args:
        groups: the groups so far.
        memberships: what hosts want.
        fixed: addresses that fixed trees use; for those, hosts' wishes count for nothing.
        most: how many groups there can be; what hosts want beyond that is left out.
    """
    barred = set(fixed)
    wanted = dict.fromkeys(ip for ip in memberships.groups() if ip not in barred)
    kept = [group for group in groups if group.requested or group.group_ip in wanted]
    known, taken = {group.group_ip for group in kept}, {group.slot for group in kept}
    free = (slot for slot in count() if slot not in taken)
    new = [ip for ip in wanted if ip not in known][: max(0, most - len(kept))]
    return (*kept, *(MulticastGroup(ip, next(free)) for ip in new))


def trees_of(
    group: MulticastGroup, memberships: Memberships, fabric: Fabric, routes: Routes
) -> Iterator[MulticastTree]:
    """A tree from every sender of a group that has a member elsewhere it can reach.

    Raises:
        UserError: there are more groups than tree numbers.
    """
    joined = memberships.members(group.group_ip)
    for sender in fabric.codes if group.senders is None else group.senders:
        source_ip = fabric.island_ip(sender)
        wish = {site for site, wanted in joined.items() if wanted.admits(source_ip)}
        wanting = wish | set(group.members)
        receivers = {site for site in wanting if (sender, site) in routes.next_hops}
        if receivers:
            number = _tree_id(group, sender, fabric)
            yield least_delay_tree(routes, number, group.group_ip, sender, receivers)


def _tree_id(group: MulticastGroup, sender: str, fabric: Fabric) -> int:
    number = FIRST_ID_OF_GROUPS + group.slot * len(fabric.codes) + fabric.index(sender)
    if number > HIGHEST_TREE_ID:
        most = most_groups(len(fabric.codes))
        raise UserError(f"group {group.group_ip}: there are {most} groups already, the most")
    return number
