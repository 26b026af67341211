"""Multicast groups: asked for or joined by IGMP, followed by their trees, kept within limits."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric import ACCELERATOR_PORT
from controller.igmp import QUERY_INTERVAL_S, Kind, Record, Report, general_query
from controller.limits import Limits
from controller.membership import MEMBERSHIP_INTERVAL_S, Memberships, SourceFilter
from controller.view import NetworkView, plan
from tests.controller.memory_fabric import JOIN, LEAVE, MemoryFabric
from tests.controller.networks import connected_topologies, triangle
from topologies.errors import UserError
from topologies.files import load
from topologies.model import Topology

GROUP = "239.1.2.3"
EVERYBODY = SourceFilter(exclude=True)


def _queries(network: MemoryFabric, site: str) -> int:
    sent = network.datapaths[site].sent
    frames = [bytes(m.data) for m in sent if type(m).__name__ == "OFPPacketOut"]
    return frames.count(general_query())


def test_who_joins_gets_a_copy_from_every_island_and_nobody_else_does() -> None:
    network = MemoryFabric(triangle())
    assert not network.send("AMS", GROUP).links
    network.igmp_v2("NYC", JOIN, GROUP)
    network.settle()
    assert network.controller.ready
    assert network.send("AMS", GROUP).islands == {"NYC": 1}
    assert network.send("LON", GROUP).islands == {"NYC": 1}
    assert not network.send("NYC", GROUP).links, "never back to the sender"


def test_who_leaves_gets_nothing_any_more() -> None:
    network = MemoryFabric(triangle())
    for site in ("LON", "NYC"):
        network.igmp_v2(site, JOIN, GROUP)
    network.settle()
    network.igmp_v2("LON", LEAVE, GROUP)
    network.settle()
    assert network.send("AMS", GROUP).islands == {"NYC": 1}
    network.igmp_v2("NYC", LEAVE, GROUP)
    network.settle()
    assert not network.send("AMS", GROUP).islands
    assert network.readout.groups() == []


@settings(max_examples=25, deadline=None)
@given(connected_topologies(most_sites=6), st.data())
def test_after_any_joins_and_leaves_each_member_gets_one_copy(
    net: Topology, data: st.DataObject
) -> None:
    network, members = MemoryFabric(net), {"239.1.1.1": set(), "239.1.1.2": set()}
    says = st.tuples(st.sampled_from(net.codes), st.booleans(), st.sampled_from(sorted(members)))
    for site, joins, group in data.draw(st.lists(says, max_size=12)):
        network.igmp_v2(site, JOIN if joins else LEAVE, group)
        (members[group].add if joins else members[group].discard)(site)
        if data.draw(st.booleans()):
            network.settle()
    network.settle()
    for group, wanting in members.items():
        for sender in net.codes:
            assert network.send(sender, group).islands == dict.fromkeys(wanting - {sender}, 1)


def test_a_source_filter_of_version_3_is_honoured() -> None:
    network = MemoryFabric(triangle())
    only_lon = frozenset({network.fabric.island_ip("LON")})
    record = Record(Kind.TO_INCLUDE, "232.1.2.3", only_lon)
    network.controller._take_report("NYC", Report("0.0.0.0", (record,)))
    network.settle()
    assert network.send("LON", "232.1.2.3").islands == {"NYC": 1}
    assert not network.send("AMS", "232.1.2.3").islands
    (row,) = network.readout.groups()
    assert row["joined"] == {"NYC": {"mode": "include", "sources": ["10.0.0.2"]}}


def test_a_report_in_anothers_name_or_by_another_port_counts_for_nothing() -> None:
    network = MemoryFabric(triangle(), accelerators=["NYC"])
    network.igmp_v2("NYC", JOIN, GROUP)
    network.settle()
    join = network.igmp_v2_frame("NYC", JOIN, GROUP)
    network.igmp_v2("NYC", LEAVE, GROUP)
    network.packet_in("AMS", join)
    network.packet_in("NYC", join, port=ACCELERATOR_PORT)
    network.settle()
    assert network.readout.groups() == []
    assert network.readout.health()["packet_ins"] == {"arp": 0, "igmp": 2, "other": 2}


def test_a_group_asked_for_has_members_senders_and_an_address() -> None:
    network = MemoryFabric(triangle())
    row = network.add_group(members=["NYC", "LON"], senders=["AMS"])
    network.settle()
    assert row["group_ip"] == "239.192.0.1"
    assert network.send("AMS", "239.192.0.1").islands == {"LON": 1, "NYC": 1}
    assert not network.send("LON", "239.192.0.1").islands
    assert network.add_group(members=["AMS"])["group_ip"] == "239.192.0.2"


def test_hosts_join_a_group_asked_for_and_stay_when_it_is_given_up() -> None:
    network = MemoryFabric(triangle())
    network.add_group(members=["NYC"], group_ip=GROUP)
    network.igmp_v2("LON", JOIN, GROUP)
    network.settle()
    assert network.send("AMS", GROUP).islands == {"LON": 1, "NYC": 1}
    network.asking.remove_group(GROUP)
    network.settle()
    assert network.send("AMS", GROUP).islands == {"LON": 1}
    with pytest.raises(UserError, match=f"group {GROUP} is there because hosts joined it"):
        network.asking.remove_group(GROUP)


def test_trees_of_groups_go_round_a_dead_link() -> None:
    network = MemoryFabric(triangle())
    network.igmp_v2("NYC", JOIN, GROUP)
    network.settle()
    assert set(network.send("AMS", GROUP).links) == {("AMS", "LON"), ("LON", "NYC")}
    network.datapaths["LON"].port_status(network.controller, 3, up=False)
    network.settle()
    journey = network.send("AMS", GROUP)
    assert set(journey.links) == {("AMS", "NYC")} and journey.islands == {"NYC": 1}


def test_what_hosts_want_of_the_addresses_of_fixed_trees_counts_for_nothing() -> None:
    network = MemoryFabric(triangle())
    tree = {"kind": "multicast", "root": "AMS", "members": ["NYC"]}
    (row,) = network.add_trees(tree)
    network.igmp_v2("LON", JOIN, row["group_ip"])
    network.settle()
    assert network.send("AMS", row["group_ip"]).islands == {"NYC": 1}
    assert not network.send("NYC", row["group_ip"]).islands


def test_islands_are_asked_when_they_connect_and_now_and_then() -> None:
    network = MemoryFabric(triangle()).settle()
    assert [_queries(network, site) for site in network.fabric.codes] == [1, 1, 1]
    network.controller.switches["LON"].queried_s -= QUERY_INTERVAL_S
    network.settle()
    assert [_queries(network, site) for site in network.fabric.codes] == [1, 2, 1]


def test_an_island_that_was_away_is_forgotten_and_asked_again() -> None:
    network = MemoryFabric(triangle())
    network.igmp_v2("NYC", JOIN, GROUP)
    network.settle()
    network.datapaths["NYC"].port_status(network.controller, 1, up=False)
    network.settle()
    assert network.readout.groups() == []
    network.datapaths["NYC"].port_status(network.controller, 1, up=True)
    network.settle()
    assert _queries(network, "NYC") == 2


def test_a_member_that_is_silent_for_too_long_is_forgotten() -> None:
    network = MemoryFabric(triangle())
    network.igmp_v2("NYC", JOIN, GROUP)
    network.igmp_v2("LON", JOIN, GROUP)
    network.controller._heard_s["NYC", GROUP] -= MEMBERSHIP_INTERVAL_S + 1
    network.settle()
    (row,) = network.readout.groups()
    assert list(row["joined"]) == ["LON"]


def test_groups_beyond_a_switchs_limit_are_left_out_told_of_and_taken_in_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = MemoryFabric(triangle(), most=Limits(most_groups=1))
    for number in (1, 2):
        for site in ("LON", "NYC"):
            network.igmp_v2(site, JOIN, f"239.1.1.{number}")
    network.settle()
    assert max(network.group_counts().values()) == 1
    rows = {row["group_ip"]: row["problem"] for row in network.readout.groups()}
    assert rows == {"239.1.1.1": "", "239.1.1.2": "LON: 2 groups, at most 1 fit in its switch"}
    assert network.send("AMS", "239.1.1.1").islands == {"LON": 1, "NYC": 1}
    for site in ("LON", "NYC"):
        network.igmp_v2(site, LEAVE, "239.1.1.1")
    network.settle()
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 60)
    monkeypatch.setattr("controller.app.time", later)
    network.settle()
    assert network.send("AMS", "239.1.1.2").islands == {"LON": 1, "NYC": 1}


def test_an_island_that_wants_too_many_groups_is_told_of_once() -> None:
    network = MemoryFabric(triangle())
    for number in range(1, 70):
        network.igmp_v2("LON", JOIN, f"239.1.1.{number}")
    told = [event for event in network.controller.events_log.after() if event.kind == "limit"]
    assert [(event.site, event.count) for event in told] == [("LON", 1)]
    assert "more groups than the 64 that an island can hold" in told[0].text
    assert len(network.controller.view.memberships.groups()) == 64
    network.igmp_v2("LON", LEAVE, "239.1.1.1")
    network.igmp_v2("LON", JOIN, "239.1.1.68")
    network.igmp_v2("LON", JOIN, "239.1.1.69")
    told = [event for event in network.controller.events_log.after() if event.kind == "limit"]
    assert len(told) == 2


def test_a_request_beyond_a_limit_names_switch_and_limit_and_leaves_no_trace() -> None:
    network = MemoryFabric(load("nine_city"), most=Limits(most_groups=2))
    members = [code for code in network.fabric.codes if code != "NYC"]
    tree = {"kind": "multicast", "root": "NYC", "members": members}
    with pytest.raises(UserError, match=r"^AMS: 3 groups, at most 2 fit in its switch$"):
        network.add_trees(tree, tree, tree)
    assert network.readout.trees() == []
    assert len(network.add_trees(tree, tree)) == 2


def test_what_a_switch_says_of_its_group_table_limits_too() -> None:
    network = MemoryFabric(triangle())
    network.datapaths["LON"].max_groups = 0
    network.datapaths["LON"].connect(network.controller)
    with pytest.raises(UserError, match="LON: 1 groups, at most 0 fit in its switch"):
        network.add_trees({"kind": "multicast", "root": "AMS", "members": ["LON", "NYC"]})


def test_health_tells_how_much_each_switch_holds_of_what_it_may() -> None:
    network = MemoryFabric(triangle(), most=Limits(most_groups=4))
    network.add_group(members=["LON", "NYC"], senders=["AMS"])
    row = network.settle().readout.health()["switches"]["LON"]
    assert (row["rules"], row["most_rules"]) == (7, None), "3 unicast, ARP, IGMP, miss, 1 tree"
    assert (row["groups"], row["most_groups"]) == (1, 4)


def test_rules_are_limited_as_well() -> None:
    with pytest.raises(UserError, match="AMS: 6 rules, at most 5 fit in its switch"):
        MemoryFabric(triangle(), most=Limits(most_rules=5))


def test_a_plan_that_takes_routes_over_is_the_same_as_one_from_scratch() -> None:
    network = MemoryFabric(triangle(), accelerators=["NYC"])
    before = network.controller.plan
    network.add_group(members=["NYC"])
    network.settle()
    network.datapaths["LON"].port_status(network.controller, 3, up=False)
    after = network.settle().controller.plan
    assert before != after == plan(network.fabric, network.controller.view)


def test_hosts_cannot_use_up_the_numbers_of_trees() -> None:
    view = NetworkView(triangle())
    wishes = {("AMS", f"239.{n >> 16}.{n >> 8 & 255}.{n & 255}"): EVERYBODY for n in range(14000)}
    groups = view.with_memberships(Memberships(wishes)).groups
    assert len(groups) == (60_000 - 20_000) // 3, "three trees a group, numbers 20,001 to 60,000"
    assert [group.slot for group in groups[:3]] == [0, 1, 2]
