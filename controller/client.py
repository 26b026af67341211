"""A client of the controller's northbound interface.

Standard library only, and no proxy of the environment is asked: the controller is in the run's own
network.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from topologies.errors import AtollError, RunError, UserError

if TYPE_CHECKING:
    from schedules.plan import PlannedTree

Json = dict[str, Any]
_POLL_S = 0.05


class NorthboundClient:
    """Asks the controller at a base URL such as `http://10.255.0.1:8080`.

    Raises:
        RunError: the controller cannot be reached or could not answer; the text says which
            switches were silent.
        UserError: the site asked for does not exist.
    """

    def __init__(self, base_url: str, timeout_s: float = 10.0) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def health(self) -> Json:
        """Whether all is installed, and the state of each switch."""
        return self._get_object("/health")

    def wait_ready(self, timeout_s: float, links_up: bool = True) -> Json:
        """Wait until every switch confirmed its rules; the health of that moment.

        Args:
            timeout_s: how long to wait, from now.
            links_up: wait for every link of the model to be up as well.

        Raises:
            RunError: names the switches that did not confirm and the links that are down.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            lack = self._lack(links_up)
            if isinstance(lack, dict):
                return lack
            if time.monotonic() > deadline_s:
                raise RunError(f"controller not ready after {timeout_s:g} s: {lack}")
            time.sleep(_POLL_S)

    def _lack(self, links_up: bool) -> Json | str:
        try:
            health = self.health()
        except RunError as error:
            return str(error)
        if health["ready"] and not (links_up and health["links_down"]):
            return health
        return describe(health)

    def topology(self) -> Json:
        """Sites with their numbers, and directions with rate, delay and state."""
        return self._get_object("/topology")

    def paths(self) -> Json:
        """Path and one-way delay of every pair, by `NYC>LON`."""
        return self._get_object("/paths")

    def path(self, a: str, b: str) -> Json:
        """Path and one-way delay in milliseconds from island to island."""
        return self._get_object(f"/paths/{a}/{b}")

    def flows(self) -> Json:
        """Rules of every switch as it last read them out."""
        return self._get_object("/flows")

    def live_flows(self, site: str) -> list[Json]:
        """Rules of one switch with fresh counters."""
        rows: list[Json] = self._get(f"/flows/{site}")
        return rows

    def switch_groups(self) -> Json:
        """Group tables of every switch as it last read them out."""
        return self._get_object("/switch-groups")

    def trees(self) -> list[Json]:
        """Trees that were asked for."""
        rows: list[Json] = self._get("/trees")["trees"]
        return rows

    def add_trees(self, trees: Sequence[Mapping[str, object]]) -> list[Json]:
        """Lay out trees, all or none; their rows in the same order.

        Args:
            trees: each with the fields of `controller.requests.TreeRequest`; see `tree_request`.

        Raises:
            UserError: one of them is no tree, or a switch has no room; the text says which and why.
        """
        rows: list[Json] = self._send("POST", "/trees", {"trees": [*trees]})["trees"]
        return rows

    def move_tree(self, tree_id: int, tree: Mapping[str, object]) -> Json:
        """Move a tree without losing a packet; its new row."""
        return self._send("PUT", f"/trees/{tree_id}", tree)

    def remove_tree(self, tree_id: int) -> Json:
        """Remove a tree; the row it had."""
        return self._send("DELETE", f"/trees/{tree_id}")

    def groups(self) -> list[Json]:
        """Multicast groups, asked for or joined by hosts."""
        rows: list[Json] = self._get("/groups")["groups"]
        return rows

    def add_group(
        self,
        members: Sequence[str],
        senders: Sequence[str] | None = None,
        group_ip: str | None = None,
    ) -> Json:
        """Make a multicast group of islands; its row, with the address it got in `group_ip`.

        Args:
            members: sites whose islands receive.
            senders: sites whose islands may send; None for all.
            group_ip: the address wanted; None for the next free one.
        """
        asked = {"members": [*members], "senders": senders and [*senders], "group_ip": group_ip}
        return self._send("POST", "/groups", asked)

    def remove_group(self, group_ip: str) -> Json:
        """Remove a group that was asked for; the row it had."""
        return self._send("DELETE", f"/groups/{quote(group_ip, safe='')}")

    def ports(self, max_age_s: float = 0.0, partial: bool = False) -> Json:
        """Counters by direction; see `controller.readout.Readout.ports`."""
        return self._get_object(f"/ports?max_age_s={max_age_s:g}&partial={int(partial)}")

    def events(self, after: int = 0) -> list[Json]:
        """Events with a larger number than this, oldest first."""
        rows: list[Json] = self._get(f"/events?after={after}")
        return rows

    def get(self, path: str) -> Any:
        """Return what any path of the interface answers."""
        return self._get(path)

    def send(self, path: str, method: str = "GET", body: str | None = None) -> Any:
        """Return what any path answers to a request whose body, if any, is JSON text."""
        if method == "GET":
            return self._get(path)
        return self._send(method, path, None if body is None else json.loads(body))

    def _get_object(self, path: str) -> Json:
        answer: Json = self._get(path)
        return answer

    def _get(self, path: str) -> Any:
        return self._open(urllib.request.Request(self._url(path)))

    def _send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        answer: Json = self._open(
            urllib.request.Request(self._url(path), data, headers, method=method)
        )
        return answer

    def _url(self, path: str) -> str:
        """Whatever was typed is a path: what no URL may hold is escaped, the rest stays."""
        return self._base_url + quote(path, safe="/?&=%")

    def _open(self, request: urllib.request.Request) -> Any:
        try:
            with self._opener.open(request, timeout=self._timeout_s) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            text = _error_text(error)
            raise (UserError if 400 <= error.code < 500 else RunError)(text) from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RunError(f"controller at {self._base_url}: {reason}") from None


def tree_request(planned: PlannedTree, fan_in: Mapping[str, int] | None = None) -> Json:
    """What to ask the controller for so that a plan's tree is laid out.

    Args:
        planned: the tree.
        fan_in: streams that an accelerator sums at most, by site; those without are not limited.
    """
    limits = {site: most for site, most in (fan_in or {}).items() if site in planned.sums_at}
    return {
        "kind": planned.kind,
        "root": planned.root,
        "at_island": planned.at_island,
        "members": [*planned.members],
        "hops": [[*hop] for hop in planned.hops],
        "sums_at": [*planned.sums_at],
        "fan_in": limits,
    }


def _error_text(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url}: {error.code} {error.reason}"


def describe(health: Json) -> str:
    """Why a controller is not ready, in one line."""
    moving = [f"tree {number} is moving" for number in health["trees_moving"]]
    behind = [f"{site} {_state(health['switches'][site])}" for site in health["not_confirmed"]]
    down = [f"link {way} is down" for way in health["links_down"]]
    strangers = [
        f"unknown datapath {dpid} from {address} was refused"
        for dpid, address in health["unknown_datapaths"].items()
    ]
    return "; ".join(behind + down + strangers + moving) or "routes are being changed"


def _state(row: Json) -> str:
    return str(row["problem"] or row["state"])


def main() -> int:
    """Print what `URL PATH [METHOD [JSON]]` answers as JSON; a failure is one line on stderr."""
    url, path, *request = sys.argv[1:]
    try:
        print(json.dumps(NorthboundClient(url).send(path, *request), indent=1))
    except AtollError as error:
        print(f"atoll: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
