"""What a switch answers about entries it was sent, as bytes by OpenFlow 1.3.5 (section 7.3.5)."""

from __future__ import annotations

import struct
from typing import Any

from controller.shim import parser
from tests.controller.pipeline import wire

_FLOW_MOD_FIXED_BYTES = 48
_GROUP_MOD_FIXED_BYTES = 16


def flow_stats(mod: Any, idle_timeout_s: int = 0, packets: int = 0, octets: int = 0) -> Any:
    """The library's OFPFlowStats of a flow that this flow message installed."""
    tail = wire(mod)[_FLOW_MOD_FIXED_BYTES:]
    head = struct.pack(
        "!HBxIIHHHH4xQQQ",
        48 + len(tail),
        mod.table_id,
        1,
        0,
        mod.priority,
        idle_timeout_s,
        0,
        0,
        mod.cookie,
        packets,
        octets,
    )
    return parser.OFPFlowStats.parser(head + tail, 0)


def group_desc(mod: Any) -> Any:
    """The library's OFPGroupDescStats of a group that this group message installed."""
    tail = wire(mod)[_GROUP_MOD_FIXED_BYTES:]
    head = struct.pack("!HBxI", 8 + len(tail), mod.type, mod.group_id)
    return parser.OFPGroupDescStats.parser(head + tail, 0)


def meter_config(mod: Any) -> Any:
    """The library's OFPMeterConfigStats of a meter that this meter message installed."""
    band = wire(mod)[16:]
    head = struct.pack("!HHI", 8 + len(band), mod.flags, mod.meter_id)
    return parser.OFPMeterConfigStats.parser(head + band, 0)
