"""The controller's state as plain dictionaries, ready for JSON.

Everything here reads; what changes the network is in `controller.asking`. Counters are asked of the
switches when somebody wants them and kept for a moment, so that ten readers at once cost one
question a switch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

from controller import messages
from controller.app import FabricController
from controller.compile import kind_of_cookie
from controller.fabric import accelerator_end, island_end
from controller.groups import MulticastGroup
from controller.library import LIBRARY
from controller.limits import Limits
from controller.rules import (
    Action,
    Foreign,
    Group,
    Output,
    Rule,
    SetField,
    SwitchState,
    ToController,
    ToGroup,
)
from controller.session import Status
from controller.shim import LIBRARY_VERSION
from controller.trees import AggregationTree, MulticastTree, Tree
from topologies.errors import RunError
from topologies.routing import NoRouteError

Json = dict[str, Any]
COUNTERS_MAX_AGE_S = 0.2


class Readout:
    """What the northbound interface shows of one controller."""

    def __init__(self, controller: FabricController) -> None:
        self._controller = controller
        self._fabric = controller.fabric
        self._polling = threading.Lock()
        self._polled_s = float("-inf")
        self._counters: Json = {}
        self._silent: tuple[str, ...] = ()

    def health(self) -> Json:
        """Whether all is installed and, if not, which switches are behind and why."""
        control = self._controller
        ready, limits = control.ready, control.limits()
        with control.lock:
            switches = {
                site: {
                    "state": switch.session.status.value,
                    "problem": switch.session.problem or _default_problem(switch.session.status),
                    "address": switch.address,
                    **_held_json(switch.session.installed, limits[site]),
                }
                for site, switch in control.switches.items()
            }
            down, strangers = control.view.links_down(self._fabric), dict(control.strangers)
            packet_ins = dict(control.packet_ins)
        return {
            "ready": ready,
            "topology": control.plan.view.topology.name,
            "library": f"{LIBRARY} {LIBRARY_VERSION}",
            "switches": switches,
            "not_confirmed": [s for s, row in switches.items() if row["state"] != "confirmed"],
            "links_down": [str(way) for way in down],
            "unknown_datapaths": strangers,
            "trees_moving": list(control.rollout.moving),
            "packet_ins": {kind: packet_ins.get(kind, 0) for kind in ("arp", "igmp", "other")},
        }

    def topology(self) -> Json:
        """Sites with their numbers, and every direction with its rate, delay and state."""
        topology, fabric = self._controller.view.topology, self._fabric
        down = set(self._controller.view.links_down(fabric))
        return {
            "name": topology.name,
            "sites": {
                site.code: {
                    "city": site.city,
                    "dpid": fabric.dpid(site.code),
                    "island_ip": fabric.island_ip(site.code),
                    "island_mac": fabric.island_mac(site.code),
                    **self._accelerator_json(site.code),
                    "ports": {str(port): end for port, end in fabric.ports(site.code).items()},
                }
                for site in topology.sites
            },
            "directions": {
                str(way): {
                    "rate_mbps": spec.rate_mbps,
                    "one_way_delay_ms": spec.one_way_delay_ms,
                    "up": way not in down,
                }
                for way, spec in topology.directions().items()
            },
        }

    def _accelerator_json(self, code: str) -> Json:
        if code not in self._fabric.accelerators:
            return {}
        ip, mac = self._fabric.accelerator_ip(code), self._fabric.accelerator_mac(code)
        return {"accelerator_ip": ip, "accelerator_mac": mac}

    def paths(self) -> Json:
        """The path of every ordered pair of different sites; `path` is null where there is none."""
        codes = self._fabric.codes
        return {f"{a}>{b}": self.path(a, b) for a in codes for b in codes if a != b}

    def path(self, a: str, b: str) -> Json:
        """Path and one-way delay from island to island, both access ports included.

        Raises:
            UserError: an unknown site.
        """
        self._fabric.index(a), self._fabric.index(b)
        routes = self._controller.plan.routes
        try:
            return {"path": routes.path(a, b), "one_way_delay_ms": routes.one_way_delay_ms(a, b)}
        except NoRouteError:
            return {"path": None, "one_way_delay_ms": None}

    def flows(self) -> Json:
        """Rules of each switch as it last read them out; null for one that never did."""
        installed = self._installed()
        return {site: state and _rules_json(state.rules) for site, state in installed.items()}

    def live_flows(self, site: str) -> list[Json]:
        """Rules of one switch with their counters, asked for now.

        Raises:
            UserError: an unknown site.
            RunError: the switch does not answer.
        """
        self._fabric.index(site)
        gathered = self._controller.gather([site], "flows", messages.flow_request)
        if gathered.silent:
            raise RunError(f"no answer about flows from {site}")
        counted = [messages.rule_counters_of(stats) for stats in gathered.answers[site][1]]
        return [
            {**_rule_json(row.rule), "packets": row.packets, "bytes": row.bytes}
            for row in sorted(counted, key=lambda row: _rule_order(row.rule))
        ]

    def switch_groups(self) -> Json:
        """Group tables of each switch as it last read them out; null for one that never did."""
        installed = self._installed()
        return {site: state and _groups_json(state.groups) for site, state in installed.items()}

    def trees(self) -> list[Json]:
        """The trees that were asked for, by number."""
        trees = sorted(self._controller.view.trees, key=lambda tree: tree.tree_id)
        return [self.tree(tree) for tree in trees]

    def tree(self, tree: Tree) -> Json:
        """One tree: what was asked for, its address, who sums what, and how far it is installed."""
        control = self._controller
        common: Json = {
            "tree_id": tree.tree_id,
            "address": tree.address,
            "root": tree.root,
            "at_island": tree.at_island,
            "hops": [list(hop) for hop in tree.hops],
            "moving": tree.tree_id in control.rollout.moving or tree not in control.plan.trees,
            "cut_at": [str(way) for way in control.plan.cut.get(tree.tree_id, ())],
        }
        if isinstance(tree, MulticastTree):
            return {**common, **self._multicast_json(tree)}
        return {**common, **self._aggregation_json(tree)}

    def _multicast_json(self, tree: MulticastTree) -> Json:
        return {
            "kind": "multicast",
            "members": list(tree.receivers),
            "accelerators": list(tree.accelerators),
            "group_ip": tree.group_ip,
            "source": self._end(tree.source_end),
        }

    def _aggregation_json(self, tree: AggregationTree) -> Json:
        sums = {site: accelerator_end(site) for site in tree.sums_at}
        received = tree.children(island_end(tree.root)) if tree.at_island else ()
        return {
            "kind": "aggregation",
            "members": list(tree.members),
            "sums_at": list(tree.sums_at),
            "fan_in": dict(tree.fan_in),
            "sums": {
                site: {
                    "from": [self._end(child) for child in tree.children(end)],
                    "to": (above := tree.parent(end)) and self._end(above),
                }
                for site, end in sums.items()
            },
            "at_root": [self._end(end) for end in received],
        }

    def _end(self, end: str) -> Json:
        return {"end": end, "ip": self._fabric.end_ip(end)}

    def groups(self) -> list[Json]:
        """Groups that were asked for and groups that hosts joined, by address."""
        groups = sorted(self._controller.view.groups, key=lambda g: ip_address(g.group_ip))
        return [self.group(group) for group in groups]

    def group(self, group: MulticastGroup) -> Json:
        """One group: its members, those who joined by IGMP and their source filters, its senders.

        `problem` says why no packet is forwarded, if a switch has no room for its trees.
        """
        joined = self._controller.view.memberships.members(group.group_ip)
        return {
            "group_ip": group.group_ip,
            "requested": group.requested,
            "members": list(group.members),
            "joined": {
                site: {
                    "mode": "exclude" if wish.exclude else "include",
                    "sources": sorted(wish.sources),
                }
                for site, wish in sorted(joined.items())
            },
            "senders": list(self._fabric.codes if group.senders is None else group.senders),
            "problem": self._controller.left_out.get(group.group_ip, ""),
        }

    def ports(self, max_age_s: float = COUNTERS_MAX_AGE_S, partial: bool = False) -> Json:
        """Counters by direction, as the switch at its source counts them, with their Unix time.

        `tx` is what left in this direction, `rx` what came back in by the same port.

        Raises:
            RunError: names the switches that did not answer, unless `partial` is allowed.
        """
        with self._polling:
            if time.monotonic() - self._polled_s > max_age_s:
                self._poll()
            if self._silent and not partial:
                raise RunError(f"no answer about ports from {', '.join(self._silent)}")
            return dict(self._counters)

    def events(self, after: int = 0) -> list[Json]:
        """Events with a larger number than this, oldest first."""
        return [asdict(event) for event in self._controller.events_log.after(after)]

    def _installed(self) -> Mapping[str, SwitchState | None]:
        with self._controller.lock:
            switches = self._controller.switches.items()
            return {site: switch.session.installed for site, switch in switches}

    def _poll(self) -> None:
        codes = self._fabric.codes
        gathered = self._controller.gather(codes, "ports", messages.port_request)
        self._counters = {}
        for site, (time_s, body) in sorted(gathered.answers.items()):
            for port, counters in sorted(messages.port_counters_of(body).items()):
                direction = self._fabric.direction_at(site, port)
                if direction is not None:
                    self._counters[direction] = {"time_s": time_s, **asdict(counters)}
        self._silent = gathered.silent
        self._polled_s = time.monotonic()


def _held_json(installed: SwitchState | None, limits: Limits) -> Json:
    """How much a switch holds of what it may hold; null where that is not known or not limited."""
    return {
        "rules": None if installed is None else len(installed.rules),
        "groups": None if installed is None else len(installed.groups),
        "most_rules": limits.most_rules,
        "most_groups": limits.most_groups,
    }


def _default_problem(status: Status) -> str:
    return "not connected" if status is Status.ABSENT else ""


def _rule_order(rule: Rule) -> tuple[int, str]:
    return (-rule.priority, repr(rule.match))


def _rules_json(rules: Iterable[Rule]) -> list[Json]:
    return [_rule_json(rule) for rule in sorted(rules, key=_rule_order)]


def _rule_json(rule: Rule) -> Json:
    return {
        "table_id": rule.table_id,
        "priority": rule.priority,
        "match": dict(rule.match),
        "actions": [_action_json(action) for action in rule.actions],
        "meter_id": rule.meter_id,
        "intent": kind_of_cookie(rule.cookie),
        "cookie": f"{rule.cookie:#x}",
    }


def _action_json(action: Action) -> Json:
    if isinstance(action, Output):
        return {"output": action.port}
    if isinstance(action, ToController):
        return {"output": "controller", "max_length_bytes": action.max_length_bytes}
    if isinstance(action, ToGroup):
        return {"group": action.group_id}
    if isinstance(action, SetField):
        return {"set_field": {action.field: action.value}}
    assert isinstance(action, Foreign)
    return {"foreign": action.text}


def _groups_json(groups: Iterable[Group]) -> list[Json]:
    return [
        {
            "group_id": group.group_id,
            "kind": group.kind,
            "buckets": [[_action_json(action) for action in bucket] for bucket in group.buckets],
        }
        for group in sorted(groups, key=lambda group: group.group_id)
    ]
