"""A run's counters for Prometheus, read from its record whenever somebody asks.

The endpoint listens on loopback alone: management is nobody's business outside the machine.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from testbed.record.reader import RUNNING
from testbed.watching.frame import Frame, frame_of
from testbed.watching.live import Live

LOOPBACK = "127.0.0.1"
ROUND_GAUGES = {
    "sync_s": ("atoll_round_sync_seconds", "Synchronization of the newest settled round."),
    "round_s": ("atoll_round_seconds", "The newest settled round, local steps included."),
    "bound_s": ("atoll_round_bound_seconds", "The least the newest round's collective can take."),
    "predicted_s": ("atoll_round_predicted_seconds", "What was predicted for the newest round."),
    "train_loss": ("atoll_train_loss", "Training loss of the newest settled round."),
    "held_out_loss": ("atoll_held_out_loss", "Held-out loss of the newest settled round."),
    "consensus_distance": ("atoll_consensus_distance", "Of the newest settled round."),
}


class RunCollector(Collector):
    """Reads a run's record at every scrape."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._turn = threading.Lock()  # each scrape has a thread, and there is one place in a file

    def collect(self) -> Iterator[Metric]:
        """Return everything that is known of the run now."""
        with self._turn:
            self._live.look()
            found = [
                *_run(self._live, frame_of(self._live)),
                *_links(self._live),
                *_rounds(self._live.rounds.rows),
                *_machine(self._live),
            ]
        yield from found


def registry_of(live: Live) -> CollectorRegistry:
    """Return a registry that holds a run and nothing of this process."""
    registry = CollectorRegistry()
    registry.register(RunCollector(live))
    return registry


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _run(live: Live, frame: Frame) -> Iterator[Metric]:
    inside = live.record != live.run
    info = {
        "run": live.run.name,
        "topology": str(live.manifest.get("topology", "")),
        "variant": live.record.parent.name if inside else "",
        "repetition": live.record.name if inside else "",
    }
    about = GaugeMetricFamily("atoll_run_info", "What is watched.", labels=list(info))
    about.add_metric(list(info.values()), 1)
    yield about
    yield _gauge("atoll_run_running", "1 while the run goes on.", float(frame.state == RUNNING))
    yield _gauge(
        "atoll_run_reasons_against", "Reasons why the run is not valid.", len(frame.reasons)
    )
    done = CounterMetricFamily("atoll_rounds", "Rounds that every island has finished.")
    done.add_metric([], frame.done)
    yield done


def _links(live: Live) -> Iterator[Metric]:
    words = {
        "bytes": "Bytes that entered a link direction.",
        "packets": "Packets that entered a link direction.",
        "drops": "Packets that a link direction dropped.",
    }
    for column, text in words.items():
        family = CounterMetricFamily(f"atoll_link_{column}", text, labels=["direction"])
        for direction, meter in sorted(live.meters.by_direction.items()):
            family.add_metric([direction], getattr(meter, column))
        yield family
    if live.topology is not None:
        capacity = GaugeMetricFamily(
            "atoll_link_capacity_bits_per_second", "As emulated.", labels=["direction"]
        )
        for way, spec in live.topology.directions().items():
            capacity.add_metric([str(way)], spec.rate_mbps * 1e6)
        yield capacity


def _rounds(rows: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    for field, (name, text) in ROUND_GAUGES.items():
        value = rows[-1].get(field) if rows else None
        if value is not None and math.isfinite(value):
            yield _gauge(name, text, value)


def _machine(live: Live) -> Iterator[Metric]:
    samples = live.samples
    if not samples:
        return
    newest = samples[-1]
    yield _gauge("atoll_cpu_busy_percent", "Of all processors.", newest.cpu_busy_pct)
    yield _gauge("atoll_cpu_steal_percent", "Taken by the hypervisor.", newest.steal_pct)
    late = CounterMetricFamily("atoll_link_late_releases", "Frames that links let go late.")
    late.add_metric([], live.late_releases)
    yield late
    if newest.lateness_p99_us is not None:
        yield _gauge(
            "atoll_link_lateness_p99_seconds",
            "Of frames that links let go in the last second.",
            newest.lateness_p99_us / 1e6,
        )
