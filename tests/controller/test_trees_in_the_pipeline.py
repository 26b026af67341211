"""What the rules of trees do to packets: random trees, random networks, at rest and on the move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.compile import compile_intents
from controller.diff import Change, phases
from controller.fabric import ACCELERATOR_PORT, ACCESS_PORT, Fabric, tree_mac
from controller.intents import AggregationTree, MulticastTree, PlacedTree, Tree
from controller.messages import change_message
from controller.rollout import Rollout
from controller.rules import SwitchState
from controller.view import NetworkView, states
from tests.controller.networks import (
    aggregation_trees,
    connected_topologies,
    hops_to,
    multicast_trees,
    triangle,
)
from tests.controller.pipeline import Copy, Journey, Packet, PipelineNetwork, datapath, wire
from topologies.errors import UserError
from topologies.model import Topology


def _apply(network: PipelineNetwork, site: str, changes: Iterable[Change]) -> None:
    for change in changes:
        network.switches[site].handle(wire(change_message(datapath(), change)))


def _network(fabric: Fabric, wanted: Mapping[str, SwitchState]) -> PipelineNetwork:
    network = PipelineNetwork.of(fabric)
    for site, state in wanted.items():
        for phase in phases(SwitchState(), state):
            _apply(network, site, phase)
    return network


def _with_tree(net: Topology, *trees: Tree) -> PipelineNetwork:
    fabric = Fabric.of(net, net.codes)
    return _network(fabric, states(fabric, NetworkView(net, trees=trees)))


def _packet(fabric: Fabric, source_end: str, address: str, **more: int | str) -> Packet:
    return {
        "eth_type": 0x0800,
        "ip_proto": 17,
        "eth_src": fabric.end_mac(source_end),
        "ipv4_src": fabric.end_ip(source_end),
        "ipv4_dst": address,
        **more,
    }


def _enter(network: PipelineNetwork, end: str, address: str) -> Journey:
    """Send a packet of an end's own out of its port."""
    site, _, kind = end.rpartition(".")
    port = ACCESS_PORT if kind == "island" else ACCELERATOR_PORT
    return network.send(site, _packet(network.fabric, end, address), port)


# --- copies --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(connected_topologies(), st.data())
def test_every_receiver_gets_one_copy_over_each_link_once(
    net: Topology, data: st.DataObject
) -> None:
    tree = data.draw(multicast_trees(net))
    network = _with_tree(net, tree)
    journey = _enter(network, tree.source_end, tree.group_ip)
    assert journey.islands == dict.fromkeys(tree.receivers, 1)
    assert journey.accelerators == dict.fromkeys(tree.accelerators, 1)
    assert journey.links == dict.fromkeys(tree.hops, 1)
    assert not journey.controller
    assert {packet["ipv4_dst"] for _, packet in journey.received} <= {tree.group_ip}


@settings(max_examples=30, deadline=None)
@given(connected_topologies(), st.data())
def test_what_comes_in_elsewhere_or_in_another_name_is_dropped(
    net: Topology, data: st.DataObject
) -> None:
    tree = data.draw(st.one_of(multicast_trees(net), aggregation_trees(net)))
    network = _with_tree(net, tree)
    fabric = network.fabric
    tag = tree_mac(tree.tree_id, 0)
    island, own = [f"{code}.island" for code in net.codes], f"{tree.root}.accelerator"
    sender = data.draw(st.sampled_from([*island, own]))
    site = data.draw(st.sampled_from(net.codes))
    port = data.draw(st.sampled_from([p for p in fabric.ports(site) if p >= 1]))
    packet = _packet(fabric, sender, tree.address, eth_src=data.draw(st.sampled_from([tag, "x"])))
    expected = _expected_ports(fabric, tree, sender, site, packet["eth_src"] == tag)
    journey = network.send(site, packet, port)
    assert bool(journey.received or journey.links) is (port in expected)


def _expected_ports(fabric: Fabric, tree: Tree, sender: str, site: str, tagged: bool) -> set[int]:
    """Ports of a site by which packets of a sender belong to the tree, worked out by hand."""
    expected = set()
    if isinstance(tree, MulticastTree):
        ends = {*tree.receivers, *tree.accelerators, *(child for _, child in tree.hops)}
        if sender == tree.source_end and tagged and site in ends - {tree.root}:
            expected.add(fabric.port_to(site, str(tree.parent(site))))
        if sender == tree.source_end and site == tree.root and ends:
            expected.add(fabric.port_to(site, sender))
        return expected
    for stream in tree.streams:
        if stream.source_end == sender and site in stream.path:
            place = stream.path.index(site)
            before = sender if place == 0 else stream.path[place - 1]
            if place == 0 or tagged:
                expected.add(fabric.port_to(site, before))
    return expected


def test_a_tree_with_an_accelerator_where_there_is_none_is_refused() -> None:
    tree = MulticastTree(1, "239.1.1.1", "NYC", (), ("NYC",), at_island=False)
    with pytest.raises(UserError, match="NYC has no accelerator"):
        compile_intents(Fabric.of(triangle(), ["AMS"]), [tree])


# --- sums ----------------------------------------------------------------------------------------


@dataclass
class _Accelerators:
    """Accelerators that wait for a packet of each child and send the sum of what they were sent.

    A "sum" is the multiset of islands that contributed, so a loss or a double shows.
    """

    network: PipelineNetwork
    tree: AggregationTree
    arrived: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    at_root: Counter[str] = field(default_factory=Counter)
    loads: Counter[tuple[str, str]] = field(default_factory=Counter)

    def send(self, end: str, content: Counter[str]) -> None:
        journey = _enter(self.network, end, self.tree.address)
        self.loads.update(journey.links)
        assert len(journey.received) == 1, f"{end} is received {len(journey.received)} times"
        ((target, packet),) = journey.received
        fabric = self.network.fabric
        assert packet["ipv4_dst"] == fabric.end_ip(target)
        assert packet["eth_dst"] == fabric.end_mac(target)
        assert packet["ipv4_src"] == fabric.end_ip(end)
        if target.endswith(".island"):
            assert target == f"{self.tree.root}.island"
            self.at_root.update(content)
        else:
            self._sum(target, end, content)

    def _sum(self, accelerator: str, child: str, content: Counter[str]) -> None:
        parts = self.arrived.setdefault(accelerator, {})
        assert child not in parts
        parts[child] = content
        if set(parts) != set(self.tree.children(accelerator)):
            return
        total: Counter[str] = Counter()
        for part in parts.values():
            total.update(part)
        if self.tree.parent(accelerator) is None:
            self.at_root.update(total)
        else:
            self.send(accelerator, total)


@settings(max_examples=60, deadline=None)
@given(connected_topologies(), st.data())
def test_every_contribution_is_in_the_sum_once(net: Topology, data: st.DataObject) -> None:
    tree = data.draw(aggregation_trees(net, fan_in=True))
    accelerators = _Accelerators(_with_tree(net, tree), tree)
    for site in data.draw(st.permutations(tree.members)):
        accelerators.send(f"{site}.island", Counter([site]))
    assert accelerators.at_root == Counter(tree.members)
    allowed = {(child, parent) for parent, child in tree.hops}
    assert set(accelerators.loads) <= allowed


def test_the_last_sum_must_leave_by_the_group_and_not_up_the_tree() -> None:
    tree = AggregationTree(3, "NYC", (("NYC", "LON"),), ("LON", "NYC"), ("NYC",), at_island=False)
    network = _with_tree(triangle(), tree)
    assert not _enter(network, "NYC.accelerator", tree.address).received


def test_a_sum_goes_up_and_its_copies_come_down_to_every_member() -> None:
    net = triangle()
    hops = (("LON", "AMS"), ("LON", "NYC"))
    up = AggregationTree(1, "LON", hops, net.codes, ("LON",), at_island=False)
    down = MulticastTree(2, "239.192.0.1", "LON", hops, net.codes, at_island=False)
    network = _with_tree(net, up, down)
    for code in net.codes:
        assert _enter(network, f"{code}.island", up.address).accelerators == {"LON": 1}
    journey = _enter(network, "LON.accelerator", down.group_ip)
    assert journey.islands == {"AMS": 1, "LON": 1, "NYC": 1}


def test_islands_and_accelerators_reach_one_another_by_unicast() -> None:
    network = _with_tree(triangle())
    fabric = network.fabric
    for site in fabric.codes:
        for other in fabric.codes:
            to = fabric.accelerator_ip(other)
            assert _enter(network, f"{site}.island", to).accelerators == {other: 1}
            to = fabric.island_ip(other)
            assert _enter(network, f"{site}.accelerator", to).islands == {other: 1}


# --- moves ---------------------------------------------------------------------------------------


@dataclass
class _Mover:
    """A network in which switches change one message at a time while packets are on their way."""

    fabric: Fabric
    data: st.DataObject
    network: PipelineNetwork
    holding: dict[str, SwitchState]
    sent: Copy
    pending: dict[str, list[list[Change]]] = field(default_factory=dict)
    flying: list[tuple[Journey, Copy]] = field(default_factory=list)
    journeys: list[Journey] = field(default_factory=list)

    def want(self, placed: Iterable[PlacedTree]) -> None:
        """Switches will come to hold this, a phase after the other, each in its own time."""
        for site, state in compile_intents(self.fabric, placed).items():
            steps = [list(phase) for phase in phases(self.holding[site], state)]
            self.pending[site] = steps
            self.holding[site] = state

    def race(self) -> None:
        """Let packets and messages race until every switch has changed."""
        while any(self.pending.values()):
            busy = [("switch", s) for s, steps in self.pending.items() if any(steps)]
            busy += [("packet", "")] * bool(self.flying) + [("send", "")] * (len(self.journeys) < 9)
            kind, name = self.data.draw(st.sampled_from(busy))
            if kind == "switch":
                self._change(name)
            elif kind == "packet":
                self._step(self.data.draw(st.integers(0, len(self.flying) - 1)))
            else:
                journey = Journey()
                self.journeys.append(journey)
                self.flying.append((journey, self.sent))
            self.pending = {s: [p for p in steps if p] for s, steps in self.pending.items()}

    def land(self) -> None:
        """Let every packet arrive."""
        while self.flying:
            self._step(0)

    def _change(self, site: str) -> None:
        phase = self.pending[site][0]
        change = phase.pop(self.data.draw(st.integers(0, len(phase) - 1)))
        _apply(self.network, site, [change])

    def _step(self, number: int) -> None:
        journey, copy = self.flying.pop(number)
        self.flying += [(journey, next_copy) for next_copy in self.network.step(journey, copy)]


def _journeys_during_move(
    net: Topology, data: st.DataObject, old: Tree, new: Tree, source_end: str
) -> list[Journey]:
    """Where packets of a sender went that were sent at any moment while one tree became another."""
    fabric = Fabric.of(net, net.codes)
    site = source_end.rpartition(".")[0]
    sent = (site, fabric.port_to(site, source_end), _packet(fabric, source_end, old.address))
    rollout = Rollout().wanting([old], 0.0, lambda tree: 0.0)
    held = dict(compile_intents(fabric, rollout.placed()))
    mover = _Mover(fabric, data, _network(fabric, held), held, sent)
    rollout = rollout.wanting([new], 0.0, lambda tree: 0.0)
    mover.want(rollout.placed())
    mover.race()
    rollout = rollout.after(lambda tree: True, 1.0, lambda tree: 0.0)
    mover.want(rollout.placed())
    mover.race()
    mover.land()  # the old rules stay longer than a packet's journey
    rollout = rollout.after(lambda tree: True, 1000.0, lambda tree: 0.0)
    mover.want(rollout.placed())
    mover.race()
    mover.land()
    assert [placed.tree for placed in rollout.placed()] == [new]
    return mover.journeys


@settings(max_examples=60, deadline=None)
@given(connected_topologies(most_sites=6), st.data())
def test_no_packet_is_lost_or_doubled_while_a_multicast_tree_moves(
    net: Topology, data: st.DataObject
) -> None:
    old = data.draw(multicast_trees(net))
    ends = {*old.receivers, *old.accelerators}
    hops = data.draw(hops_to(net, old.root, ends))
    new = MulticastTree(
        1, old.group_ip, old.root, hops, old.receivers, old.at_island, old.accelerators
    )
    for journey in _journeys_during_move(net, data, old, new, old.source_end):
        assert journey.islands == dict.fromkeys(old.receivers, 1)
        assert journey.accelerators == dict.fromkeys(old.accelerators, 1)


@settings(max_examples=40, deadline=None)
@given(connected_topologies(most_sites=6), st.data())
def test_no_packet_is_lost_or_doubled_while_an_aggregation_tree_moves(
    net: Topology, data: st.DataObject
) -> None:
    old = data.draw(aggregation_trees(net))
    hops = data.draw(hops_to(net, old.root, old.members))
    kept = (old.root,) if old.root in old.sums_at else ()
    new = AggregationTree(1, old.root, hops, old.members, kept, old.at_island)
    sender = f"{data.draw(st.sampled_from(old.members))}.island"
    ends = {s.target_end for s in (*old.streams, *new.streams) if s.source_end == sender}
    for journey in _journeys_during_move(net, data, old, new, sender):
        assert len(journey.received) == 1
        assert journey.received[0][0] in ends
