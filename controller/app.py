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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar

from controller import arp, igmp, keeping, limits, messages
from controller.diff import Phase
from controller.events import LOG, EventLog
from controller.fabric import ACCELERATOR_PORT, ACCESS_PORT, MANAGEMENT_NETWORK, Fabric
from controller.intents import Tree
from controller.limits import Limits
from controller.membership import MEMBERSHIP_INTERVAL_S, MOST_GROUPS_PER_ISLAND, Memberships
from controller.replies import Gathering
from controller.rollout import Rollout, journey_s
from controller.rules import SwitchState
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
Result = TypeVar("Result")


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
    """One switch of the model: its session and, while it is connected, its datapath.

    Attributes:
        most_groups: groups it says it has room for, None if it did not say.
        queried_s: when its island was last asked which multicast groups it wants.
    """

    session: SwitchSession = field(default_factory=SwitchSession)
    datapath: Any = None
    address: str = ""
    reading: Gathering | None = None
    most_groups: int | None = None
    queried_s: float = float("-inf")


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
        accelerators: Collection[str] = (),
        trees: tuple[Tree, ...] = (),
        most: Limits = Limits(),  # noqa: B008 (frozen)
        state_file: Path | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fabric = Fabric.of(topology, accelerators)
        kept = keeping.load(state_file, self.fabric, topology)
        self.events_log = EventLog()
        self.lock = threading.Lock()
        self.switches = {code: Switch() for code in self.fabric.codes}
        self.view = kept.view.with_trees(trees) if trees else kept.view
        self.plan = plan(self.fabric, self.view)
        self.rollout = Rollout.holding(self.plan.trees, kept.versions)
        self._state_file, self._kept = state_file, ""
        self.most = most
        self.left_out: Mapping[str, str] = {}
        self._full: set[str] = set()
        self.strangers: dict[str, str] = {}
        self.packet_ins: Counter[str] = Counter()
        self._transport = Transport()
        self._changed = threading.Event()
        self._to_recheck: set[str] = set()
        self._heard_s = dict.fromkeys(self.view.memberships.filters, time.monotonic())
        wanted = self.plan.wanted(self.fabric, self.rollout.placed())
        limits.check(self.limits(), wanted)
        for code, switch in self.switches.items():
            switch.session.want(wanted[code], time.monotonic())

    def start(self) -> None:
        """Begin to handle events and to reconcile; called by the library."""
        super().start()
        self.threads.append(hub.spawn(self._reconcile_forever))

    def limits(self) -> Mapping[str, Limits]:
        """What each switch may hold: the limits given, or less if a switch said so."""
        return {
            code: self.most.at_most(switch.most_groups) for code, switch in self.switches.items()
        }

    def change(self, update: Callable[[NetworkView], tuple[NetworkView, Result]]) -> Result:
        """Put another view in the place of the present one, once it is known to be possible.

        Args:
            update: gives the new view and what to return; called again if the view changed
                meanwhile.

        Raises:
            UserError: trees contradict one another, name what the topology lacks, or do not fit
                into a switch.
        """
        while True:
            before = self.view
            after, result = update(before)
            self._check(after)
            with self.lock:
                if self.view is before:
                    self.view = after
                    break
        self._changed.set()
        return result

    def _check(self, view: NetworkView) -> None:
        new = plan(self.fabric, view, self.plan)
        limits.check(self.limits(), new.wanted(self.fabric, self._rollout_to(new).placed()))

    def _rollout_to(self, new: Plan) -> Rollout:
        return self.rollout.wanting(new.trees, time.monotonic(), self._journey_s)

    def _journey_s(self, tree: Tree) -> float:
        return journey_s(self.view.topology, tree)

    @property
    def ready(self) -> bool:
        """Whether every switch confirmed that it holds what the present view asks for."""
        with self.lock:
            sessions = [switch.session for switch in self.switches.values()]
            confirmed = all(session.status is Status.CONFIRMED for session in sessions)
            return confirmed and self.plan.view is self.view and not self.rollout.moving

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
            switch.queried_s = float("-inf")
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
            if changed and up and message.desc.port_no == ACCESS_PORT:
                self.switches[site].queried_s = float("-inf")
        if changed:
            direction = self.fabric.direction_at(site, message.desc.port_no)
            self.events_log.add("port", site, f"{direction} is {'up' if up else 'down'}")
        self._changed.set()

    @on("FlowStatsReply", MAIN_DISPATCHER)
    @on("GroupDescStatsReply", MAIN_DISPATCHER)
    @on("MeterConfigStatsReply", MAIN_DISPATCHER)
    @on("MeterFeaturesStatsReply", MAIN_DISPATCHER)
    @on("GroupFeaturesStatsReply", MAIN_DISPATCHER)
    @on("PortDescStatsReply", MAIN_DISPATCHER)
    @on("PortStatsReply", MAIN_DISPATCHER)
    @guarded
    def answered(self, event: Any) -> None:
        """A piece of an answer came."""
        message = event.msg
        more = bool(message.flags & ofproto.OFPMPF_REPLY_MORE)
        body = message.body if isinstance(message.body, list) else [message.body]
        gathering = self._transport.collector.add(message.xid, body, more)
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
        """A node asks for an address, or an island says which multicast groups it wants."""
        message = event.msg
        site, port = self._site(message.datapath), message.match["in_port"]
        if site is None:
            return
        frame = bytes(message.data)
        reply = arp.answer(frame, self.fabric.mac_of)
        report = igmp.parse(frame) if port == ACCESS_PORT else None
        if reply is not None and port in (ACCESS_PORT, ACCELERATOR_PORT):
            self.packet_ins["arp"] += 1
            out = messages.packet_out(message.datapath, port, reply)
            self._transport.send(message.datapath, out)
        elif report is not None and report.sender_ip in (self.fabric.island_ip(site), "0.0.0.0"):
            self.packet_ins["igmp"] += 1
            self._take_report(site, report)
        else:
            self.packet_ins["other"] += 1

    def _take_report(self, site: str, report: igmp.Report) -> None:
        now_s = time.monotonic()
        with self.lock:
            before = self.view
            memberships = before.memberships.after(site, report.records)
            self.view = before.with_memberships(memberships)
            for record in report.records:
                self._heard_s[site, record.group_ip] = now_s
            self._heard_s = {
                key: s for key, s in self._heard_s.items() if key in memberships.filters
            }
            changed = self.view is not before
        self._tell_of_full(site, memberships, report.records)
        if changed:
            wanted = ", ".join(group for _, group in memberships.of_site(site)) or "none"
            self.events_log.add("igmp", site, f"groups wanted: {wanted}")
            self._changed.set()

    def _tell_of_full(
        self, site: str, memberships: Memberships, records: Iterable[igmp.Record]
    ) -> None:
        """Tell once that an island wants more groups than it can hold, until it wants fewer."""
        if len(memberships.of_site(site)) < MOST_GROUPS_PER_ISLAND:
            self._full.discard(site)
        elif site not in self._full and memberships.left_out(site, records):
            self._full.add(site)
            text = f"it wants more groups than the {MOST_GROUPS_PER_ISLAND} that an island can hold"
            self.events_log.add("limit", site, f"{text}: the rest are left out")

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
            switch.most_groups = messages.most_groups(gathering.parts)
            before, self.view = self.view, self.view.with_ports(self.fabric, site, ports)
            todo = switch.session.read_back(state, time.monotonic())
            status, problem = switch.session.status, switch.session.problem
        if self.view is not before or not (todo or self.rollout.settled):
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
            self._adopt(plan(self.fabric, view, self.plan))
        moved = self.rollout.after(self._holds, time.monotonic(), self._journey_s)
        if moved is not self.rollout:
            for number in set(self.rollout.moving) - set(moved.moving):
                self.events_log.add("tree", "", f"tree {number} has moved")
            self._want(self.plan, moved)
            if self.left_out:  # what has left may have made room
                self._adopt(plan(self.fabric, view, self.plan))
        self._recheck_asked_for()
        self._drop_silent()
        self._ask_for_memberships()
        self._forget_silent_members()
        self._keep()

    def _adopt(self, new: Plan) -> None:
        before, fitting = self.plan, self._fitting(new)
        programmed = self._want(fitting, self._rollout_to(fitting))
        self._tell_reroute(before, new, programmed)

    def _fitting(self, new: Plan) -> Plan:
        """The plan without the groups that switches have no room for, which are told of once."""

        def states_of(kept: Plan) -> Mapping[str, SwitchState]:
            return kept.wanted(self.fabric, self._rollout_to(kept).placed())

        fitting, left_out = limits.fit(new, states_of, self.limits())
        for group_ip, why in left_out.items():
            if group_ip not in self.left_out:
                self.events_log.add("limit", "", f"group {group_ip} left out: {why}")
        self.left_out = left_out
        return fitting

    def _want(self, new: Plan, rollout: Rollout) -> int:
        """Program what a plan and the moves of its trees ask for; how many switches it concerns."""
        now_s, work = time.monotonic(), []
        wanted = new.wanted(self.fabric, rollout.placed())
        with self.lock:
            self.plan, self.rollout = new, rollout
            for code, switch in self.switches.items():
                todo = switch.session.want(wanted[code], now_s)
                if todo:
                    work.append((code, switch.datapath, todo))
        self._keep()  # before any rule says so: whoever comes next is to know it
        for code, datapath, todo in work:
            self._program(code, datapath, todo)
        return len(work)

    def _holds(self, tree: Tree) -> bool:
        """Whether every connected switch of a tree confirmed what it is to hold."""
        with self.lock:
            statuses = {self.switches[site].session.status for site in tree.sites()}
        return statuses <= {Status.CONFIRMED, Status.ABSENT}

    def _keep(self) -> None:
        """Write down what was asked for, if it changed, for the controller that comes next."""
        if self._state_file is None:
            return
        text = keeping.to_json(self.plan.view, self.rollout.versions)
        if text == self._kept:
            return
        self._kept = text
        try:
            keeping.save(self._state_file, text)
        except OSError as error:  # the network is to go on; the next change tries again
            self.events_log.add("error", "", f"{self._state_file}: {error.strerror}")

    def _ask_for_memberships(self) -> None:
        """Query islands now and then, and whenever they or the controller come back."""
        now_s, asked = time.monotonic(), []
        with self.lock:
            for site, switch in self.switches.items():
                due = now_s - switch.queried_s >= igmp.QUERY_INTERVAL_S
                up = (site, ACCESS_PORT) not in self.view.ports_down
                if due and up and switch.session.status is Status.CONFIRMED:
                    switch.queried_s = now_s
                    asked.append(switch.datapath)
        for datapath in asked:
            out = messages.packet_out(datapath, ACCESS_PORT, igmp.general_query())
            self._transport.send(datapath, out)

    def _forget_silent_members(self) -> None:
        now_s = time.monotonic()
        with self.lock:
            silent = [
                key
                for key, heard_s in self._heard_s.items()
                if now_s - heard_s > MEMBERSHIP_INTERVAL_S
            ]
            before = self.view
            self.view = before.with_memberships(before.memberships.without(silent))
            changed = self.view is not before
        if changed:
            self._changed.set()

    def _tell_reroute(self, before: Plan, new: Plan, programmed: int) -> None:
        down = [str(way) for way in new.view.links_down(self.fabric)]
        text = f"links down: {', '.join(down) or 'none'}; {programmed} switches changed"
        cut = len(new.unreachable)
        text += f"; {cut} pairs without a route" * bool(cut)
        text += "".join(f"; tree {n} cut at {ways[0]}" for n, ways in new.cut.items())
        self.events_log.add("reroute", "", text)

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
