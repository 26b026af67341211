"""Connections of in-memory switches to the real application, without sockets and threads.

The application's handlers are called with the library's own objects, read from bytes where the
library can. What the application sends goes to a `PipelineSwitch` as bytes.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from controller.app import FabricController
from controller.fabric import Fabric
from controller.shim import (
    DEAD_DISPATCHER,
    MAIN_DISPATCHER,
    ofproto,
    ofproto_protocol,
    parser,
)
from tests.controller.answers import flow_stats
from tests.controller.pipeline import OpenFlowError, PipelineSwitch

PROGRAMMING = ("OFPFlowMod", "OFPGroupMod", "OFPMeterMod")


class MemoryDatapath(ofproto_protocol.ProtocolDesc):  # type: ignore[misc]
    """One switch's connection; `deliver` hands its answers to the application."""

    def __init__(
        self,
        dpid: int,
        switch: PipelineSwitch,
        ports_up: dict[int, bool],
        max_meter: int = 8,
        max_groups: int = 1000,
    ) -> None:
        super().__init__(version=4)
        self.id, self.switch, self.ports_up, self.max_meter = dpid, switch, ports_up, max_meter
        self.max_groups = max_groups
        self.address = ("127.0.0.1", 40000 + dpid)
        self.closed = False
        self.sent: list[Any] = []
        self.refuse_with: tuple[int, int] | None = None
        self._answers: deque[tuple[str, Any]] = deque()

    def close(self) -> None:
        self.closed = True

    def send_msg(self, message: Any) -> None:
        message.serialize()
        self.sent.append(message)
        name = type(message).__name__
        if name in PROGRAMMING:
            self._program(message)
        elif name in _BODIES:
            body = _BODIES[name](self, message)
            reply = SimpleNamespace(datapath=self, xid=message.xid, body=body, flags=0)
            self._answers.append(("answered", reply))

    def _program(self, message: Any) -> None:
        if self.refuse_with is not None:
            self._error(message.xid, *self.refuse_with)
            return
        try:
            self.switch.handle(bytes(message.buf))
        except OpenFlowError:
            self._error(message.xid, ofproto.OFPET_BAD_ACTION, ofproto.OFPBAC_BAD_OUT_GROUP)

    def _error(self, xid: int, kind: int, code: int) -> None:
        error = parser.OFPErrorMsg(self, type_=kind, code=code)
        error.set_xid(xid)
        self._answers.append(("refused", error))

    def deliver(self, controller: FabricController) -> None:
        """Hand over every answer that is due, and those that come of it."""
        while self._answers:
            handler, message = self._answers.popleft()
            getattr(controller, handler)(SimpleNamespace(msg=message))

    def programmed(self) -> list[Any]:
        """Messages that change a table, so far."""
        return [message for message in self.sent if type(message).__name__ in PROGRAMMING]

    def connect(self, controller: FabricController) -> None:
        controller.state_changed(SimpleNamespace(datapath=self, state=MAIN_DISPATCHER))
        self.deliver(controller)

    def lose(self, controller: FabricController) -> None:
        controller.state_changed(SimpleNamespace(datapath=self, state=DEAD_DISPATCHER))

    def port_status(self, controller: FabricController, port: int, up: bool) -> None:
        self.ports_up[port] = up
        status = SimpleNamespace(
            datapath=self, reason=ofproto.OFPPR_MODIFY, desc=_port_desc(port, up)
        )
        controller.port_changed(SimpleNamespace(msg=status))


def _port_desc(port: int, up: bool) -> Any:
    return SimpleNamespace(port_no=port, config=0, state=0 if up else int(ofproto.OFPPS_LINK_DOWN))


def _flows(datapath: MemoryDatapath, request: Any) -> list[Any]:
    return [flow_stats(mod, packets=3, octets=300) for mod in datapath.switch.flows.values()]


def _groups(datapath: MemoryDatapath, request: Any) -> list[Any]:
    return [
        parser.OFPGroupDescStats(
            type_=kind,
            group_id=group_id,
            buckets=[parser.OFPBucket(actions=actions) for actions in buckets],
        )
        for group_id, (kind, buckets) in datapath.switch.groups.items()
    ]


def _meters(datapath: MemoryDatapath, request: Any) -> list[Any]:
    return [
        parser.OFPMeterConfigStats(
            flags=flags, meter_id=number, bands=[parser.OFPMeterBandDrop(rate, burst)]
        )
        for number, (flags, rate, burst) in datapath.switch.meters.items()
    ]


def _meter_features(datapath: MemoryDatapath, request: Any) -> list[Any]:
    return [SimpleNamespace(max_meter=datapath.max_meter)]


def _group_features(datapath: MemoryDatapath, request: Any) -> Any:
    return SimpleNamespace(max_groups=[datapath.max_groups] * 4)


def _port_descs(datapath: MemoryDatapath, request: Any) -> list[Any]:
    return [_port_desc(port, up) for port, up in datapath.ports_up.items()]


def _port_stats(datapath: MemoryDatapath, request: Any) -> list[Any]:
    zero = dict.fromkeys(("rx_dropped", "tx_dropped", "rx_errors", "tx_errors"), 0)
    return [
        SimpleNamespace(
            port_no=port, rx_packets=1, tx_packets=2, rx_bytes=100 * port, tx_bytes=7, **zero
        )
        for port in datapath.ports_up
    ]


_BODIES = {
    "OFPFlowStatsRequest": _flows,
    "OFPGroupDescStatsRequest": _groups,
    "OFPMeterConfigStatsRequest": _meters,
    "OFPMeterFeaturesStatsRequest": _meter_features,
    "OFPGroupFeaturesStatsRequest": _group_features,
    "OFPPortDescStatsRequest": _port_descs,
    "OFPPortStatsRequest": _port_stats,
}


def datapath_of(
    fabric: Fabric, site: str, switch: PipelineSwitch | None = None, **options: Any
) -> MemoryDatapath:
    """A connection of a site's switch, with every port of the model up."""
    ports = dict.fromkeys(fabric.ports(site), True)
    return MemoryDatapath(fabric.dpid(site), switch or PipelineSwitch(), ports, **options)
