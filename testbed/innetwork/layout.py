"""One clique's trees, as controller, accelerators and workers each need to see them. Pure.

A plan says which islands meet, with which collective, over which trees. To run it, three parties
must be told the same thing in their own words:

    controller     which packets go where             controller.trees
    accelerators   whose packets are summed, and      testbed.accelerator.config.TreeConfig
                   where the sum goes
    workers        where to send, what will come,     workloads.innetwork.job.GroupJob
                   how fast and how far

`lay_out` derives all three from one `PlannedRound` and one numbering, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from controller.fabric import Fabric, accelerator_end, group_ip, island_end, tree_ip
from controller.trees import AggregationTree, MulticastTree, Tree
from schedules.capabilities import AGGREGATION, INNETWORK, MULTICAST
from schedules.plan import PlannedTree
from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.placement import Job as TreeNumbers
from testbed.accelerator.placement import shape_of, tree_configs
from testbed.innetwork import delays
from topologies.errors import UserError
from topologies.model import Topology
from topologies.routing import Routes, least_delay_routes
from workloads.innetwork.job import (
    FRAME_OVERHEAD_BYTES,
    HEADER_BYTES,
    GroupJob,
    MemberPlace,
    Place,
    TreeJob,
    window_for,
)

ACCELERATOR_PORT = 7000
FIRST_MEMBER_PORT = 7100
LEAST_HOLD_US = 5000
PACKET_OVERHEAD_BYTES = 28 + 64  # IPv4 and UDP headers, and the protocol's own


class Numbering:
    """Hands out the numbers that must be unique in a run: trees, group addresses, ports."""

    def __init__(self) -> None:
        self._trees, self._groups = count(1), count(1)
        self._ports = count(FIRST_MEMBER_PORT)

    def tree_id(self) -> int:
        """Return the next tree's number at the controller."""
        return next(self._trees)

    def group_ip(self) -> str:
        """Return the next multicast address of the run's block."""
        return group_ip(next(self._groups))

    def member_port(self) -> int:
        """Return the UDP port of the members of the next group."""
        return next(self._ports)


@dataclass(frozen=True)
class CliqueWork:
    """A clique that is to be laid out, or a part of its messages.

    Attributes:
        collective: `multicast`, `aggregation` or `innetwork`.
        members: site codes.
        trees: the plan's trees of this clique, or of this part of its messages: one a root.
        rate_mbps: of one copy of a member's stream, headers included.
        job: random number of 64 bits.
        key: secret of 64 bits.
        share: of every message, that takes these trees.
    """

    collective: str
    members: tuple[str, ...]
    trees: tuple[PlannedTree, ...]
    rate_mbps: float
    job: int
    key: int
    share: float = 1.0


@dataclass(frozen=True)
class Layout:
    """What each party is told of one clique, or of a part of its messages.

    Attributes:
        trees: what the controller lays out.
        accelerators: what each site's accelerator opens.
        group: what the workers read.
    """

    trees: tuple[Tree, ...]
    accelerators: Mapping[str, tuple[TreeConfig, ...]]
    group: GroupJob


class Wan(Protocol):
    """A network that stands, or is only drawn."""

    @property
    def topology(self) -> Topology:
        """Sites and links as emulated."""

    @property
    def routes(self) -> Routes:
        """Unicast ways."""

    @property
    def fabric(self) -> Fabric:
        """Addresses and numbers."""


@dataclass(frozen=True)
class DrawnWan:
    """A network that nobody has built."""

    topology: Topology
    routes: Routes
    fabric: Fabric

    @classmethod
    def of(cls, topology: Topology, accelerators: Iterable[str] = ()) -> DrawnWan:
        """Return what a topology, rates scaled, with accelerators at some sites, will be."""
        fabric = Fabric.of(topology, tuple(sorted(accelerators)))
        return cls(topology, least_delay_routes(topology), fabric)


@dataclass(frozen=True)
class Ground:
    """Where cliques are laid out: the network, and the rank of the worker at each site."""

    topology: Topology
    routes: Routes
    fabric: Fabric
    ranks: Mapping[str, int]
    fan_in: Mapping[str, int]

    @property
    def area_bytes(self) -> int:
        """Room for payload in one packet: what the MTU leaves, in whole words of 8 bytes."""
        return (self.topology.mtu_bytes - PACKET_OVERHEAD_BYTES) // 8 * 8


def lay_out(work: CliqueWork, ground: Ground, numbering: Numbering) -> Layout:
    """Return what every party must know to run one clique's collective.

    Raises:
        UserError: the trees cannot be laid out; the text says which and why.
    """
    members = tuple(sorted(work.members, key=lambda site: ground.ranks[site]))
    port = numbering.member_port()
    placed = _placed(work, ground, numbering)
    round_trip_ms = max(_round_trip_ms(one, ground) for one in placed)
    window = window_for(work.rate_mbps, round_trip_ms, ground.area_bytes)
    group = GroupJob(
        kind=work.collective,
        job=work.job,
        key=work.key,
        window=window,
        area_bytes=ground.area_bytes,
        rate_mbps=work.rate_mbps,
        round_trip_ms=round_trip_ms,
        members=tuple(
            MemberPlace(ground.ranks[site], site, Place(ground.fabric.island_ip(site), port))
            for site in members
        ),
        trees=tuple(_tree_job(one, number, members, ground) for number, one in enumerate(placed)),
        share=work.share,
        frames_ms=max(_frames_ms(one, ground) for one in placed),
    )
    configs = [_configs(one, number, group, ground) for number, one in enumerate(placed)]
    return Layout(
        trees=tuple(tree for one in placed for tree in one.trees),
        accelerators=_by_site(configs),
        group=group,
    )


@dataclass(frozen=True)
class _Placed:
    """One tree of a group with its numbers: a way up, a way down, or both."""

    up: AggregationTree | None = None
    down: MulticastTree | None = None

    @property
    def trees(self) -> tuple[Tree, ...]:
        return tuple(tree for tree in (self.up, self.down) if tree is not None)


def _placed(work: CliqueWork, ground: Ground, numbering: Numbering) -> list[_Placed]:
    up = [tree for tree in work.trees if tree.kind == "aggregation"]
    down = [tree for tree in work.trees if tree.kind == "multicast"]
    if work.collective == INNETWORK:
        return [
            _Placed(_going_up(above, ground, numbering), _going_down(below, numbering))
            for above, below in zip(up, down, strict=True)
        ]
    if work.collective == AGGREGATION:
        return [_Placed(up=_going_up(tree, ground, numbering)) for tree in up]
    if work.collective == MULTICAST:
        return [_Placed(down=_going_down(tree, numbering)) for tree in down]
    raise UserError(f"collective {work.collective} has no trees to lay out")


def _going_up(tree: PlannedTree, ground: Ground, numbering: Numbering) -> AggregationTree:
    """The controller's tree; where nothing sums, the root's accelerator answers for the tree."""
    sums_at = tree.sums_at or (tree.root,)
    return AggregationTree(
        tree_id=numbering.tree_id(),
        root=tree.root,
        hops=tree.hops,
        members=tree.members,
        sums_at=sums_at,
        at_island=tree.at_island,
        fan_in=tuple((site, ground.fan_in[site]) for site in sums_at if site in ground.fan_in),
    )


def _going_down(tree: PlannedTree, numbering: Numbering) -> MulticastTree:
    return MulticastTree(
        tree_id=numbering.tree_id(),
        group_ip=numbering.group_ip(),
        root=tree.root,
        hops=tree.hops,
        receivers=tree.members,
        at_island=tree.at_island,
    )


def top_accelerator(tree: AggregationTree) -> str:
    """Return the site whose accelerator holds the whole sum.

    Raises:
        UserError: there is none, so that a receiver would have to add several streams itself.
    """
    if not tree.at_island:
        return tree.root
    arriving = tree.children(island_end(tree.root))
    if len(arriving) != 1 or not arriving[0].endswith(".accelerator"):
        raise UserError(
            f"aggregation towards {tree.root}: {len(arriving)} streams would arrive there, and an "
            "accelerator must sum all of them: give accelerators more fan-in, or more sites one"
        )
    return arriving[0].removesuffix(".accelerator")


def _tree_job(one: _Placed, number: int, members: Sequence[str], ground: Ground) -> TreeJob:
    place = {site: index for index, site in enumerate(members)}
    group = None if one.down is None else Place(one.down.group_ip, ACCELERATOR_PORT)
    if one.up is None:
        assert one.down is not None and group is not None
        return TreeJob(number, leaves=(place[one.down.root],), children=(0,), entry=group)
    leaves = sorted(one.up.members, key=lambda site: place[site])
    return TreeJob(
        number=number,
        leaves=tuple(place[site] for site in leaves),
        children=tuple(_child_index(one.up, site) for site in leaves),
        entry=Place(tree_ip(one.up.tree_id), ACCELERATOR_PORT),
        root=Place(ground.fabric.accelerator_ip(top_accelerator(one.up)), ACCELERATOR_PORT),
        group=group,
        receiver=place[one.up.root] if one.down is None else None,
    )


def _child_index(tree: AggregationTree, site: str) -> int:
    end = island_end(site)
    parent = tree.parent(end)
    assert parent is not None
    return tree.children(parent).index(end)


def _configs(
    one: _Placed, number: int, group: GroupJob, ground: Ground
) -> Mapping[str, TreeConfig]:
    """What the accelerators of one tree are told, by site."""
    if one.up is None:
        return {}
    unicast = {m.site: Address(m.place.address, m.place.port) for m in group.members}
    if one.down is not None:
        results: tuple[Address, ...] = (Address(one.down.group_ip, ACCELERATOR_PORT),)
        notices: tuple[Address, ...] = ()
    else:
        # By the tree's own links: what is addressed to the island itself takes unicast's.
        results = (Address(one.up.address, unicast[one.up.root].port),)
        notices = tuple(unicast[m.site] for m in group.members if m.site != one.up.root)
    islands = {island_end(site): address for site, address in unicast.items()}
    sums_at = (accelerator_end(site) for site in one.up.sums_at)
    machines = {end: Address(ground.fabric.end_ip(end), ACCELERATOR_PORT) for end in sums_at}
    shape = shape_of(
        one.up, ACCELERATOR_PORT, {**islands, **machines}, list(islands), results, notices
    )
    numbers = TreeNumbers(
        group.job, number, group.key, group.window, hold_us=hold_us(group.round_trip_ms)
    )
    told = tree_configs(numbers, shape)
    return {end.removesuffix(".accelerator"): config for end, config in told.items()}


def hold_us(round_trip_ms: float) -> int:
    """Return how long a repetition is not asked for again: a quarter of the way there and back."""
    return max(LEAST_HOLD_US, round(round_trip_ms * 1000 / 4))


def _by_site(configs: Iterable[Mapping[str, TreeConfig]]) -> dict[str, tuple[TreeConfig, ...]]:
    found: dict[str, tuple[TreeConfig, ...]] = {}
    for told in configs:
        for site, config in told.items():
            found[site] = (*found.get(site, ()), config)
    return found


def _round_trip_ms(one: _Placed, ground: Ground) -> float:
    """The longest way of a packet and of what answers it, without queues."""
    topology, routes = ground.topology, ground.routes
    if one.up is None:
        assert one.down is not None
        down = delays.down_ms(topology, one.down.root, one.down.hops)
        first = delays.from_island_ms(topology, one.down.root)
        return max(
            first
            + down[site]
            + delays.to_island_ms(topology, site)
            + routes.one_way_delay_ms(site, one.down.root)
            for site in one.down.receivers
        )
    up = delays.up_ms(topology, one.up.root, one.up.hops)
    upwards = max(up[site] + delays.from_island_ms(topology, site) for site in one.up.members)
    return upwards + _answer_ms(one, ground)


def _frames_ms(one: _Placed, ground: Ground) -> float:
    """What a full packet takes on all links of its way, since it is sent whole over each."""
    frame_bytes = ground.area_bytes + HEADER_BYTES + FRAME_OVERHEAD_BYTES
    times = delays.FrameTimes(ground.topology, frame_bytes)
    total = 0.0
    if one.up is not None:
        up = delays.up_ms(times, one.up.root, one.up.hops)
        total += max(up[site] + delays.from_island_ms(times, site) for site in one.up.members)
    if one.down is not None:
        down = delays.down_ms(times, one.down.root, one.down.hops)
        total += max(down[site] + delays.to_island_ms(times, site) for site in one.down.receivers)
    return total


def _answer_ms(one: _Placed, ground: Ground) -> float:
    topology = ground.topology
    if one.down is None:
        assert one.up is not None
        root = one.up.root
        back = [ground.routes.one_way_delay_ms(root, site) for site in one.up.members]
        return max([*back, delays.to_island_ms(topology, root)])
    down = delays.down_ms(topology, one.down.root, one.down.hops)
    return max(down[site] + delays.to_island_ms(topology, site) for site in one.down.receivers)


def merged(layouts: Iterable[Layout]) -> Mapping[str, tuple[TreeConfig, ...]]:
    """Return everything that each site's accelerator is to open for several cliques."""
    return _by_site(
        {site: config}
        for one in layouts
        for site, told in one.accelerators.items()
        for config in told
    )


def tree_requests(trees: Iterable[Tree]) -> list[dict[str, object]]:
    """Return trees as the controller's northbound interface takes them."""
    return [_request(tree) for tree in trees]


def _request(tree: Tree) -> dict[str, object]:
    common: dict[str, object] = {
        "tree_id": tree.tree_id,
        "root": tree.root,
        "at_island": tree.at_island,
        "hops": [[*hop] for hop in tree.hops],
    }
    if isinstance(tree, MulticastTree):
        mine = {"members": [*tree.receivers], "group_ip": tree.group_ip}
        return {**common, "kind": "multicast", **mine}
    own = {"members": [*tree.members], "sums_at": [*tree.sums_at], "fan_in": dict(tree.fan_in)}
    return {**common, "kind": "aggregation", **own}
