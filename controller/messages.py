"""Plain rules to OpenFlow 1.3 messages of the loaded library, and a switch's answers back to rules.

Thin and stateless: one function a message. What a switch reports is turned into the same plain data
that `controller.compile` produces, so that "is it installed?" is a comparison of two values. An
entry with anything in it that Atoll never asks for (a time-out, another instruction) comes back
with a `Foreign` action and so equals nothing wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.diff import Change, Phase
from controller.rules import (
    Action,
    Foreign,
    Group,
    Match,
    Meter,
    Output,
    Rule,
    SetField,
    SwitchState,
    ToController,
    ToGroup,
)
from controller.shim import ofproto, parser

_GROUP_KINDS = {"all": ofproto.OFPGT_ALL}
_METER_FLAGS = ofproto.OFPMF_PKTPS | ofproto.OFPMF_BURST


@dataclass(frozen=True)
class PortCounters:
    """Counters of one switch port, as the switch counts them."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int
    rx_errors: int
    tx_errors: int


@dataclass(frozen=True)
class RuleCounters:
    """A rule a switch holds and what it has matched."""

    rule: Rule
    packets: int
    bytes: int


def phase_messages(datapath: Any, phase: Phase) -> list[Any]:
    """Messages of one phase, closed by a barrier request."""
    changes = [change_message(datapath, change) for change in phase]
    return [*changes, parser.OFPBarrierRequest(datapath)]


def change_message(datapath: Any, change: Change) -> Any:
    """The flow, group or meter message that carries out one change."""
    entry = change.entry
    if isinstance(entry, Rule):
        return _flow_mod(datapath, change.verb, entry)
    if isinstance(entry, Group):
        return _group_mod(datapath, change.verb, entry)
    return _meter_mod(datapath, change.verb, entry)


def _flow_mod(datapath: Any, verb: str, rule: Rule) -> Any:
    commands = {"add": ofproto.OFPFC_ADD, "delete": ofproto.OFPFC_DELETE_STRICT}
    return parser.OFPFlowMod(
        datapath,
        cookie=rule.cookie,
        table_id=rule.table_id,
        command=commands[verb],
        priority=rule.priority,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=parser.OFPMatch(**dict(rule.match)),
        instructions=_instructions(rule) if verb == "add" else [],
    )


def _instructions(rule: Rule) -> list[Any]:
    meter = [] if rule.meter_id is None else [parser.OFPInstructionMeter(rule.meter_id)]
    actions = [_action(action) for action in rule.actions]
    apply = parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)
    return [*meter, apply] if actions else meter


def _action(action: Action) -> Any:
    if isinstance(action, Output):
        return parser.OFPActionOutput(action.port)
    if isinstance(action, ToController):
        return parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, action.max_length_bytes)
    if isinstance(action, ToGroup):
        return parser.OFPActionGroup(action.group_id)
    if isinstance(action, SetField):
        return parser.OFPActionSetField(**{action.field: action.value})
    raise ValueError(f"cannot install {action.text}")


def _group_mod(datapath: Any, verb: str, group: Group) -> Any:
    commands = {
        "add": ofproto.OFPGC_ADD,
        "modify": ofproto.OFPGC_MODIFY,
        "delete": ofproto.OFPGC_DELETE,
    }
    if verb == "delete":
        return parser.OFPGroupMod(datapath, commands[verb], ofproto.OFPGT_ALL, group.group_id, [])
    buckets = [
        parser.OFPBucket(
            watch_port=ofproto.OFPP_ANY,
            watch_group=ofproto.OFPG_ANY,
            actions=[_action(action) for action in bucket],
        )
        for bucket in group.buckets
    ]
    return parser.OFPGroupMod(
        datapath, commands[verb], _GROUP_KINDS[group.kind], group.group_id, buckets
    )


def _meter_mod(datapath: Any, verb: str, meter: Meter) -> Any:
    commands = {
        "add": ofproto.OFPMC_ADD,
        "modify": ofproto.OFPMC_MODIFY,
        "delete": ofproto.OFPMC_DELETE,
    }
    band = parser.OFPMeterBandDrop(rate=meter.rate_packets_per_s, burst_size=meter.burst_packets)
    bands = [] if verb == "delete" else [band]
    return parser.OFPMeterMod(datapath, commands[verb], _METER_FLAGS, meter.meter_id, bands)


def state_requests(datapath: Any) -> dict[str, Any]:
    """Requests, by name, whose answers say everything a switch holds, its ports and its limits."""
    return {
        "flows": flow_request(datapath),
        "groups": parser.OFPGroupDescStatsRequest(datapath, 0),
        "meters": parser.OFPMeterConfigStatsRequest(datapath, 0, ofproto.OFPM_ALL),
        "meter features": parser.OFPMeterFeaturesStatsRequest(datapath, 0),
        "group features": parser.OFPGroupFeaturesStatsRequest(datapath, 0),
        "ports": parser.OFPPortDescStatsRequest(datapath, 0),
    }


def state_of(parts: Mapping[str, Iterable[Any]]) -> SwitchState:
    """Rules, groups and meters out of the answers to `state_requests`."""
    return SwitchState(
        frozenset(rule_of(stats) for stats in parts["flows"]),
        frozenset(group_of(stats) for stats in parts["groups"]),
        frozenset(meter_of(stats) for stats in parts["meters"]),
    )


def has_meters(parts: Mapping[str, Iterable[Any]]) -> bool:
    """Whether the switch said that it has room for meters."""
    return any(features.max_meter for features in parts["meter features"])


def most_groups(parts: Mapping[str, Iterable[Any]]) -> int | None:
    """Groups of type ALL that the switch said it has room for; None if it did not say."""
    answers = [features.max_groups[ofproto.OFPGT_ALL] for features in parts["group features"]]
    return answers[0] if answers else None


def flow_request(datapath: Any) -> Any:
    """Request for every flow entry of every table, with counters."""
    return parser.OFPFlowStatsRequest(
        datapath,
        0,
        ofproto.OFPTT_ALL,
        ofproto.OFPP_ANY,
        ofproto.OFPG_ANY,
        0,
        0,
        parser.OFPMatch(),
    )


def port_request(datapath: Any) -> Any:
    """Request for the counters of every port."""
    return parser.OFPPortStatsRequest(datapath, 0, ofproto.OFPP_ANY)


def packet_out(datapath: Any, port: int, frame: bytes) -> Any:
    """Send a frame of the controller's own out of one port."""
    return parser.OFPPacketOut(
        datapath,
        buffer_id=ofproto.OFP_NO_BUFFER,
        in_port=ofproto.OFPP_CONTROLLER,
        actions=[parser.OFPActionOutput(port)],
        data=frame,
    )


def rule_of(stats: Any) -> Rule:
    """The rule behind one OFPFlowStats."""
    actions: list[Action] = []
    meter_id = None
    for instruction in stats.instructions:
        if isinstance(instruction, parser.OFPInstructionMeter):
            meter_id = instruction.meter_id
        elif getattr(instruction, "type", None) == ofproto.OFPIT_APPLY_ACTIONS:
            actions.extend(_action_of(action) for action in instruction.actions)
        else:
            actions.append(Foreign(str(instruction)))
    if stats.idle_timeout or stats.hard_timeout:
        actions.append(Foreign(f"time-outs {stats.idle_timeout}, {stats.hard_timeout} s"))
    wanted = _match_of(stats.match)
    return Rule(stats.priority, wanted, tuple(actions), stats.cookie, meter_id, stats.table_id)


def _match_of(matched: Any) -> Match:
    return tuple(sorted(matched.items(), key=lambda item: str(item[0])))


def _action_of(action: Any) -> Action:
    if isinstance(action, parser.OFPActionGroup):
        return ToGroup(action.group_id)
    if isinstance(action, parser.OFPActionOutput):
        if action.port == ofproto.OFPP_CONTROLLER:
            return ToController(action.max_len)
        return Output(action.port)
    if isinstance(action, parser.OFPActionSetField) and isinstance(action.value, str):
        return SetField(action.key, action.value)
    return Foreign(str(action))


def rule_counters_of(stats: Any) -> RuleCounters:
    """Rule and counters of one OFPFlowStats."""
    return RuleCounters(rule_of(stats), stats.packet_count, stats.byte_count)


def group_of(stats: Any) -> Group:
    """The group behind one OFPGroupDescStats."""
    kinds: Mapping[int, str] = {number: kind for kind, number in _GROUP_KINDS.items()}
    buckets = tuple(
        tuple(_action_of(action) for action in bucket.actions) for bucket in stats.buckets
    )
    return Group(stats.group_id, buckets, kinds.get(stats.type, f"type {stats.type}"))


def meter_of(stats: Any) -> Meter:
    """The meter behind one OFPMeterConfigStats."""
    drops = [band for band in stats.bands if band.type == ofproto.OFPMBT_DROP]
    if len(stats.bands) == 1 and drops and stats.flags & _METER_FLAGS == _METER_FLAGS:
        return Meter(stats.meter_id, drops[0].rate, drops[0].burst_size)
    return Meter(stats.meter_id, 0, 0, f"flags {stats.flags}, {len(stats.bands)} bands")


def port_counters_of(body: Iterable[Any]) -> Mapping[int, PortCounters]:
    """Counters by port number of an OFPPortStatsReply's body."""
    return {
        port.port_no: PortCounters(
            rx_packets=port.rx_packets,
            tx_packets=port.tx_packets,
            rx_bytes=port.rx_bytes,
            tx_bytes=port.tx_bytes,
            rx_dropped=port.rx_dropped,
            tx_dropped=port.tx_dropped,
            rx_errors=port.rx_errors,
            tx_errors=port.tx_errors,
        )
        for port in body
    }


def is_up(port: Any) -> bool:
    """Whether an OFPPort has a carrier and is not shut down."""
    return not (port.state & ofproto.OFPPS_LINK_DOWN or port.config & ofproto.OFPPC_PORT_DOWN)


def error_text(message: Any) -> str:
    """What an OFPErrorMsg complains of, such as `BAD_ACTION BAD_OUT_PORT`."""
    kinds = _names("OFPET_")
    kind = kinds.get(message.type, f"type {message.type}")
    codes = _names(_CODE_PREFIXES.get(kind, "?"))
    return f"{kind} {codes.get(message.code, f'code {message.code}')}"


_CODE_PREFIXES = {
    "HELLO_FAILED": "OFPHFC_",
    "BAD_REQUEST": "OFPBRC_",
    "BAD_ACTION": "OFPBAC_",
    "BAD_INSTRUCTION": "OFPBIC_",
    "BAD_MATCH": "OFPBMC_",
    "FLOW_MOD_FAILED": "OFPFMFC_",
    "GROUP_MOD_FAILED": "OFPGMFC_",
    "METER_MOD_FAILED": "OFPMMFC_",
    "TABLE_FEATURES_FAILED": "OFPTFFC_",
}


def _names(prefix: str) -> dict[int, str]:
    return {
        value: name[len(prefix) :]
        for name, value in vars(ofproto).items()
        if name.startswith(prefix) and isinstance(value, int)
    }
