"""Trees in the network: copies that go down one, sums that go up one.

A *multicast tree* copies one sender's packets to many receivers, once over each link (OpenFlow does
it with a group of type ALL). An *aggregation tree* is the way back: what its members send upwards
meets at accelerators, each of which sums some streams into one and sends that on, as switches do in
SwitchML (Sapio and others, NSDI 2021), here on a tree of accelerators.

What switches have to do for an aggregation tree is a set of *streams*. A stream starts at an island
or an accelerator, keeps that address as its source, and ends where it is summed or received:

    AMS.island ──┐                                 streams   AMS.island      > LON.accelerator
                 ├─ LON (sums) ─── NYC (sums)                LON.island      > LON.accelerator
    LON.island ──┘                  │                        LON.accelerator > NYC.accelerator
                       NYC.island ──┘                        NYC.island      > NYC.accelerator

Sites without an accelerator let streams pass, and so does one whose accelerator cannot sum as many.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from controller.fabric import HIGHEST_TREE_ID, accelerator_end, island_end, tree_ip
from topologies.errors import UserError

Hops = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MulticastTree:
    """One sender's packets to a group address are copied along a tree, once over each link.

    Attributes:
        tree_id: number of the tree in this run, from 1.
        group_ip: IPv4 multicast address the sender addresses.
        root: site of the sender.
        hops: (parent, child) of every link of the tree, away from the root.
        receivers: sites whose islands get a copy.
        at_island: whether the root's island sends, or else the root's accelerator.
        accelerators: sites whose accelerators get a copy too.

    Raises:
        UserError: when this is not a tree from the root that reaches every receiver, or when the
            sender is among the receivers: a copy never goes back out of the port it came in by.
    """

    tree_id: int
    group_ip: str
    root: str
    hops: Hops
    receivers: tuple[str, ...]
    at_island: bool = True
    accelerators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _sort(self, "hops", "receivers", "accelerators")
        _check_number(self.tree_id)
        self._check_group()
        _check_shape(self.tree_id, self.root, self.hops, {*self.receivers, *self.accelerators})
        if self.root in (self.receivers if self.at_island else self.accelerators):
            raise UserError(f"tree {self.tree_id}: its root {self.root} cannot be a receiver")

    def _check_group(self) -> None:
        try:
            multicast = ipaddress.IPv4Address(self.group_ip).is_multicast
        except ValueError:
            multicast = False
        if not multicast:
            raise UserError(
                f"tree {self.tree_id}: {self.group_ip!r} is no IPv4 multicast address "
                "(224.0.0.0 to 239.255.255.255)"
            )

    @property
    def address(self) -> str:
        """IPv4 address that packets of this tree are sent to."""
        return self.group_ip

    @property
    def source_end(self) -> str:
        """The sender: `NYC.island` or `NYC.accelerator`."""
        return island_end(self.root) if self.at_island else accelerator_end(self.root)

    @cached_property
    def _parents(self) -> Mapping[str, str]:
        return {child: parent for parent, child in self.hops}

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        return _children_of(self.hops)

    def parent(self, site: str) -> str | None:
        """Site before this one, or None at the root."""
        return self._parents.get(site)

    def children(self, site: str) -> tuple[str, ...]:
        """Sites after this one, sorted."""
        return self._children.get(site, ())

    def sites(self) -> tuple[str, ...]:
        """Every site of the tree, sorted."""
        return _sites(self.root, self.hops)


@dataclass(frozen=True)
class Stream:
    """Packets on their way up: from an island or accelerator to where they are summed or received.

    Attributes:
        source_end: who sends them, such as `AMS.island` or `LON.accelerator`.
        path: sites they pass, from the sender's to the receiver's.
        target_end: the accelerator that sums them, or the root's island.
    """

    source_end: str
    path: tuple[str, ...]
    target_end: str


@dataclass(frozen=True)
class AggregationTree:
    """What members send to the tree's address is summed on its way to the root.

    Attributes:
        tree_id: number of the tree in this run, from 1; its address is `fabric.tree_ip` of it.
        root: site where the sum ends.
        hops: (parent, child) of every link of the tree, away from the root.
        members: sites whose islands send.
        sums_at: sites whose accelerator sums the streams that arrive there.
        at_island: whether the root's island receives what arrives at the root, or (for `innetwork`)
            the root's accelerator keeps the sum, to send it to a multicast group.
        fan_in: (site, streams) of accelerators that sum no more streams than that; the first by
            the name of their end are summed, the rest pass.

    Raises:
        UserError: when this is not a tree from the root that reaches every member; when the
            receiving island is a member itself; when nothing arrives at an accelerator that sums;
            when streams would be left over at a root whose accelerator is to keep the one sum.
    """

    tree_id: int
    root: str
    hops: Hops
    members: tuple[str, ...]
    sums_at: tuple[str, ...]
    at_island: bool = True
    fan_in: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        _sort(self, "hops", "members", "sums_at", "fan_in")
        _check_number(self.tree_id)
        _check_shape(self.tree_id, self.root, self.hops, {*self.members, *self.sums_at})
        if not self.members:
            raise UserError(f"tree {self.tree_id}: it has no members")
        if self.at_island and self.root in self.members:
            raise UserError(
                f"tree {self.tree_id}: the island of its root {self.root} receives the sum, "
                "so it cannot be a member"
            )
        if not self.at_island and self.root not in self.sums_at:
            raise UserError(f"tree {self.tree_id}: nothing sums at its root {self.root}")
        self._check_fan_in()
        assert self.streams  # raises what cannot be summed

    def _check_fan_in(self) -> None:
        for site, streams in self.fan_in:
            if site not in self.sums_at:
                raise UserError(f"tree {self.tree_id}: fan_in of {site}, where nothing sums")
            if streams < 1:
                raise UserError(f"tree {self.tree_id}: fan_in {streams} of {site} is below one")

    @property
    def address(self) -> str:
        """IPv4 address that what goes up this tree is sent to."""
        return tree_ip(self.tree_id)

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        return _children_of(self.hops)

    def sites(self) -> tuple[str, ...]:
        """Every site of the tree, sorted."""
        return _sites(self.root, self.hops)

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """Every stream of the tree, sorted by target, then source."""
        ended: list[Stream] = []
        leaving: dict[str, list[Stream]] = {}
        for site in _leaves_first(self.root, self._children):
            arrived = [_start(island_end(site), site)] if site in self.members else []
            for child in self._children.get(site, ()):
                arrived += [replace(s, path=(*s.path, site)) for s in leaving[child]]
            leaving[site] = self._sum(site, arrived, ended) if site in self.sums_at else arrived
        self._end_at_root(leaving[self.root], ended)
        return tuple(sorted(ended, key=lambda s: (s.target_end, s.source_end)))

    def _sum(self, site: str, arrived: list[Stream], ended: list[Stream]) -> list[Stream]:
        """Streams that leave a site that sums; those summed have come to their end."""
        if not arrived:
            raise UserError(f"tree {self.tree_id}: nothing arrives at {site}, which is to sum")
        most = dict(self.fan_in).get(site, len(arrived))
        in_order = sorted(arrived, key=lambda stream: stream.source_end)
        here = accelerator_end(site)
        ended += [replace(stream, target_end=here) for stream in in_order[:most]]
        return [*in_order[most:], _start(here, site)]

    def _end_at_root(self, arrived: list[Stream], ended: list[Stream]) -> None:
        if self.at_island:
            ended += [replace(stream, target_end=island_end(self.root)) for stream in arrived]
        elif len(arrived) > 1:
            raise UserError(
                f"tree {self.tree_id}: {len(arrived) - 1} streams are left over at the root "
                f"{self.root}, whose accelerator has a fan_in of {dict(self.fan_in)[self.root]}"
            )

    def children(self, end: str) -> tuple[str, ...]:
        """Ends whose streams end at this accelerator or island, sorted: its children in order."""
        return tuple(stream.source_end for stream in self.streams if stream.target_end == end)

    def parent(self, end: str) -> str | None:
        """End at which this one's stream ends, or None for the root's accelerator of `innetwork`.

        Raises:
            UserError: the tree has no such stream.
        """
        if end == accelerator_end(self.root) and not self.at_island:
            return None
        for stream in self.streams:
            if stream.source_end == end:
                return stream.target_end
        raise UserError(f"tree {self.tree_id}: {end} sends nothing up it")


Tree = MulticastTree | AggregationTree


def _start(end: str, site: str) -> Stream:
    return Stream(end, (site,), "")


def _sort(tree: Tree, *names: str) -> None:
    for name in names:
        object.__setattr__(tree, name, tuple(sorted(getattr(tree, name))))


def _check_number(tree_id: int) -> None:
    if not 1 <= tree_id <= HIGHEST_TREE_ID:
        raise UserError(f"tree id {tree_id} is not within 1 to {HIGHEST_TREE_ID}")


def _check_shape(tree_id: int, root: str, hops: Hops, needed: Collection[str]) -> None:
    parents = {child: parent for parent, child in hops}
    if len(parents) != len(hops) or root in parents:
        raise UserError(f"tree {tree_id}: a site is entered twice")
    reached = set(_leaves_first(root, _children_of(hops)))
    unreached = sorted((set(parents) | set(needed)) - reached)
    if unreached:
        raise UserError(f"tree {tree_id}: {', '.join(unreached)} not reached from {root}")


def _children_of(hops: Hops) -> Mapping[str, tuple[str, ...]]:
    children: dict[str, list[str]] = {}
    for parent, child in sorted(hops):
        children.setdefault(parent, []).append(child)
    return {parent: tuple(ends) for parent, ends in children.items()}


def _leaves_first(root: str, children: Mapping[str, Iterable[str]]) -> list[str]:
    """Sites that the root leads to, each after all below it; every site is entered once only."""
    order = [root]
    for site in order:
        order += children.get(site, ())
    return order[::-1]


def _sites(root: str, hops: Hops) -> tuple[str, ...]:
    return tuple(sorted({root, *(child for _, child in hops)}))
