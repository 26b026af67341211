"""Messages on the wire: read back by the library, and by Open vSwitch's own parser."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from controller import messages
from controller.diff import Change
from controller.rules import (
    Foreign,
    Group,
    Meter,
    Output,
    Rule,
    SetField,
    ToController,
    ToGroup,
    match,
)
from controller.shim import ofproto, parser
from tests.controller.answers import flow_stats, group_desc, meter_config
from tests.controller.pipeline import datapath, wire

UNICAST = Rule(100, match(eth_type=0x0800, ipv4_dst="10.0.0.7"), (Output(3),), 0xA7011 << 44)
ARP = Rule(200, match(in_port=1, eth_type=0x0806, arp_op=1), (ToController(64),), 5, meter_id=1)
MULTICAST = Rule(
    150,
    match(in_port=2, eth_type=0x0800, ipv4_src="10.0.0.1", ipv4_dst="239.1.1.1"),
    (ToGroup(9),),
    7,
)
STEERING = Rule(
    150,
    match(in_port=2, eth_type=0x0800, eth_src="02:00:02:01:00:07", ipv4_dst="10.2.0.8"),
    (
        SetField("eth_dst", "02:00:01:00:00:02"),
        SetField("ipv4_dst", "10.1.0.2"),
        Output(1000),
    ),
    8,
)
MISS = Rule(0, match(), (), 0)


def _mod(rule: Rule) -> Any:
    return messages.change_message(datapath(), Change("add", rule))


@pytest.mark.parametrize("rule", [UNICAST, ARP, MULTICAST, STEERING, MISS])
def test_a_rule_comes_back_from_a_switch_as_it_was(rule: Rule) -> None:
    assert messages.rule_of(flow_stats(_mod(rule))) == rule


def test_counters_of_a_rule_are_read() -> None:
    row = messages.rule_counters_of(flow_stats(_mod(UNICAST), packets=11, octets=1100))
    assert (row.rule, row.packets, row.bytes) == (UNICAST, 11, 1100)


def test_a_flow_with_a_timeout_is_not_taken_for_ours() -> None:
    read = messages.rule_of(flow_stats(_mod(UNICAST), idle_timeout_s=30))
    assert read.key == UNICAST.key
    assert isinstance(read.actions[-1], Foreign)


def test_a_flow_that_changes_headers_otherwise_is_not_taken_for_ours() -> None:
    change = parser.OFPActionSetField(vlan_vid=9)
    apply = parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, [change])
    mod = _mod(UNICAST)
    mod.instructions = [apply]
    read = messages.rule_of(flow_stats(mod))
    assert isinstance(read.actions[0], Foreign)


def test_a_foreign_match_with_a_mask_can_be_deleted_as_it_was() -> None:
    foreign = _mod(UNICAST)
    foreign.match = parser.OFPMatch(eth_type=0x0800, ipv4_dst=("10.0.0.0", "255.255.0.0"))
    read = messages.rule_of(flow_stats(foreign))
    mod = messages.change_message(datapath(), Change("delete", read))
    data = wire(mod)
    parsed = parser.OFPFlowMod.parser(datapath(), 4, 14, len(data), 1, data)
    assert parsed.command == ofproto.OFPFC_DELETE_STRICT
    assert dict(parsed.match.items()) == {
        "eth_type": 0x0800,
        "ipv4_dst": ("10.0.0.0", "255.255.0.0"),
    }


def test_a_group_comes_back_from_a_switch_as_it_was() -> None:
    group = Group(9, ((Output(2),), (Output(4),)))
    mod = messages.change_message(datapath(), Change("add", group))
    assert messages.group_of(group_desc(mod)) == group


def test_a_meter_comes_back_from_a_switch_as_it_was() -> None:
    meter = Meter(1, 100, 300)
    mod = messages.change_message(datapath(), Change("add", meter))
    assert messages.meter_of(meter_config(mod)) == meter


def test_a_select_group_is_not_taken_for_ours() -> None:
    bucket = parser.OFPBucket(weight=1, actions=[parser.OFPActionOutput(2)])
    stats = parser.OFPGroupDescStats(type_=ofproto.OFPGT_SELECT, group_id=9, buckets=[bucket])
    assert messages.group_of(stats) != Group(9, ((Output(2),),))


def test_each_phase_ends_with_a_barrier() -> None:
    sent = messages.phase_messages(datapath(), (Change("add", UNICAST), Change("add", MISS)))
    kinds = [type(message).__name__ for message in sent]
    assert kinds == ["OFPFlowMod", "OFPFlowMod", "OFPBarrierRequest"]


def test_an_error_is_told_by_its_names_in_the_specification() -> None:
    error = parser.OFPErrorMsg(
        datapath(), type_=ofproto.OFPET_BAD_ACTION, code=ofproto.OFPBAC_BAD_OUT_GROUP
    )
    assert messages.error_text(error) == "BAD_ACTION BAD_OUT_GROUP"


@pytest.mark.skipif(shutil.which("ovs-ofctl") is None, reason="needs ovs-ofctl")
@pytest.mark.parametrize(
    ("change", "printed"),
    [
        (Change("add", UNICAST), ["ADD priority=100,ip,nw_dst=10.0.0.7", "actions=output:3"]),
        (
            Change("add", ARP),
            ["priority=200,arp,in_port=1,arp_op=1", "actions=meter:1,CONTROLLER:64"],
        ),
        (
            Change("add", MULTICAST),
            ["priority=150,ip,in_port=2,nw_src=10.0.0.1,nw_dst=239.1.1.1", "actions=group:9"],
        ),
        (
            Change("add", STEERING),
            [
                "in_port=2,dl_src=02:00:02:01:00:07,nw_dst=10.2.0.8",
                "actions=set_field:02:00:01:00:00:02->eth_dst,set_field:10.1.0.2->ip_dst,output:1000",
            ],
        ),
        (Change("add", MISS), ["ADD priority=0", "actions=drop"]),
        (Change("delete", UNICAST), ["DEL_STRICT priority=100,ip,nw_dst=10.0.0.7"]),
        (
            Change("add", Group(9, ((Output(2),), (Output(4),)))),
            ["ADD group_id=9,type=all", "actions=output:2", "actions=output:4"],
        ),
        (
            Change("modify", Group(9, ((Output(2),), (Output(5),)))),
            ["MOD group_id=9,type=all", "actions=output:5"],
        ),
        (Change("delete", Group(9, ())), ["DEL group_id=9"]),
        (
            Change("add", Meter(1, 100, 300)),
            ["ADD meter=1 pktps burst", "type=drop rate=100 burst_size=300"],
        ),
    ],
)
def test_open_vswitch_reads_the_same_from_the_wire(change: Change, printed: list[str]) -> None:
    data = wire(messages.change_message(datapath(), change)).hex()
    run = subprocess.run(
        ["ovs-ofctl", "ofp-print", data, "2"], capture_output=True, text=True, check=True
    )
    shown = " ".join(run.stdout.split())
    assert all(part in shown for part in printed), shown
