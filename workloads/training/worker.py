"""One worker's life: meet the others, train, exchange, and write down what happened."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workloads.collectives.base import Collective
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gloo import open_ring
from workloads.collectives.interfaces import Interface
from workloads.collectives.kinds import Choice, open_collective
from workloads.collectives.limits import Limits
from workloads.collectives.roster import Roster
from workloads.errors import CollectiveError
from workloads.training.data import Batches, Corpus, held_out_windows, load_corpus, shard_blocks
from workloads.training.model import PRESETS, build_model, cross_entropy
from workloads.training.optimizer import (
    AdamW,
    AdamWSettings,
    DilocoNesterov,
    OuterOptimizer,
    PlainMean,
)
from workloads.training.parameters import FlatParameters
from workloads.training.records import Stopwatch, WorkerRecord, write_line
from workloads.training.settings import Settings
from workloads.training.sync import GradientEveryStep, Learner, LocalSteps, Synchronization

OUTER: dict[str, type[OuterOptimizer]] = {"mean": PlainMean, "diloco": DilocoNesterov}


class Worker:
    """A model, its data and its way to synchronize, before any other worker is involved."""

    def __init__(self, settings: Settings, endpoint: Endpoint) -> None:
        shape = PRESETS[settings.preset]
        corpus = load_corpus()
        self.settings = settings
        self.rank = endpoint.rank
        self.model = build_model(shape, len(corpus.vocabulary), settings.seed)
        self.parameters = FlatParameters(self.model)
        self.held_out = held_out_windows(
            corpus, shape.context, settings.held_out_windows, endpoint.rank, endpoint.world_size
        )
        batches = _training_batches(corpus, settings, endpoint, shape.context)
        optimizer = AdamW(self.parameters, AdamWSettings(learning_rate=settings.learning_rate))
        learner = Learner(self.model, self.parameters, optimizer, batches)
        self.synchronization = _synchronization(settings, learner)

    def fingerprint(self) -> str:
        """Return what all workers must have in common: the job and the initial parameters."""
        return f"{self.settings.job()} initial_parameters={self.parameters.sha256()[:16]}"

    def run_round(self, number: int, collective: Collective) -> dict[str, Any]:
        """Work, exchange and evaluate; return the fields of the round's event."""
        watch = Stopwatch()
        watch.mark("local_start")
        cpu_before = time.process_time()
        train_loss = self.synchronization.work_locally()
        cpu_after = time.process_time()
        watch.mark("local_end")
        watch.mark("sync_start")
        distance = self.synchronization.synchronize(collective)
        watch.mark("sync_end")
        return {
            "round": number,
            **watch.fields(),
            "local_cpu_s": cpu_after - cpu_before,
            "train_loss": train_loss,
            "held_out_loss": evaluate(self.model, *self.held_out),
            "held_out_windows": len(self.held_out[0]),
            "consensus_distance": distance,
            "message_bytes": self.parameters.message_bytes,
        }


def run(settings: Settings, endpoint: Endpoint, roster: Roster, interface: Interface) -> None:
    """Take part in a job from its rendezvous to its end.

    Raises:
        WorkloadError: the rendezvous or a collective failed, or a setting does not fit.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    with WorkerRecord(settings.out, echo=settings.events) as record:
        try:
            _take_part(settings, endpoint, roster, interface, record)
        except Exception as error:
            record.append("error", time=time.time(), message=str(error))
            raise


def _take_part(
    settings: Settings,
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    record: WorkerRecord,
) -> None:
    worker = Worker(settings, endpoint)
    record.append("start", **_start_fields(worker, endpoint, roster, interface))
    limits = Limits(settings.rendezvous_timeout_s, settings.collective_timeout_s)
    collective = _open(settings, endpoint, roster, interface, worker.fingerprint(), limits)
    try:
        for number in range(settings.rounds):
            fields = worker.run_round(number, collective)
            record.append("round", **fields)
            if settings.progress and not settings.events:
                name = roster.name(endpoint.rank)
                write_line(sys.stdout, progress_line(name, settings.rounds, fields))
    except CollectiveError:
        raise
    except Exception as error:
        collective.confess(f"{type(error).__name__}: {error}")
        raise
    record.append("end", **_end_fields(worker), counters=collective.counters())
    collective.close()


def _open(
    settings: Settings,
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    fingerprint: str,
    limits: Limits,
) -> Collective:
    if settings.collective == "ring":
        return open_ring(endpoint, roster, interface, fingerprint, limits)
    choice = Choice(settings.collective, settings.job_file)
    return open_collective(endpoint, roster, interface, choice, fingerprint, limits)


def evaluate(model: nn.Module, tokens: Tensor, targets: Tensor) -> float | None:
    """Return the mean loss on some windows in nats a character, or None where there are none."""
    if not len(tokens):
        return None
    with torch.no_grad():
        return cross_entropy(model, tokens, targets).item()


def progress_line(name: str, rounds: int, fields: dict[str, Any]) -> str:
    """Return a round in one line for a person who watches."""
    held_out = fields["held_out_loss"]
    return (
        f"{name}  round {fields['round'] + 1}/{rounds}  "
        f"local {fields['local_end'] - fields['local_start']:.2f} s  "
        f"sync {fields['sync_end'] - fields['sync_start']:.2f} s  "
        f"train loss {fields['train_loss']:.3f}"
        + ("" if held_out is None else f"  held-out loss {held_out:.3f}")
    )


def _training_batches(
    corpus: Corpus, settings: Settings, endpoint: Endpoint, context: int
) -> Batches:
    blocks = shard_blocks(corpus, endpoint.rank, endpoint.world_size, settings.seed)
    return Batches(blocks, context, settings.batch_size, (settings.seed, endpoint.rank))


def _synchronization(settings: Settings, learner: Learner) -> Synchronization:
    if settings.outer == "none":
        return GradientEveryStep(learner)
    return LocalSteps(learner, OUTER[settings.outer](), settings.local_steps)


def _start_fields(
    worker: Worker, endpoint: Endpoint, roster: Roster, interface: Interface
) -> dict[str, Any]:
    settings = worker.settings
    return {
        "time": time.time(),
        "rank": endpoint.rank,
        "world_size": endpoint.world_size,
        "site": roster.site(endpoint.rank),
        "process_id": os.getpid(),
        "interface": interface.name,
        "address": interface.address,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "threads": torch.get_num_threads(),
        "parameters": len(worker.parameters),
        "message_bytes": worker.parameters.message_bytes,
        "preset": settings.preset,
        "rounds": settings.rounds,
        "local_steps": settings.local_steps,
        "outer": settings.outer,
        "collective": settings.collective,
        "batch_size": settings.batch_size,
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
    }


def _end_fields(worker: Worker) -> dict[str, Any]:
    return {
        "time": time.time(),
        "parameters_sha256": worker.parameters.sha256(),
        "peak_rss_bytes": peak_rss_bytes(Path("/proc/self/status").read_text(encoding="ascii")),
        "cpu_s": time.process_time(),
    }


def peak_rss_bytes(status: str) -> int:
    """Return the peak resident memory that a text like /proc/self/status tells of.

    `getrusage` would count what the parent had resident before this program was started.
    """
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no VmHWM in the status of the process")
