"""Intents to rules: pure, and the only place that knows how an intent is put into OpenFlow.

Every switch gets one table of four priorities. What no rule matches is dropped and counted by the
table-miss rule: an IPv6 router solicitation or an mDNS packet neither floods nor reaches the
controller. Nothing here says "flood": a mesh of WAN switches has loops, and one flooded ARP
request would circle in it for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.fabric import ACCESS_PORT, Fabric
from controller.intents import ArpToController, Intent, MulticastTree, UnicastRoutes
from controller.rules import (
    Action,
    Group,
    Meter,
    Output,
    Rule,
    SwitchState,
    ToController,
    ToGroup,
    match,
)
from topologies.errors import UserError

ETH_TYPE_IPV4 = 0x0800
ETH_TYPE_ARP = 0x0806
ARP_REQUEST = 1
ARP_METER = 1
ARP_BYTES = 64

PRIORITY_MISS = 0
PRIORITY_UNICAST = 100
PRIORITY_MULTICAST = 150
PRIORITY_ARP = 200

_COOKIE_OF_ATOLL = 0xA7011 << 44
_COOKIE_KINDS = {"miss": 0, "unicast": 1, "arp": 2, "multicast": 3}


def cookie(kind: str, number: int = 0) -> int:
    """Cookie of a rule: Atoll's mark, then the kind of intent, then its number (32 bits)."""
    return _COOKIE_OF_ATOLL | _COOKIE_KINDS[kind] << 32 | number


def kind_of_cookie(value: int) -> str:
    """Kind of intent a cookie stands for, or `foreign` for one that is not Atoll's."""
    kinds = {number: kind for kind, number in _COOKIE_KINDS.items()}
    if value >> 44 != _COOKIE_OF_ATOLL >> 44:
        return "foreign"
    return kinds.get(value >> 32 & 0xFFF, "foreign")


@dataclass
class _Draft:
    rules: dict[object, Rule] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    meters: dict[int, Meter] = field(default_factory=dict)

    def add(self, site: str, rule: Rule) -> None:
        other = self.rules.setdefault(rule.key, rule)
        if other != rule:
            raise UserError(f"{site}: two intents claim the packets of {dict(rule.match)}")

    def done(self) -> SwitchState:
        return SwitchState(
            frozenset(self.rules.values()),
            frozenset(self.groups.values()),
            frozenset(self.meters.values()),
        )


def compile_intents(fabric: Fabric, intents: Iterable[Intent]) -> Mapping[str, SwitchState]:
    """Rules, groups and meters of every switch of the fabric that carry out the intents.

    Raises:
        UserError: two intents claim the same packets, or a site or link is unknown.
    """
    drafts = {code: _Draft() for code in fabric.codes}
    for code, draft in drafts.items():
        draft.add(code, Rule(PRIORITY_MISS, match(), (), cookie("miss")))
    for intent in intents:
        _compile_one(fabric, drafts, intent)
    return {code: draft.done() for code, draft in drafts.items()}


def _compile_one(fabric: Fabric, drafts: Mapping[str, _Draft], intent: Intent) -> None:
    if isinstance(intent, UnicastRoutes):
        _compile_unicast(fabric, drafts, intent)
    elif isinstance(intent, ArpToController):
        _compile_arp(drafts[intent.site], intent)
    else:
        _compile_multicast(fabric, drafts, intent)


def _compile_unicast(fabric: Fabric, drafts: Mapping[str, _Draft], intent: UnicastRoutes) -> None:
    to = intent.destination
    ports = {at: fabric.port_to(at, neighbour) for at, neighbour in intent.next_hops}
    wanted = match(eth_type=ETH_TYPE_IPV4, ipv4_dst=fabric.island_ip(to))
    mark = cookie("unicast", fabric.dpid(to))
    for at, port in {**ports, to: ACCESS_PORT}.items():
        drafts[at].add(at, Rule(PRIORITY_UNICAST, wanted, (Output(port),), mark))


def _compile_arp(draft: _Draft, intent: ArpToController) -> None:
    draft.meters[ARP_METER] = Meter(ARP_METER, intent.rate_packets_per_s, intent.burst_packets)
    asked = match(in_port=ACCESS_PORT, eth_type=ETH_TYPE_ARP, arp_op=ARP_REQUEST)
    rule = Rule(PRIORITY_ARP, asked, (ToController(ARP_BYTES),), cookie("arp"), ARP_METER)
    draft.add(intent.site, rule)


def _compile_multicast(fabric: Fabric, drafts: Mapping[str, _Draft], tree: MulticastTree) -> None:
    """Each switch of the tree takes the packet from its parent's port only and copies it onward.

    The rule names its ingress port and no bucket names that port again, so no copy can turn back,
    and a copy that strays in elsewhere is dropped.
    """
    for site in tree.sites():
        ports = _ports_onward(fabric, tree, site)
        if not ports:
            continue
        draft = drafts[site]
        rule = Rule(
            PRIORITY_MULTICAST,
            match(
                in_port=_port_from_parent(fabric, tree, site),
                eth_type=ETH_TYPE_IPV4,
                ipv4_src=fabric.island_ip(tree.root),
                ipv4_dst=tree.group_ip,
            ),
            _copies(draft, tree, ports, site),
            cookie("multicast", tree.tree_id),
        )
        draft.add(site, rule)


def _port_from_parent(fabric: Fabric, tree: MulticastTree, site: str) -> int:
    parent = tree.parent(site)
    return ACCESS_PORT if parent is None else fabric.port_to(site, parent)


def _ports_onward(fabric: Fabric, tree: MulticastTree, site: str) -> tuple[int, ...]:
    to_children = [fabric.port_to(site, child) for child in tree.children(site)]
    return tuple(sorted(to_children + [ACCESS_PORT] * (site in tree.receivers)))


def _copies(
    draft: _Draft, tree: MulticastTree, ports: tuple[int, ...], site: str
) -> tuple[Action, ...]:
    """One port needs no group, which saves entries of a table that is small in real switches."""
    if len(ports) == 1:
        return (Output(ports[0]),)
    group = Group(tree.tree_id, tuple((Output(port),) for port in ports))
    if draft.groups.setdefault(tree.tree_id, group) != group:
        raise UserError(f"{site}: two trees have the number {tree.tree_id}")
    return (ToGroup(tree.tree_id),)
