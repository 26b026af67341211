"""What is shown of a run at one moment, as plain data worked out from its record. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from testbed.monitor.judge import judge
from testbed.monitor.thresholds import DEFAULT_THRESHOLDS
from testbed.record.reader import RUNNING
from testbed.watching.live import Live
from testbed.watching.rates import Meters
from topologies.model import Direction, Topology

SHOWN_ROUNDS = 6
BUSY_SHARE = 0.02
ENDED = ("end", "final")


@dataclass(frozen=True)
class Way:
    """A link direction.

    Attributes:
        rate_mbps: now; the highest there was, for a run that has ended.
        share: of its capacity; None where that is not known.
        bytes: since the first look of the sampler.
        drops: in all.
    """

    direction: str
    rate_mbps: float
    share: float | None
    bytes: int
    drops: int


@dataclass(frozen=True)
class WorkerLine:
    """A worker.

    Attributes:
        round: it has finished last; None before the first.
        phase: what it does now.
        up: its access port towards its switch.
        down: from its switch.
        train_loss: of its last round.
        held_out_loss: of its last round.
    """

    site: str
    round: int | None
    phase: str
    up: Way
    down: Way
    train_loss: float | None
    held_out_loss: float | None


@dataclass(frozen=True)
class Frame:
    """A run at one moment.

    Attributes:
        title: of the run, and of the variant and repetition that runs.
        state: `running`, `complete`, `failed` or `killed`.
        links: both directions of each WAN link.
        rounds: the newest.
        done: rounds that every worker has finished.
        asked: rounds the training is to have.
        left_s: time left, by the median of the rounds so far.
        reasons: why the run is not valid, as far as is known by now.
        judged: whether the verdict is final.
    """

    title: str
    state: str
    links: Sequence[tuple[Way, Way]]
    workers: Sequence[WorkerLine]
    rounds: Sequence[Mapping[str, Any]]
    done: int
    asked: int | None
    left_s: float | None
    reasons: Sequence[str]
    judged: bool


def frame_of(live: Live) -> Frame:
    """Return what is to be shown of a run now."""
    running = live.state == RUNNING
    workers = [_worker(site, part.rows, live, running) for site, part in _sorted(live.workers)]
    done = min((len_rounds(part.rows) for part in live.workers.values()), default=0)
    asked = live.asked_rounds
    summary = live.summary
    return Frame(
        title=title(live),
        state=live.state,
        links=_links(live.meters, live.topology, running),
        workers=workers,
        rounds=live.rounds.rows[-SHOWN_ROUNDS:],
        done=done,
        asked=asked,
        left_s=left_s(live.rounds.rows, done, asked) if running else None,
        reasons=summary.get("reasons") or () if summary else reasons_so_far(live),
        judged=summary is not None,
    )


def reasons_so_far(live: Live) -> Sequence[str]:
    """Return what speaks against a run, of the time that figures are of: none before a round."""
    if live.measured_from_s is None:
        return ()
    return judge(live.samples, DEFAULT_THRESHOLDS, (live.measured_from_s, math.inf))


def title(live: Live) -> str:
    """Return the name of the run, its network, and the variant that runs."""
    parts = [live.run.name, str(live.manifest.get("topology", ""))]
    if live.training is not None:
        place, whole = live.training
        parts.append(f"training {place} of {whole}")
        parts.append(f"variant {live.record.parent.name}, repetition {live.record.name}")
    return " · ".join(part for part in parts if part)


def len_rounds(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rounds a worker's newest rows say it has finished."""
    return max((int(row["round"]) + 1 for row in finished(rows)), default=0)


def finished(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a worker's rows of rounds, those without a number left out."""
    return [
        row for row in rows if row.get("event") == "round" and isinstance(row.get("round"), int)
    ]


def left_s(rounds: Sequence[Mapping[str, Any]], done: int, asked: int | None) -> float | None:
    """Return how long the rounds that are left will take; None before the first two."""
    if asked is None or len(rounds) < 2:
        return None
    each_s = median(row["end"] - row["start"] for row in rounds)
    return max(0, asked - done) * float(each_s)


def _sorted(parts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(parts.items())


def _links(meters: Meters, topology: Topology | None, running: bool) -> tuple[tuple[Way, Way], ...]:
    names = sorted(name for name in meters.by_direction if "." not in name)
    if topology is not None:
        names = sorted(str(way) for way in topology.wan_directions())
    forward = [name for name in names if name.split(">") == sorted(name.split(">"))]
    return tuple(
        (way(name, meters, topology, running), way(_reverse(name), meters, topology, running))
        for name in forward
    )


def _reverse(name: str) -> str:
    return str(Direction.parse(name).reverse)


def way(name: str, meters: Meters, topology: Topology | None, running: bool) -> Way:
    """Return a direction as it is now, or as it was at its busiest in a run that has ended."""
    meter = meters.by_direction.get(name)
    peak = 0.0 if meter is None else meter.peak_mbps
    rate_mbps = meters.rate_mbps(name) if running else peak
    capacity = None
    if topology is not None:
        capacity = topology.directions()[Direction.parse(name)].rate_mbps
    return Way(
        direction=name,
        rate_mbps=rate_mbps,
        share=rate_mbps / capacity if capacity else None,
        bytes=0 if meter is None else meter.bytes - (meter.first_bytes or 0),
        drops=0 if meter is None else meter.drops,
    )


def _worker(site: str, rows: Sequence[Mapping[str, Any]], live: Live, running: bool) -> WorkerLine:
    done = finished(rows)
    last = done[-1] if done else {}
    up, down = (
        way(str(direction), live.meters, live.topology, running)
        for direction in (Direction.up(site), Direction.down(site))
    )
    return WorkerLine(
        site=site,
        round=int(last["round"]) if last else None,
        phase=phase(rows, up, down, running),
        up=up,
        down=down,
        train_loss=last.get("train_loss"),
        held_out_loss=last.get("held_out_loss"),
    )


def phase(rows: Sequence[Mapping[str, Any]], up: Way, down: Way, running: bool) -> str:
    """Return what a worker does now, by its last event and by what its access port carries."""
    events = [row.get("event") for row in rows]
    if "end" in events:
        return "done"
    if not running:
        return "ended early"
    if not events:
        return "starting"
    sends, hears = ((one.share or 0.0) > BUSY_SHARE for one in (up, down))
    if sends or hears:
        return {(True, True): "exchanges", (True, False): "sends"}.get((sends, hears), "receives")
    return "computes or waits"
