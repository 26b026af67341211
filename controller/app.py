"""The Ryu application: a thin shell that carries messages between switches and pure cores.

Decisions are made elsewhere: `controller.view` says what each switch should hold,
`controller.session` what a switch's answer leads to. Here are sockets, threads and time.

With os-ken handlers run in a real thread of their own and the northbound interface in others, so
there is one lock. It is held to read or change state, never while routes are computed or a message
is sent. A session hands out work only when none of its own is under way, so two threads never
program the same switch at once.

The reconciler thread exists so that a burst of port changes costs one computation of routes, and
because a handler that waited for its own queue would wait for ever.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar

from controller import arp, messages
from controller.diff import Phase
from controller.events import LOG, EventLog
from controller.fabric import ACCESS_PORT, MANAGEMENT_NETWORK, Fabric
from controller.intents import MulticastTree
from controller.replies import Gathering
from controller.session import Status, SwitchSession
from controller.shim import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
    Application,
    hub,
    ofproto,
    on,
)
from controller.transport import Transport
from controller.view import NetworkView, Plan, plan
from topologies.model import Topology

TICK_S = 1.0
REQUEST_TIMEOUT_S = 2.0

Method = TypeVar("Method", bound=Callable[..., None])


def guarded(method: Method) -> Method:
    """Record what a handler raises instead of letting it end the application's event loop."""

    @functools.wraps(method)
    def call(self: FabricController, event: Any) -> None:
        try:
            method(self, event)
        except Exception as error:
            LOG.exception("handler %s", method.__name__)
            self.events_log.add("error", "", f"{method.__name__}: {error!r}")

    return call  # type: ignore[return-value]


@dataclass
class Switch:
    """One switch of the model: its session and, while it is connected, its datapath."""

    session: SwitchSession = field(default_factory=SwitchSession)
    datapath: Any = None
    address: str = ""
    reading: Gathering | None = None


@dataclass(frozen=True)
class Gathered:
    """Answers of several switches: Unix time and body of each, and the sites without one."""

    answers: Mapping[str, tuple[float, list[Any]]]
    silent: tuple[str, ...]


class FabricController(Application):  # type: ignore[misc]
    """Keeps every switch of a topology holding what the network view asks for."""

    OFP_VERSIONS = (ofproto.OFP_VERSION,)

    def __init__(
        self,
        *args: Any,
        topology: Topology,
        trees: tuple[MulticastTree, ...] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fabric = Fabric.of(topology)
        self.events_log = EventLog()
        self.lock = threading.Lock()
        self.switches = {code: Switch() for code in self.fabric.codes}
        self.view = NetworkView(topology, trees=trees)
        self.plan = plan(self.fabric, self.view)
        self.strangers: dict[str, str] = {}
        self._transport = Transport()
        self._changed = threading.Event()
        self._to_recheck: set[str] = set()
        self._mac_of = {
            self.fabric.island_ip(code): self.fabric.island_mac(code) for code in self.fabric.codes
        }
        for code, switch in self.switches.items():
            switch.session.want(self.plan.wanted[code], time.monotonic())

    def start(self) -> None:
        """Begin to handle events and to reconcile; called by the library."""
        super().start()
        self.threads.append(hub.spawn(self._reconcile_forever))

    def want_trees(self, trees: tuple[MulticastTree, ...]) -> None:
        """Install these multicast trees in place of the present ones.

        Raises:
            UserError: the trees contradict one another or name what the topology lacks.
        """
        with self.lock:
            view = replace(self.view, trees=trees)
        plan(self.fabric, view)
        with self.lock:
            self.view = replace(self.view, trees=trees)
        self._changed.set()

    @property
    def ready(self) -> bool:
        """Whether every switch confirmed that it holds what the present view asks for."""
        with self.lock:
            sessions = [switch.session for switch in self.switches.values()]
            confirmed = all(session.status is Status.CONFIRMED for session in sessions)
            return confirmed and self.plan.view is self.view

    @on("StateChange", [MAIN_DISPATCHER, DEAD_DISPATCHER])
    @guarded
    def state_changed(self, event: Any) -> None:
        """A switch finished its handshake, or its connection ended."""
        datapath = event.datapath
        site = None if datapath.id is None else self.fabric.site_of_dpid(datapath.id)
        if event.state == MAIN_DISPATCHER:
            self._connected(site, datapath)
        elif site is not None:
            self._disconnected(site, datapath)

    def _connected(self, site: str | None, datapath: Any) -> None:
        address = str(datapath.address[0])
        if site is None:
            self._refuse(datapath, address, "is not in the topology")
        elif not self._may_speak_for(site, address):
            self._refuse(datapath, address, f"is not at the address of the switch of {site}")
        else:
            self._accept(site, datapath, address)

    def _may_speak_for(self, site: str, address: str) -> bool:
        """On the management network, where islands are too, only the switch's own address may."""
        if ip_address(address) not in ip_network(MANAGEMENT_NETWORK):
            return True
        return address == self.fabric.switch_management_ip(site)

    def _refuse(self, datapath: Any, address: str, why: str) -> None:
        dpid = f"{datapath.id:016x}"
        with self.lock:
            self.strangers[dpid] = address
        self.events_log.add("refused", "", f"datapath {dpid} from {address} {why}")
        datapath.close()

    def _accept(self, site: str, datapath: Any, address: str) -> None:
        with self.lock:
            switch = self.switches[site]
            before, switch.datapath, switch.address = switch.datapath, datapath, address
            switch.session.connected(time.monotonic())
        again = "again " if before is not None else ""
        self.events_log.add("connect", site, f"connected {again}from {address}")
        if before is not None:
            before.close()
        self._read(site, datapath)

    def _disconnected(self, site: str, datapath: Any) -> None:
        with self.lock:
            switch = self.switches[site]
            if switch.datapath is not datapath:
                return
            switch.datapath = None
            switch.session.disconnected(time.monotonic())
        self.events_log.add("disconnect", site, "connection lost; its rules stay as they are")

    @on("PortStatus", MAIN_DISPATCHER)
    @guarded
    def port_changed(self, event: Any) -> None:
        """A port came, went, or changed its carrier."""
        message = event.msg
        site = self._site(message.datapath)
        if site is None:
            return
        there = message.reason != ofproto.OFPPR_DELETE
        up = there and messages.is_up(message.desc)
        with self.lock:
            before = self.view
            self.view = before.with_port(self.fabric, site, message.desc.port_no, up)
            changed = self.view is not before
            self._to_recheck.add(site)
        if changed:
            direction = self.fabric.direction_at(site, message.desc.port_no)
            self.events_log.add("port", site, f"{direction} is {'up' if up else 'down'}")
        self._changed.set()

    @on("FlowStatsReply", MAIN_DISPATCHER)
    @on("GroupDescStatsReply", MAIN_DISPATCHER)
    @on("MeterConfigStatsReply", MAIN_DISPATCHER)
    @on("MeterFeaturesStatsReply", MAIN_DISPATCHER)
    @on("PortDescStatsReply", MAIN_DISPATCHER)
    @on("PortStatsReply", MAIN_DISPATCHER)
    @guarded
    def answered(self, event: Any) -> None:
        """A piece of an answer came."""
        message = event.msg
        more = bool(message.flags & ofproto.OFPMPF_REPLY_MORE)
        gathering = self._transport.collector.add(message.xid, message.body, more)
        self._finish_reading(message.datapath, gathering)

    @on("ErrorMsg", [HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER])
    @guarded
    def refused(self, event: Any) -> None:
        """A switch refused a message."""
        message = event.msg
        text = messages.error_text(message)
        site = self._site(message.datapath)
        gathering = self._transport.collector.refuse(message.xid, text)
        if gathering is None:
            self.events_log.add("error", site or "", f"switch says {text}")
            self._note_problem(site, text)
        self._finish_reading(message.datapath, gathering)

    def _note_problem(self, site: str | None, text: str) -> None:
        if site is not None:
            with self.lock:
                self.switches[site].session.rejected(f"switch says {text}")

    @on("PacketIn", MAIN_DISPATCHER)
    @guarded
    def packet_in(self, event: Any) -> None:
        """An island asks for an address."""
        message = event.msg
        if self._site(message.datapath) is None or message.match["in_port"] != ACCESS_PORT:
            return
        reply = arp.answer(bytes(message.data), self._mac_of)
        if reply is not None:
            out = messages.packet_out(message.datapath, ACCESS_PORT, reply)
            self._transport.send(message.datapath, out)

    def _site(self, datapath: Any) -> str | None:
        """Site of a datapath that is the present connection of its switch."""
        site = None if datapath.id is None else self.fabric.site_of_dpid(datapath.id)
        return site if site is not None and self.switches[site].datapath is datapath else None

    def _read(self, site: str, datapath: Any) -> None:
        """Ask a switch what it holds; `_finish_reading` goes on when all of it is there."""

        def announce(gathering: Gathering) -> None:
            with self.lock:
                before, self.switches[site].reading = self.switches[site].reading, gathering
            if before is not None:
                self._transport.collector.forget(before)

        self._transport.ask(datapath, messages.state_requests(datapath), announce)

    def _finish_reading(self, datapath: Any, gathering: Gathering | None) -> None:
        site = self._site(datapath)
        if site is None or gathering is None or not gathering.complete.is_set():
            return
        if self.switches[site].reading is gathering:
            self._take_state(site, datapath, gathering)

    def _take_state(self, site: str, datapath: Any, gathering: Gathering) -> None:
        state = messages.state_of(gathering.parts)
        ports = {port.port_no: messages.is_up(port) for port in gathering.parts["ports"]}
        with self.lock:
            switch = self.switches[site]
            switch.reading = None
            switch.session.has_meters = messages.has_meters(gathering.parts)
            before, self.view = self.view, self.view.with_ports(self.fabric, site, ports)
            todo = switch.session.read_back(state, time.monotonic())
            status, problem = switch.session.status, switch.session.problem
        if self.view is not before:
            self._changed.set()
        if todo:
            self._program(site, datapath, todo)
        else:
            text = f"{len(state.rules)} rules, {len(state.groups)} groups"
            self.events_log.add(status.value, site, problem or text)

    def _program(self, site: str, datapath: Any, todo: tuple[Phase, ...]) -> None:
        self._transport.send_phases(datapath, todo)
        self._read(site, datapath)

    def _reconcile_forever(self) -> None:
        while True:
            self._changed.wait(TICK_S)
            try:
                self._reconcile()
            except Exception as error:
                LOG.exception("reconcile")
                self.events_log.add("error", "", f"reconcile: {error!r}")
                hub.sleep(TICK_S)

    def _reconcile(self) -> None:
        """Bring every switch to the present view; drop the connection of one that is silent."""
        self._changed.clear()
        view = self.view
        if self.plan.view is not view:
            self._adopt(plan(self.fabric, view))
        self._recheck_asked_for()
        self._drop_silent()

    def _adopt(self, new: Plan) -> None:
        now_s, work = time.monotonic(), []
        with self.lock:
            before, self.plan = self.plan, new
            for code, switch in self.switches.items():
                todo = switch.session.want(new.wanted[code], now_s)
                if todo:
                    work.append((code, switch.datapath, todo))
        for code, datapath, todo in work:
            self._program(code, datapath, todo)
        self._tell_reroute(before, new, len(work))

    def _tell_reroute(self, before: Plan, new: Plan, programmed: int) -> None:
        down = [str(way) for way in new.view.links_down(self.fabric)]
        text = f"links down: {', '.join(down) or 'none'}; {programmed} switches changed"
        cut = len(new.unreachable)
        self.events_log.add("reroute", "", text + (f"; {cut} pairs without a route" * bool(cut)))

    def _recheck_asked_for(self) -> None:
        now_s = time.monotonic()
        with self.lock:
            sites, self._to_recheck = self._to_recheck, set()
            asked = [
                (site, self.switches[site].datapath)
                for site in sorted(sites)
                if self.switches[site].session.recheck(now_s)
            ]
        for site, datapath in asked:
            self._read(site, datapath)

    def _drop_silent(self) -> None:
        now_s = time.monotonic()
        with self.lock:
            silent = [
                (site, switch.datapath)
                for site, switch in self.switches.items()
                if switch.session.overdue(now_s) and switch.datapath is not None
            ]
        for site, datapath in silent:
            self.events_log.add("error", site, "no answer; its connection is closed")
            datapath.close()

    def gather(self, sites: Collection[str], name: str, request: Callable[[Any], Any]) -> Gathered:
        """Ask switches for something at once and wait for all answers, `REQUEST_TIMEOUT_S` long."""
        with self.lock:
            datapaths = {site: self.switches[site].datapath for site in sites}
        gatherings = {
            site: self._transport.ask(datapath, {name: request(datapath)})
            for site, datapath in datapaths.items()
            if datapath is not None
        }
        deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
        for gathering in gatherings.values():
            gathering.complete.wait(max(0.0, deadline_s - time.monotonic()))
            self._transport.collector.forget(gathering)
        answers = {
            site: (gathering.completed_s, gathering.parts[name])
            for site, gathering in gatherings.items()
            if not gathering.missing and not gathering.errors
        }
        return Gathered(answers, tuple(sorted(set(sites) - set(answers))))
