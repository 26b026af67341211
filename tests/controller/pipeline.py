"""An OpenFlow 1.3 switch in memory, and a network of them, for tests of what rules really do.

The switch is fed the bytes that would go to a real one, so a wrong rule cannot hide in an object.
It is strict where the specification leaves behaviour undefined: two matching rules of one priority
are an error, and so is an attempt to send a packet back out of the port it came in by.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.fabric import ACCELERATOR_PORT, ACCESS_PORT, Fabric
from controller.shim import ofproto, ofproto_protocol, parser

Packet = Mapping[str, int | str]
FlowKey = tuple[int, int, tuple[tuple[str, Any], ...]]
FLOW_MOD, GROUP_MOD, BARRIER_REQUEST, METER_MOD = 14, 15, 20, 29
HEADER_BYTES = 8


class OpenFlowError(Exception):
    """What a switch would answer with an error message."""


def datapath(dpid: int = 1) -> Any:
    """A description of protocol 1.3 good enough to build messages for."""
    description = ofproto_protocol.ProtocolDesc(version=4)
    description.id = dpid
    return description


def wire(message: Any, xid: int = 1) -> bytes:
    """The bytes of a message."""
    if message.xid is None:
        message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


@dataclass
class PipelineSwitch:
    """Flow, group and meter tables that obey messages."""

    flows: dict[FlowKey, Any] = field(default_factory=dict)
    groups: dict[int, tuple[int, list[list[Any]]]] = field(default_factory=dict)
    meters: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    barriers: int = 0

    def handle(self, data: bytes) -> None:
        """Obey one message; raises OpenFlowError where a real switch would refuse it."""
        version, kind, length, _ = struct.unpack_from("!BBHI", data)
        assert (version, length) == (4, len(data))
        if kind == FLOW_MOD:
            self._flow_mod(parser.OFPFlowMod.parser(datapath(), 4, kind, length, 1, data))
        elif kind == GROUP_MOD:
            self._group_mod(data)
        elif kind == METER_MOD:
            self._meter_mod(data)
        elif kind == BARRIER_REQUEST:
            self.barriers += 1
        else:
            raise OpenFlowError(f"message type {kind}")

    def _flow_mod(self, mod: Any) -> None:
        key = (mod.table_id, mod.priority, tuple(sorted(mod.match.items())))
        if mod.command == ofproto.OFPFC_DELETE_STRICT:
            self.flows.pop(key, None)
            return
        assert mod.command == ofproto.OFPFC_ADD
        for group_id in _groups_of(mod):
            if group_id not in self.groups:
                raise OpenFlowError(f"BAD_ACTION BAD_OUT_GROUP {group_id}")
        for meter_id in _meters_of(mod):
            if meter_id not in self.meters:
                raise OpenFlowError(f"METER_MOD_FAILED UNKNOWN_METER {meter_id}")
        self.flows[key] = mod

    def _group_mod(self, data: bytes) -> None:
        command, kind, group_id = struct.unpack_from("!HBxI", data, HEADER_BYTES)
        if command == ofproto.OFPGC_DELETE:
            self.groups.pop(group_id, None)
            self._drop_flows(lambda mod: group_id in _groups_of(mod))
            return
        if (command == ofproto.OFPGC_ADD) is (group_id in self.groups):
            raise OpenFlowError(f"GROUP_MOD_FAILED {command} {group_id}")
        self.groups[group_id] = (kind, _buckets(data, HEADER_BYTES + 8))

    def _meter_mod(self, data: bytes) -> None:
        command, flags, meter_id = struct.unpack_from("!HHI", data, HEADER_BYTES)
        if command == ofproto.OFPMC_DELETE:
            self.meters.pop(meter_id, None)
            self._drop_flows(lambda mod: meter_id in _meters_of(mod))
            return
        if (command == ofproto.OFPMC_ADD) is (meter_id in self.meters):
            raise OpenFlowError(f"METER_MOD_FAILED {command} {meter_id}")
        band, length, rate, burst = struct.unpack_from("!HHII", data, HEADER_BYTES + 8)
        assert (band, length) == (ofproto.OFPMBT_DROP, 16)
        self.meters[meter_id] = (flags, rate, burst)

    def _drop_flows(self, uses: Any) -> None:
        self.flows = {key: mod for key, mod in self.flows.items() if not uses(mod)}

    def outputs(self, in_port: int, packet: Packet) -> list[int]:
        """Ports that get a copy of the packet; the controller's port among them."""
        return [port for port, _ in self.copies(in_port, packet)]

    def copies(self, in_port: int, packet: Packet) -> list[tuple[int, Packet]]:
        """Port and contents of each copy of the packet that leaves the switch."""
        mod = self._lookup(in_port, packet)
        copies = [] if mod is None else self._run(_actions(mod), packet)
        assert in_port not in [port for port, _ in copies], "sent back out of its ingress port"
        return copies

    def _lookup(self, in_port: int, packet: Packet) -> Any:
        fields = {**packet, "in_port": in_port}
        hits = [
            (priority, mod)
            for (_, priority, matched), mod in self.flows.items()
            if all(fields.get(name) == value for name, value in matched)
        ]
        highest = max((priority for priority, _ in hits), default=0)
        best = [mod for priority, mod in hits if priority == highest]
        assert len(best) <= 1, "two rules of one priority match"
        return best[0] if best else None

    def _run(self, actions: list[Any], packet: Packet) -> list[tuple[int, Packet]]:
        copies: list[tuple[int, Packet]] = []
        for action in actions:
            if isinstance(action, parser.OFPActionGroup):
                kind, buckets = self.groups[action.group_id]
                assert kind == ofproto.OFPGT_ALL
                for bucket in buckets:
                    copies += self._run(bucket, packet)
            elif isinstance(action, parser.OFPActionSetField):
                packet = {**packet, action.key: action.value}
            else:
                copies.append((action.port, packet))
        return copies


def _actions(mod: Any) -> list[Any]:
    return [
        action
        for instruction in mod.instructions
        if isinstance(instruction, parser.OFPInstructionActions)
        for action in instruction.actions
    ]


def _groups_of(mod: Any) -> list[int]:
    return [a.group_id for a in _actions(mod) if isinstance(a, parser.OFPActionGroup)]


def _meters_of(mod: Any) -> list[int]:
    return [i.meter_id for i in mod.instructions if isinstance(i, parser.OFPInstructionMeter)]


def _buckets(data: bytes, offset: int) -> list[list[Any]]:
    buckets = []
    while offset < len(data):
        bucket = parser.OFPBucket.parser(data, offset)
        buckets.append(bucket.actions)
        offset += bucket.len
    return buckets


@dataclass
class Journey:
    """Where the copies of one packet went, and what they looked like where they were received."""

    islands: Counter[str] = field(default_factory=Counter)
    accelerators: Counter[str] = field(default_factory=Counter)
    controller: Counter[str] = field(default_factory=Counter)
    links: Counter[tuple[str, str]] = field(default_factory=Counter)
    received: list[tuple[str, Packet]] = field(default_factory=list)


Copy = tuple[str, int, Packet]


@dataclass
class PipelineNetwork:
    """Switches wired as a fabric says."""

    fabric: Fabric
    switches: dict[str, PipelineSwitch]

    @classmethod
    def of(cls, fabric: Fabric) -> PipelineNetwork:
        return cls(fabric, {code: PipelineSwitch() for code in fabric.codes})

    def send(self, site: str, packet: Packet, in_port: int = ACCESS_PORT) -> Journey:
        """Push a packet in at a switch's port and follow all its copies to their ends."""
        journey, copies = Journey(), [(site, in_port, packet)]
        while copies:
            copies += self.step(journey, copies.pop(0))
        return journey

    def step(self, journey: Journey, copy: Copy) -> list[Copy]:
        """Let one switch forward one copy; those that are then on a link."""
        at, in_port, packet = copy
        flying = []
        for port, leaving in self.switches[at].copies(in_port, packet):
            end = self.fabric.end_at(at, port)
            if port == ofproto.OFPP_CONTROLLER:
                journey.controller[at] += 1
            elif port in (ACCESS_PORT, ACCELERATOR_PORT):
                assert end is not None, "sent to an accelerator that does not exist"
                kind = journey.islands if port == ACCESS_PORT else journey.accelerators
                kind[at] += 1
                journey.received.append((end, leaving))
            else:
                assert end is not None, "sent to a port that does not exist"
                journey.links[at, end] += 1
                flying.append((end, self.fabric.port_to(end, at), leaving))
        assert sum(journey.links.values()) <= 4 * len(self.switches), "packet loops"
        return flying
