"""Is every island reached from every other, and is the way as long as the topology says?

A round trip is the one figure that both proves forwarding (there *and* back) and shows the delay
that training will feel. Each ordered pair is probed by ICMP echo (RFC 792) several times, by one
process in each island's namespace: it sends to all targets in turn at a fixed interval, which keeps
the queues empty, where a shell full of `ping` would send in bursts. (`echo` says why not fping.)

The first probe of a pair is thrown away. It waits for the ARP answer, which the controller gives,
so it measures the controller. Of the others the *minimum* shows the network alone and the
*median* what a packet usually meets, the scheduler of a busy machine included. Errors are taken
from the median, the harder figure.

What is asked for is the propagation delay there and back along the configured routes. It leaves out
the time to put a frame on the wire, which for a probe of 98 bytes is 8 us a hop at 100 Mbit/s.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from testbed.measure import echo
from topologies.errors import MachineError, RunError
from topologies.routing import Routes

Pair = tuple[str, str]

# All islands together: more would load the switches and delay the very probes that measure them.
MAX_PROBES_PER_SECOND = 1000
# An interpreter's start, when as many as there are islands start at once on two cores.
PROBER_START_S = 0.03


@dataclass(frozen=True)
class Probing:
    """How pairs are probed.

    Attributes:
        probes: probes of each ordered pair that count.
        discarded: first probes of each pair that do not count.
        interval_ms: between two probes of one island, to whichever target.
        timeout_ms: after which a probe is lost; more than the longest round trip.
        realtime: whether probers ask for real-time priority.
        start_after_s: time until the first probe, in which all probers start up.
    """

    probes: int = 5
    discarded: int = 1
    interval_ms: float = 10.0
    timeout_ms: float = 1500.0
    realtime: bool = False
    start_after_s: float = 0.0

    @classmethod
    def paced(
        cls,
        islands: int,
        longest_round_trip_ms: float = 0.0,
        probes: int = 5,
        realtime: bool = False,
    ) -> Probing:
        """Return a probing whose islands together stay under `MAX_PROBES_PER_SECOND`."""
        return cls(
            probes,
            discarded=1,
            interval_ms=max(10.0, 1000.0 * islands / MAX_PROBES_PER_SECOND),
            timeout_ms=max(1500.0, 2.0 * longest_round_trip_ms),
            realtime=realtime,
            start_after_s=PROBER_START_S * islands,
        )

    def longest_s(self, targets: int) -> float:
        """Return how long one island's probing may take."""
        rounds = self.probes + self.discarded
        sending_s = (rounds * targets * self.interval_ms + self.timeout_ms) / 1000.0
        return self.start_after_s + sending_s


@dataclass(frozen=True)
class RoundTrip:
    """One ordered pair: what the topology asks for and what came back, in milliseconds.

    The measured values are None when every probe was lost.
    """

    source: str
    target: str
    asked_ms: float
    measured_min_ms: float | None
    median_ms: float | None
    lost: int

    @property
    def reached(self) -> bool:
        """Whether any probe came back."""
        return self.median_ms is not None

    @property
    def error_ms(self) -> float | None:
        """Median minus asked."""
        return None if self.median_ms is None else self.median_ms - self.asked_ms

    @property
    def error_pct(self) -> float | None:
        """The error as a share of what was asked; None where nothing was asked."""
        error_ms = self.error_ms
        return None if error_ms is None or self.asked_ms == 0 else 100 * error_ms / self.asked_ms


@dataclass(frozen=True)
class Reachability:
    """Every ordered pair's round trip and the worst errors among those that were reached."""

    round_trips: tuple[RoundTrip, ...]

    @property
    def unreachable(self) -> tuple[Pair, ...]:
        """The ordered pairs of which no probe came back."""
        return tuple((x.source, x.target) for x in self.round_trips if not x.reached)

    @property
    def worst_error_ms(self) -> float | None:
        """The error of greatest size, with its sign; None when nothing was reached."""
        errors = [x.error_ms for x in self.round_trips if x.error_ms is not None]
        return max(errors, key=abs, default=None)

    @property
    def worst_error_pct(self) -> float | None:
        """The relative error of greatest size, with its sign; None when there is none."""
        errors = [x.error_pct for x in self.round_trips if x.error_pct is not None]
        return max(errors, key=abs, default=None)

    def require_all(self) -> Reachability:
        """Return itself; raises UnreachableError naming the pairs that were not reached."""
        if self.unreachable:
            raise UnreachableError(self.unreachable, len(self.round_trips))
        return self


class UnreachableError(RunError):
    """Ordered pairs of islands of which every probe was lost.

    Attributes:
        pairs: (source, target) of each.
    """

    def __init__(self, pairs: Sequence[Pair], of: int) -> None:
        self.pairs = tuple(pairs)
        names = ", ".join(f"{a}>{b}" for a, b in self.pairs)
        super().__init__(f"{len(self.pairs)} of {of} ordered pairs are not reached: {names}")


def asked_round_trips(routes: Routes) -> dict[Pair, float]:
    """Return the configured delay there and back of every ordered pair of islands, in ms."""
    codes = routes.topology.codes
    one_way = {(a, b): routes.one_way_delay_ms(a, b) for a in codes for b in codes if a != b}
    return {(a, b): one_way[a, b] + one_way[b, a] for a, b in one_way}


def parse_times(text: str) -> dict[str, tuple[float | None, ...]]:
    """Read what `echo` prints: per address the round trips in ms in order, None if lost.

    Raises:
        ValueError: it is something else.
    """
    times = json.loads(text)
    if not isinstance(times, dict):
        raise ValueError("not a JSON object")
    return {address: tuple(_time(x) for x in row) for address, row in times.items()}


def _time(value: object) -> float | None:
    if value is None or isinstance(value, (int, float)):
        return value
    raise ValueError(f"{value!r} is not a time")


def compare(
    times: Mapping[Pair, Sequence[float | None]],
    asked_ms: Mapping[Pair, float],
    discarded: int = 1,
) -> Reachability:
    """Set each pair's probes against what was asked, leaving out the first `discarded`.

    A pair that is asked for but has no probes counts as unreached. A pair whose counted probes were
    all lost is unreached even if a discarded one came back.
    """
    rows = [
        _round_trip(pair, asked, tuple(times.get(pair, ()))[discarded:])
        for pair, asked in sorted(asked_ms.items())
    ]
    return Reachability(tuple(rows))


def _round_trip(pair: Pair, asked_ms: float, counted: Sequence[float | None]) -> RoundTrip:
    came_back = [time_ms for time_ms in counted if time_ms is not None]
    return RoundTrip(
        source=pair[0],
        target=pair[1],
        asked_ms=asked_ms,
        measured_min_ms=min(came_back, default=None),
        median_ms=statistics.median(came_back) if came_back else None,
        lost=len(counted) - len(came_back),
    )


def echo_command(targets: Sequence[str], probing: Probing, start_at_s: float = 0.0) -> list[str]:
    """Return the command line that probes addresses as `probing` says, from a UNIX time on."""
    return [
        sys.executable, "-I", "-S", echo.__file__,
        "--rounds", str(probing.probes + probing.discarded),
        "--interval-ms", f"{probing.interval_ms:g}",
        "--timeout-ms", f"{probing.timeout_ms:g}",
        "--start-at", f"{start_at_s:.3f}",
        *(["--realtime"] if probing.realtime else []),
        *targets,
    ]  # fmt: skip


def probe_island(
    prefix: Sequence[str], targets: Sequence[str], probing: Probing, start_at_s: float = 0.0
) -> dict[str, tuple[float | None, ...]]:
    """Probe addresses from one island and return their round trips in ms.

    Args:
        prefix: command that enters the island's namespace, such as `mnexec -a PID`.
        targets: IPv4 addresses.
        probing: how.
        start_at_s: UNIX time of the first probe; at once when it is past.

    Raises:
        MachineError: there is no such command as the prefix.
        RunError: the probes could not be sent, or did not end in time.
    """
    limit_s = 10 + 2 * probing.longest_s(len(targets))
    command = [*prefix, *echo_command(targets, probing, start_at_s)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        return parse_times(done.stdout)
    except FileNotFoundError as error:
        raise MachineError(f"{error.filename} is missing") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"probing did not end within {limit_s:.0f} s") from None
    except ValueError:
        reason = _last_line(done.stderr)
        raise RunError(f"probing failed with {done.returncode}: {reason}") from None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def measure(
    prefixes: Mapping[str, Sequence[str]],
    addresses: Mapping[str, str],
    asked_ms: Mapping[Pair, float],
    probing: Probing | None = None,
) -> Reachability:
    """Probe every asked pair, all islands at once, and compare with what was asked.

    Args:
        prefixes: for each island the command prefix that enters its namespace.
        addresses: for each island its IPv4 address on the WAN.
        asked_ms: ordered pairs to probe and their configured round trip, in ms.
        probing: how; by default paced for the number of islands.

    Raises:
        MachineError: there is no such command as a prefix.
        RunError: an island could not be probed. Unreached pairs do not raise here: call
            `require_all` on the result.
    """
    probing = probing or Probing.paced(len(prefixes), max(asked_ms.values(), default=0.0))
    targets = {
        a: sorted(b for x, b in asked_ms if x == a) for a in sorted({a for a, _ in asked_ms})
    }
    start_at_s = time.time() + probing.start_after_s
    with ThreadPoolExecutor(max_workers=max(1, len(targets))) as pool:
        running = {
            site: pool.submit(
                probe_island, prefixes[site], [addresses[b] for b in to], probing, start_at_s
            )
            for site, to in targets.items()
        }
        by_address = {site: future.result() for site, future in running.items()}
    times = {(a, b): by_address[a].get(addresses[b], ()) for a, b in asked_ms}
    return compare(times, asked_ms, probing.discarded)
