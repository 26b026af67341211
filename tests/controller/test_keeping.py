"""What outlives a controller: trees, groups and memberships, and the rules in the switches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import keeping
from controller.fabric import Fabric
from controller.groups import MulticastGroup
from controller.membership import Memberships, SourceFilter
from controller.shim import ofproto
from controller.view import NetworkView
from tests.controller.memory_fabric import JOIN, MemoryFabric
from tests.controller.memory_switch import datapath_of
from tests.controller.networks import (
    aggregation_trees,
    connected_topologies,
    multicast_trees,
    triangle,
)
from topologies.errors import UserError
from topologies.model import Topology


@settings(max_examples=40, deadline=None)
@given(connected_topologies(most_sites=5), st.data())
def test_what_is_kept_comes_back_as_it_was(net: Topology, data: st.DataObject) -> None:
    fabric = Fabric.of(net, net.codes)
    trees = [data.draw(multicast_trees(net, 1)), data.draw(aggregation_trees(net, 7, fan_in=True))]
    groups = [MulticastGroup("239.192.0.9", 3, net.codes[:1], net.codes[:2], requested=True)]
    wish = SourceFilter(exclude=True, sources=frozenset({"10.0.0.2"}))
    view = NetworkView(net).with_trees(trees).with_groups(groups)
    view = view.with_memberships(Memberships({(net.codes[0], "239.1.1.1"): wish}))
    kept = keeping.from_json(keeping.to_json(view, {1: 5, 20001: 2}).encode(), fabric, net)
    assert kept == keeping.Kept(view, {1: 5, 20001: 2})


def test_a_new_controller_finds_its_predecessors_trees_in_place(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    first = MemoryFabric(triangle(), state_file=state)
    tree = {"kind": "multicast", "root": "AMS", "members": ["LON", "NYC"]}
    first.add_trees(tree)
    first.settle()
    first.asking.move_tree(1, b'{"kind": "multicast", "root": "AMS", "members": ["NYC"]}')
    first.add_group(members=["AMS"], senders=["NYC"])
    first.igmp_v2("NYC", JOIN, "239.1.1.1")
    first.settle()
    second = MemoryFabric(triangle(), state_file=state)
    for code in second.fabric.codes:
        switch = first.datapaths[code].switch
        second.datapaths[code] = datapath_of(second.fabric, code, switch)
        second.datapaths[code].connect(second.controller)
    assert second.controller.ready
    changed = [m for d in second.datapaths.values() for m in d.programmed()]
    deletes = {ofproto.OFPFC_DELETE_STRICT, ofproto.OFPGC_DELETE}
    assert {message.command for message in changed} <= deletes, "only what was leaving goes"
    assert second.settle().send("AMS", "239.192.0.1").islands == {"NYC": 1}
    assert second.send("NYC", "239.192.0.2").islands == {"AMS": 1}
    assert second.send("AMS", "239.1.1.1").islands == {"NYC": 1}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "state.json: request: Invalid JSON"),
        ("{}", "state.json: topology: Field required"),
        (keeping.to_json(NetworkView(triangle()), {}).replace("triangle", "square"), "of topology"),
    ],
)
def test_a_file_that_keeps_something_else_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    state = tmp_path / "state.json"
    state.write_text(text)
    with pytest.raises(UserError, match=complaint):
        MemoryFabric(triangle(), state_file=state)
