"""Is every island reached from every other, and is the way as long as the topology says?

A round trip is the one figure that both proves forwarding (there *and* back) and shows the delay
that training will feel. Each ordered pair is probed by ICMP echo (RFC 792) several times, by one
`fping` process in each island's namespace: fping sends to all targets in turn at a fixed interval,
which keeps the queues empty, where a shell full of `ping` would send in bursts.

The first probe of a pair is thrown away. It waits for the ARP answer, which the controller gives,
so it measures the controller. Of the others the *minimum* shows the network alone and the
*median* what a packet usually meets, the scheduler of a busy machine included. Errors are taken
from the median, the harder figure.

What is asked for is the propagation delay there and back along the configured routes. It leaves out
the time to put a frame on the wire, which for a probe of 98 bytes is 8 us a hop at 100 Mbit/s.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from topologies.errors import MachineError, RunError
from topologies.routing import Routes

Pair = tuple[str, str]

# All islands together: more would load the switches and delay the very probes that measure them.
MAX_PROBES_PER_SECOND = 1000


@dataclass(frozen=True)
class Probing:
    """How pairs are probed.

    Attributes:
        probes: probes of each ordered pair that count.
        discarded: first probes of each pair that do not count.
        interval_ms: between two probes of one island, to whichever target.
        timeout_ms: after which a probe is lost; more than the longest round trip.
    """

    probes: int = 5
    discarded: int = 1
    interval_ms: float = 10.0
    timeout_ms: float = 1500.0

    @classmethod
    def paced(cls, islands: int, longest_round_trip_ms: float = 0.0, probes: int = 5) -> Probing:
        """Return a probing whose islands together stay under `MAX_PROBES_PER_SECOND`."""
        interval_ms = max(10.0, 1000.0 * islands / MAX_PROBES_PER_SECOND)
        return cls(probes, 1, interval_ms, max(1500.0, 2.0 * longest_round_trip_ms))

    def period_ms(self, targets: int) -> float:
        """Return the time from one probe of a pair to the next."""
        return self.interval_ms * max(1, targets)

    def longest_s(self, targets: int) -> float:
        """Return how long one island's probing may take."""
        rounds = self.probes + self.discarded
        return (rounds * self.period_ms(targets) + self.timeout_ms) / 1000.0


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


_FPING_LINE = re.compile(r"^(?P<target>\S+)\s+:(?P<times>(?:\s+(?:-|\d+(?:\.\d+)?))+)\s*$")


def parse_fping(text: str) -> dict[str, tuple[float | None, ...]]:
    """Read `fping -C N -q`: per target its round trips in ms in order of sending, None if lost.

    Lines of another shape (ICMP errors, warnings) are passed over.
    """
    matches = (_FPING_LINE.match(line) for line in text.splitlines())
    return {
        match["target"]: tuple(None if t == "-" else float(t) for t in match["times"].split())
        for match in matches
        if match
    }


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


def fping_command(targets: Sequence[str], probing: Probing) -> list[str]:
    """Return the fping command line that probes addresses as `probing` says."""
    count = probing.probes + probing.discarded
    return [
        "fping", "-4", "-q",
        "-C", str(count),
        "-i", f"{probing.interval_ms:g}",
        "-p", f"{probing.period_ms(len(targets)):g}",
        "-t", f"{probing.timeout_ms:g}",
        *targets,
    ]  # fmt: skip


def probe_island(
    prefix: Sequence[str], targets: Sequence[str], probing: Probing
) -> dict[str, tuple[float | None, ...]]:
    """Probe addresses from one island and return their round trips in ms.

    Args:
        prefix: command that enters the island's namespace, such as `mnexec -a PID`.
        targets: IPv4 addresses.
        probing: how.

    Raises:
        MachineError: there is no fping, or no command to enter the namespace.
        RunError: fping did not probe all targets, or did not end in time.
    """
    # Asked for here, because a prefix that does not find it fails as if nobody had answered.
    if shutil.which("fping") is None:
        raise MachineError("fping is missing: apt-get install fping")
    limit_s = 10 + 2 * probing.longest_s(len(targets))
    command = [*prefix, *fping_command(targets, probing)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except FileNotFoundError as error:
        raise MachineError(f"{error.filename} is missing") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"fping did not end within {limit_s:.0f} s") from None
    times = parse_fping(done.stderr)
    if not times.keys() >= set(targets):
        raise RunError(f"fping failed with {done.returncode}: {_last_line(done.stderr)}")
    return times


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
        MachineError: there is no fping.
        RunError: an island could not be probed. Unreached pairs do not raise here: call
            `require_all` on the result.
    """
    probing = probing or Probing.paced(len(prefixes), max(asked_ms.values(), default=0.0))
    targets = {
        a: sorted(b for x, b in asked_ms if x == a) for a in sorted({a for a, _ in asked_ms})
    }
    with ThreadPoolExecutor(max_workers=max(1, len(targets))) as pool:
        running = {
            site: pool.submit(probe_island, prefixes[site], [addresses[b] for b in to], probing)
            for site, to in targets.items()
        }
        by_address = {site: future.result() for site, future in running.items()}
    times = {(a, b): by_address[a].get(addresses[b], ()) for a, b in asked_ms}
    return compare(times, asked_ms, probing.discarded)
