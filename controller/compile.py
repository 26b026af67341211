"""Intents to rules: pure, and the only place that knows how an intent is put into OpenFlow.

Every switch gets one table of four priorities. What no rule matches is dropped and counted by the
table-miss rule: an IPv6 router solicitation or an mDNS packet neither floods nor reaches the
controller. Nothing here says "flood": a mesh of WAN switches has loops, and one flooded ARP
request would circle in it for ever.

Where a packet of a tree enters the network, its switch writes the tree's number and version into
the Ethernet source address, which no receiver looks at; switches further on match it. So a packet
is forwarded by one version of a tree's rules from end to end, even while the tree moves (the
two-phase update of Reitblatt and others, "Abstractions for network update", SIGCOMM 2012).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.fabric import (
    ACCELERATOR_PORT,
    ACCESS_PORT,
    Fabric,
    accelerator_end,
    island_end,
    tree_mac,
)
from controller.intents import (
    ArpToController,
    IgmpToController,
    Intent,
    MulticastTree,
    PlacedTree,
    UnicastRoutes,
)
from controller.rules import (
    Action,
    Group,
    Match,
    Meter,
    Output,
    Rule,
    SetField,
    SwitchState,
    ToController,
    ToGroup,
    match,
)
from controller.trees import AggregationTree, Stream
from topologies.errors import UserError

ETH_TYPE_IPV4 = 0x0800
ETH_TYPE_ARP = 0x0806
ARP_REQUEST = 1
IP_PROTO_IGMP = 2
IP_PROTO_UDP = 17
ARP_METER = 1
IGMP_METER = 2
ARP_BYTES = 64
WHOLE_PACKET = 0xFFFF  # OFPCML_NO_BUFFER

PRIORITY_MISS = 0
PRIORITY_UNICAST = 100
PRIORITY_TREE = 150
PRIORITY_CONTROLLER = 200

_COOKIE_OF_ATOLL = 0xA7011 << 44
_COOKIE_KINDS = {"miss": 0, "unicast": 1, "arp": 2, "multicast": 3, "igmp": 4, "aggregation": 5}
_ACCELERATORS = 1 << 16

Asked = Mapping[str, int | str]


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
        _compile_arp(fabric, drafts[intent.site], intent)
    elif isinstance(intent, IgmpToController):
        _compile_igmp(drafts[intent.site], intent)
    else:
        placed = intent if isinstance(intent, PlacedTree) else PlacedTree(intent)
        _compile_tree(fabric, drafts, placed)


def _compile_unicast(fabric: Fabric, drafts: Mapping[str, _Draft], intent: UnicastRoutes) -> None:
    to = intent.destination
    end = accelerator_end(to) if intent.to_accelerator else island_end(to)
    ports = {at: fabric.port_to(at, neighbour) for at, neighbour in intent.next_hops}
    wanted = match(eth_type=ETH_TYPE_IPV4, ipv4_dst=fabric.end_ip(end))
    mark = cookie("unicast", fabric.dpid(to) | _ACCELERATORS * intent.to_accelerator)
    for at, port in {**ports, to: fabric.port_to(to, end)}.items():
        drafts[at].add(at, Rule(PRIORITY_UNICAST, wanted, (Output(port),), mark))


def _compile_arp(fabric: Fabric, draft: _Draft, intent: ArpToController) -> None:
    draft.meters[ARP_METER] = Meter(ARP_METER, intent.rate_packets_per_s, intent.burst_packets)
    own = [ACCELERATOR_PORT] * (intent.site in fabric.accelerators)
    for port in (ACCESS_PORT, *own):
        asked = match(in_port=port, eth_type=ETH_TYPE_ARP, arp_op=ARP_REQUEST)
        actions = (ToController(ARP_BYTES),)
        draft.add(intent.site, Rule(PRIORITY_CONTROLLER, asked, actions, cookie("arp"), ARP_METER))


def _compile_igmp(draft: _Draft, intent: IgmpToController) -> None:
    draft.meters[IGMP_METER] = Meter(IGMP_METER, intent.rate_packets_per_s, intent.burst_packets)
    said = match(in_port=ACCESS_PORT, eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_IGMP)
    actions = (ToController(WHOLE_PACKET),)
    draft.add(intent.site, Rule(PRIORITY_CONTROLLER, said, actions, cookie("igmp"), IGMP_METER))


def _compile_tree(fabric: Fabric, drafts: Mapping[str, _Draft], placed: PlacedTree) -> None:
    if isinstance(placed.tree, MulticastTree):
        _compile_multicast(fabric, drafts, placed, placed.tree)
    else:
        for stream in placed.tree.streams:
            _compile_stream(fabric, drafts, placed, placed.tree, stream)


def _number_of(placed: PlacedTree) -> int:
    """Number of a version of a tree: of its groups, and in the cookies of its rules."""
    return placed.version << 16 | placed.tree.tree_id


def _tag(placed: PlacedTree) -> str:
    return tree_mac(placed.tree.tree_id, placed.version)


def _compile_multicast(
    fabric: Fabric, drafts: Mapping[str, _Draft], placed: PlacedTree, tree: MulticastTree
) -> None:
    """Each switch of the tree takes the packet from its parent's port only and copies it onward.

    The rule names its ingress port and no bucket names that port again, so no copy can turn back,
    and a copy that strays in elsewhere is dropped.
    """
    asked: Asked = {"ipv4_src": fabric.end_ip(tree.source_end), "ipv4_dst": tree.group_ip}
    mark = cookie("multicast", _number_of(placed))
    for site in tree.sites():
        ports, parent = _ports_onward(fabric, tree, site), tree.parent(site)
        if not ports or (parent is None and not placed.entries):
            continue
        came_by = fabric.port_to(site, tree.source_end if parent is None else parent)
        actions = _copies(drafts[site], placed, ports, site)
        if parent is None:
            wanted, actions = _entry(came_by, asked), (SetField("eth_src", _tag(placed)), *actions)
        else:
            wanted = _tagged(came_by, asked, placed)
        drafts[site].add(site, Rule(PRIORITY_TREE, wanted, actions, mark))


def _entry(in_port: int, asked: Asked) -> Match:
    return match(in_port=in_port, eth_type=ETH_TYPE_IPV4, **asked)


def _tagged(in_port: int, asked: Asked, placed: PlacedTree) -> Match:
    return match(in_port=in_port, eth_type=ETH_TYPE_IPV4, eth_src=_tag(placed), **asked)


def _ports_onward(fabric: Fabric, tree: MulticastTree, site: str) -> tuple[int, ...]:
    ends = [*tree.children(site)]
    ends += [island_end(site)] * (site in tree.receivers)
    ends += [accelerator_end(site)] * (site in tree.accelerators)
    return tuple(sorted(fabric.port_to(site, end) for end in ends))


def _copies(
    draft: _Draft, placed: PlacedTree, ports: tuple[int, ...], site: str
) -> tuple[Action, ...]:
    """One port needs no group, which saves entries of a table that is small in real switches."""
    if len(ports) == 1:
        return (Output(ports[0]),)
    number = _number_of(placed)
    group = Group(number, tuple((Output(port),) for port in ports))
    if draft.groups.setdefault(number, group) != group:
        raise UserError(f"{site}: two trees have the number {placed.tree.tree_id}")
    return (ToGroup(number),)


def _compile_stream(
    fabric: Fabric,
    drafts: Mapping[str, _Draft],
    placed: PlacedTree,
    tree: AggregationTree,
    stream: Stream,
) -> None:
    """Each switch on the way takes the stream from one port, and from its own sender only.

    At its end it is addressed to whoever receives it there, an accelerator or the root's island, so
    that an ordinary UDP socket gets it. On the way it keeps the tree's address.
    """
    asked: Asked = {
        "ip_proto": IP_PROTO_UDP,
        "ipv4_src": fabric.end_ip(stream.source_end),
        "ipv4_dst": tree.address,
    }
    mark = cookie("aggregation", _number_of(placed))
    ends = (stream.source_end, *stream.path, stream.target_end)
    for before, site, after in zip(ends, ends[1:-1], ends[2:], strict=False):
        came_by = fabric.port_to(site, before)
        onward: tuple[Action, ...] = (Output(fabric.port_to(site, after)),)
        if after == stream.target_end:
            onward = (*_addressed_to(fabric, after), *onward)
        enters = before == stream.source_end
        if enters:
            onward = (SetField("eth_src", _tag(placed)), *onward)
        wanted = _entry(came_by, asked) if enters else _tagged(came_by, asked, placed)
        if placed.entries or not enters:
            drafts[site].add(site, Rule(PRIORITY_TREE, wanted, onward, mark))


def _addressed_to(fabric: Fabric, end: str) -> tuple[Action, ...]:
    return (SetField("eth_dst", fabric.end_mac(end)), SetField("ipv4_dst", fabric.end_ip(end)))
