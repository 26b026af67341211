"""What compiled rules do to packets, on random topologies with ties, loops and cut links."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.compile import compile_intents, kind_of_cookie
from controller.diff import phases
from controller.fabric import Fabric
from controller.intents import (
    MulticastTree,
    UnicastRoutes,
    arp_intents,
    least_delay_tree,
    unicast_intents,
)
from controller.messages import phase_messages
from controller.rules import SwitchState
from controller.view import NetworkView, plan, states
from tests.controller.networks import connected_topologies, topology, triangle
from tests.controller.pipeline import Packet, PipelineNetwork, PipelineSwitch, datapath, wire
from topologies.errors import UserError
from topologies.files import load
from topologies.model import Topology
from topologies.routing import least_delay_routes

GROUP_IP = "239.192.0.1"
ARP_REQUEST: Packet = {"eth_type": 0x0806, "arp_op": 1}


def _program(switch: PipelineSwitch, wanted: SwitchState) -> None:
    for phase in phases(SwitchState(), wanted):
        for message in phase_messages(datapath(), phase):
            switch.handle(wire(message))


def _network(view: NetworkView) -> PipelineNetwork:
    fabric = Fabric.of(view.topology)
    network = PipelineNetwork.of(fabric)
    for code, wanted in states(fabric, view).items():
        _program(network.switches[code], wanted)
    return network


def _ipv4(network: PipelineNetwork, a: str, b: str) -> Packet:
    fabric = network.fabric
    return {"eth_type": 0x0800, "ipv4_src": fabric.island_ip(a), "ipv4_dst": fabric.island_ip(b)}


def _graph(net: Topology) -> nx.Graph:
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(net.codes)
    for link in net.links:
        graph.add_edge(link.a, link.b, ms=link.forward.one_way_delay_ms)
    return graph


def _assert_reached_by_least_delay(
    network: PipelineNetwork, graph: nx.Graph, a: str, b: str
) -> None:
    journey = network.send(a, _ipv4(network, a, b))
    assert journey.islands == {b: 1}
    assert not journey.controller
    assert set(journey.links.values()) <= {1}
    delay_ms = sum(graph.edges[hop]["ms"] for hop in journey.links)
    assert delay_ms == pytest.approx(nx.shortest_path_length(graph, a, b, weight="ms"))


@settings(max_examples=40, deadline=None)
@given(connected_topologies())
def test_every_pair_is_delivered_exactly_once_by_least_delay(net: Topology) -> None:
    network, graph = _network(NetworkView(net)), _graph(net)
    for a in net.codes:
        for b in net.codes:
            if a != b:
                _assert_reached_by_least_delay(network, graph, a, b)


@settings(max_examples=40, deadline=None)
@given(connected_topologies(), st.data())
def test_after_a_port_goes_down_the_rest_is_still_reached(
    net: Topology, data: st.DataObject
) -> None:
    fabric, graph = Fabric.of(net), _graph(net)
    link = data.draw(st.sampled_from(net.links))
    end, other = data.draw(st.permutations([link.a, link.b]))
    view = NetworkView(net).with_port(fabric, end, fabric.port_to(end, other), up=False)
    network = _network(view)
    graph.remove_edge(link.a, link.b)
    for a in net.codes:
        for b in net.codes:
            if a != b and nx.has_path(graph, a, b):
                _assert_reached_by_least_delay(network, graph, a, b)
            elif a != b:
                assert not network.send(a, _ipv4(network, a, b)).islands


@settings(max_examples=20, deadline=None)
@given(connected_topologies())
def test_arp_requests_of_an_island_go_to_the_controller_and_nowhere_else(net: Topology) -> None:
    network = _network(NetworkView(net))
    for code in net.codes:
        journey = network.send(code, ARP_REQUEST)
        assert journey.controller == {code: 1}
        assert not journey.islands and not journey.links


@settings(max_examples=20, deadline=None)
@given(
    connected_topologies(),
    st.sampled_from(
        [
            {"eth_type": 0x86DD},
            {"eth_type": 0x0800, "ipv4_src": "10.0.0.1", "ipv4_dst": "224.0.0.251"},
            {"eth_type": 0x0800, "ipv4_src": "10.0.0.1", "ipv4_dst": "255.255.255.255"},
            {"eth_type": 0x0800, "ipv4_src": "10.0.0.1", "ipv4_dst": "10.0.99.99"},
            {"eth_type": 0x0806, "arp_op": 2},
            {"eth_type": 0x88CC},
        ]
    ),
)
def test_noise_is_dropped_where_it_enters(net: Topology, noise: Packet) -> None:
    network = _network(NetworkView(net))
    for code in net.codes:
        for port in network.fabric.ports(code):
            journey = network.send(code, noise, in_port=port)
            assert not journey.islands and not journey.links and not journey.controller


def test_arp_that_comes_over_the_wan_is_dropped() -> None:
    network = _network(NetworkView(triangle()))
    assert not network.send("LON", ARP_REQUEST, in_port=2).controller


@settings(max_examples=40, deadline=None)
@given(connected_topologies(), st.data())
def test_a_multicast_reaches_each_receiver_once_over_each_tree_link_once(
    net: Topology, data: st.DataObject
) -> None:
    root = data.draw(st.sampled_from(net.codes))
    receivers = data.draw(st.sets(st.sampled_from(net.codes))) - {root}
    tree = least_delay_tree(least_delay_routes(net), 7, GROUP_IP, root, receivers)
    network = _network(NetworkView(net, trees=(tree,)))
    packet = {**_ipv4(network, root, root), "ipv4_dst": GROUP_IP}
    journey = network.send(root, packet)
    assert journey.islands == dict.fromkeys(receivers, 1)
    assert journey.links == dict.fromkeys(tree.hops, 1)
    for other in net.codes:
        if other != root:
            assert not network.send(other, packet).islands, "accepted from a port off the tree"


def test_two_senders_to_one_group_use_a_tree_each() -> None:
    net = triangle()
    routes = least_delay_routes(net)
    trees = (
        least_delay_tree(routes, 1, GROUP_IP, "AMS", ("LON", "NYC")),
        least_delay_tree(routes, 2, GROUP_IP, "NYC", ("AMS", "LON")),
    )
    network = _network(NetworkView(net, trees=trees))
    packet = {**_ipv4(network, "NYC", "NYC"), "ipv4_dst": GROUP_IP}
    journey = network.send("NYC", packet)
    assert journey.islands == {"AMS": 1, "LON": 1}
    assert journey.links == {("NYC", "LON"): 1, ("LON", "AMS"): 1}


def test_only_a_switch_that_replicates_needs_a_group() -> None:
    net = triangle()
    tree = least_delay_tree(least_delay_routes(net), 9, GROUP_IP, "AMS", ("LON", "NYC"))
    states = compile_intents(Fabric.of(net), [tree])
    assert {code: len(state.groups) for code, state in states.items()} == {
        "AMS": 0,
        "LON": 1,
        "NYC": 0,
    }


def test_nine_cities_hold_nine_unicast_rules_and_one_each_for_arp_igmp_and_the_rest() -> None:
    net = load("nine_city")
    for state in states(Fabric.of(net), NetworkView(net)).values():
        kinds = sorted(kind_of_cookie(rule.cookie) for rule in state.rules)
        assert kinds == ["arp", "igmp", "miss"] + ["unicast"] * 9


def test_buenos_aires_hangs_on_one_link_and_is_unreachable_without_it() -> None:
    net = load("nine_city")
    fabric = Fabric.of(net)
    view = NetworkView(net).with_port(fabric, "NYC", fabric.port_to("NYC", "BAR"), up=False)
    unreachable = plan(fabric, view).unreachable
    assert len(unreachable) == 16
    assert all("BAR" in pair for pair in unreachable)


def test_a_port_down_at_one_end_takes_both_directions_down() -> None:
    fabric = Fabric.of(triangle())
    view = NetworkView(triangle()).with_port(fabric, "NYC", fabric.port_to("NYC", "LON"), up=False)
    assert [str(way) for way in view.links_down(fabric)] == ["LON>NYC", "NYC>LON"]


def test_a_port_that_the_model_does_not_know_changes_nothing() -> None:
    fabric, view = Fabric.of(triangle()), NetworkView(triangle())
    assert view.with_port(fabric, "NYC", 0xFFFFFFFE, up=False) is view


def test_ports_a_switch_does_not_list_are_down() -> None:
    fabric = Fabric.of(triangle())
    view = NetworkView(triangle()).with_ports(fabric, "AMS", {1: True, 2: True})
    assert view.ports_down == {("AMS", 3)}


def test_two_intents_for_the_same_packets_are_refused() -> None:
    net = triangle()
    twice = [UnicastRoutes("NYC", (("AMS", "LON"),)), UnicastRoutes("NYC", (("AMS", "NYC"),))]
    with pytest.raises(UserError, match="AMS: two intents claim the packets"):
        compile_intents(Fabric.of(net), twice)


def test_compiling_is_independent_of_the_order_of_intents() -> None:
    net = load("nine_city")
    routes = least_delay_routes(net)
    intents = [*unicast_intents(routes), *arp_intents(net)]
    fabric = Fabric.of(net)
    assert compile_intents(fabric, intents) == compile_intents(fabric, intents[::-1])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"group_ip": "10.0.0.1"}, "no IPv4 multicast address"),
        ({"group_ip": "all"}, "no IPv4 multicast address"),
        ({"tree_id": 0}, "not within 1"),
        ({"receivers": ("NYC", "SEO")}, "SEO not reached from AMS"),
        ({"receivers": ("AMS",)}, "its root AMS cannot be a receiver"),
        ({"hops": (("AMS", "LON"), ("NYC", "LON"))}, "entered twice"),
        ({"hops": (("LON", "AMS"),)}, "entered twice"),
        ({"hops": (("AMS", "LON"), ("SEO", "TYO"), ("TYO", "SEO"))}, "SEO, TYO not reached"),
    ],
)
def test_what_is_no_tree_is_refused(fields: dict[str, object], complaint: str) -> None:
    good = {
        "tree_id": 1,
        "group_ip": GROUP_IP,
        "root": "AMS",
        "hops": (("AMS", "LON"), ("LON", "NYC")),
        "receivers": ("NYC",),
    }
    with pytest.raises(UserError, match=complaint):
        MulticastTree(**{**good, **fields})  # type: ignore[arg-type]


def test_equal_delays_are_told_apart_by_site_code() -> None:
    square = topology(
        ["A", "B", "C", "D"],
        [("A", "B", 1.0), ("A", "C", 1.0), ("B", "D", 1.0), ("C", "D", 1.0)],
    )
    network = _network(NetworkView(square))
    assert set(network.send("A", _ipv4(network, "A", "D")).links) == {("A", "B"), ("B", "D")}
    assert set(network.send("D", _ipv4(network, "D", "A")).links) == {("D", "B"), ("B", "A")}
