"""One worker of a benchmark: opens the collective, repeats each size, checks every result."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch
from torch import Tensor

from workloads.benching.data import contribution, expected_mean, wrong_elements
from workloads.benching.settings import FLOAT32_BYTES, Settings
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gloo import open_ring
from workloads.collectives.interfaces import Interface
from workloads.collectives.kinds import Choice, open_collective
from workloads.collectives.limits import Limits
from workloads.collectives.names import RING
from workloads.collectives.roster import Roster
from workloads.errors import CollectiveError
from workloads.training.records import WorkerRecord


class Opened(Protocol):
    """What is measured: a collective over all workers that can be left."""

    def allreduce(self, tensor: Tensor) -> Tensor:
        """Return the mean of all members' tensors."""

    def counters(self) -> dict[str, int]:
        """Return what was counted, by name."""

    def confess(self, reason: str) -> None:
        """Tell the others why this one ends."""

    def close(self) -> None:
        """Part from the others."""


def run(settings: Settings, endpoint: Endpoint, roster: Roster, interface: Interface) -> None:
    """Take part in a benchmark from its rendezvous to its end.

    Raises:
        WorkloadError: the rendezvous or the collective failed.
    """
    torch.set_num_threads(1)
    with WorkerRecord(None, echo=True) as record:
        opened = _open(settings, endpoint, roster, interface)
        record.append("start", time=time.time(), rank=endpoint.rank, kind=settings.kind)
        try:
            for size_bytes in settings.sizes_bytes:
                record.append("size", **measure(opened, settings, endpoint, size_bytes))
        except CollectiveError:
            raise
        except Exception as error:
            opened.confess(f"{type(error).__name__}: {error}")
            raise
        counted = opened.counters()
        record.append("end", time=time.time(), cpu_s=time.process_time(), counters=counted)
        opened.close()


def measure(
    opened: Opened, settings: Settings, endpoint: Endpoint, size_bytes: int
) -> dict[str, Any]:
    """Repeat the collective on one size; return when each repetition began and ended."""
    elements = size_bytes // FLOAT32_BYTES
    mine = contribution(settings.seed, endpoint.rank, elements)
    expected = expected_mean(settings.seed, endpoint.world_size, elements)
    for _ in range(settings.warm_up):
        opened.allreduce(mine)
    time.sleep(settings.pause_s)
    began, ended, wrong = [], [], 0
    cpu_before = time.process_time()
    for _ in range(settings.iterations):
        began.append(time.time())
        result = opened.allreduce(mine)
        ended.append(time.time())
        wrong += wrong_elements(result, expected)
    cpu_s = time.process_time() - cpu_before
    time.sleep(settings.pause_s)
    return {
        "size_bytes": size_bytes,
        "began": began,
        "ended": ended,
        "wrong": wrong,
        "cpu_s": cpu_s,
    }


def _open(settings: Settings, endpoint: Endpoint, roster: Roster, interface: Interface) -> Opened:
    limits = Limits(settings.rendezvous_s, settings.collective_s)
    if settings.kind == RING:
        return open_ring(endpoint, roster, interface, settings.fingerprint(), limits)
    choice = Choice(settings.kind, settings.job, pace_mbps=settings.pace_mbps)
    return open_collective(endpoint, roster, interface, choice, settings.fingerprint(), limits)
