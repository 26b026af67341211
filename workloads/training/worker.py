"""One worker's life: meet the others, train, exchange, and write down what happened."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import Interface
from workloads.collectives.kinds import Choice, assemble
from workloads.collectives.limits import Limits
from workloads.collectives.names import EXCHANGE, RING
from workloads.collectives.roster import Roster
from workloads.errors import CollectiveError
from workloads.training.records import WorkerRecord, write_line
from workloads.training.rotation import Rotation, Turn, require_groups
from workloads.training.rounds import RoundLog
from workloads.training.schedule import Schedule, load_schedule
from workloads.training.settings import Settings
from workloads.training.stopping import numbers_until_stopped
from workloads.training.workload import Workload, build

PATIENCE_ROUNDS = 3
STATED = (
    "workload",
    "rounds",
    "local_steps",
    "outer",
    "overlap_fragments",
    "batch_size",
    "learning_rate",
    "dirichlet_alpha",
    "seed",
)


@dataclass(frozen=True)
class Worker:
    """What one worker is, before any other is involved."""

    settings: Settings
    endpoint: Endpoint
    roster: Roster
    schedule: Schedule
    workload: Workload

    def fingerprint(self) -> str:
        """Return what all workers must have in common, in one line."""
        return f"{self.settings.job()} schedule={self.schedule.words} {self.workload.identity()}"

    def meet(self, interface: Interface) -> Rotation:
        """Meet the other workers and open the collectives of this one's cliques.

        Raises:
            RendezvousError: a worker is missing, or has other options.
            UsageError: the job file does not fit.
        """
        settings = self.settings
        # Whoever was idle, or in a quick clique, waits while its peers are still in a slow round.
        patience_s = settings.collective_timeout_s + PATIENCE_ROUNDS * self.schedule.longest_s
        limits = Limits(settings.rendezvous_timeout_s, patience_s)
        kind = EXCHANGE if settings.collective == RING else settings.collective
        choice = Choice(kind, settings.job_file)
        require_groups(self.schedule, self.endpoint.rank, choice)
        assembly = assemble(
            self.endpoint, self.roster, interface, choice, self.fingerprint(), limits
        )
        return Rotation(assembly, self.schedule, self.endpoint.rank)

    def turns(self, rotation: Rotation) -> Iterator[Turn]:
        """Yield what to do, round by round, until the last one or an early end."""
        settings = self.settings
        for number in numbers_until_stopped(settings.rounds, settings.stop_file):
            yield rotation.turn(number)


def run(settings: Settings, endpoint: Endpoint, roster: Roster, interface: Interface) -> None:
    """Take part in a job from its rendezvous to its end.

    Raises:
        WorkloadError: the rendezvous or a collective failed, or a setting does not fit.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    with WorkerRecord(settings.out, echo=settings.events) as record:
        try:
            worker = Worker(
                settings, endpoint, roster, _schedule(settings, roster), build(settings, endpoint)
            )
            _take_part(worker, interface, record)
        except Exception as error:
            record.append("error", time=time.time(), message=str(error))
            raise


def _schedule(settings: Settings, roster: Roster) -> Schedule:
    if settings.schedule is None:
        return Schedule.of_all(settings.collective, roster.size)
    return load_schedule(settings.schedule, roster)


def _take_part(worker: Worker, interface: Interface, record: WorkerRecord) -> None:
    record.append("start", **_start_fields(worker, interface))
    rotation = worker.meet(interface)
    try:
        if worker.settings.schedule is not None:
            worker.workload.evaluate()  # what is slow the first time is not the first round's
            rotation.begin_together()
        done = _do_rounds(worker, rotation, record)
        if rotation.ends_in_mean:
            record.append("final", **_final_fields(worker, rotation))
    except CollectiveError:
        raise
    except Exception as error:
        rotation.confess(f"{type(error).__name__}: {error}")
        raise
    record.append("end", **_end_fields(worker, done), counters=rotation.counters())
    rotation.close()


def _do_rounds(worker: Worker, rotation: Rotation, record: WorkerRecord) -> int:
    """Do the rounds and write each down; return how many they were."""
    done = 0
    for log in worker.workload.rounds(worker.turns(rotation)):
        fields = round_fields(worker, log)
        record.append("round", **fields)
        if worker.settings.progress and not worker.settings.events:
            name = worker.roster.name(worker.endpoint.rank)
            write_line(sys.stdout, progress_line(name, worker.settings.rounds, fields))
        done += 1
    return done


def round_fields(worker: Worker, log: RoundLog) -> dict[str, Any]:
    """Evaluate, and return the fields of a round's event."""
    clique = log.turn.clique
    return {
        **log.fields(),
        "clique": [] if clique is None else _names(worker.roster, clique.ranks),
        "message_bytes": worker.workload.message_bytes,
        **worker.workload.evaluate(),
    }


def progress_line(name: str, rounds: int, fields: dict[str, Any]) -> str:
    """Return a round in one line for a person who watches."""
    losses = [("train loss", fields["train_loss"]), ("held-out loss", fields["held_out_loss"])]
    return (
        f"{name}  round {fields['round'] + 1}/{rounds}  "
        f"local {fields['local_end'] - fields['local_start']:.2f} s  "
        f"sync {fields['sync_end'] - fields['sync_start']:.2f} s"
        + "".join(f"  {what} {loss:.3f}" for what, loss in losses if loss is not None)
    )


def _names(roster: Roster, ranks: tuple[int, ...]) -> list[str]:
    return [roster.site(rank) or str(rank) for rank in ranks]


def _start_fields(worker: Worker, interface: Interface) -> dict[str, Any]:
    settings, endpoint = worker.settings, worker.endpoint
    return {
        "time": time.time(),
        "rank": endpoint.rank,
        "world_size": endpoint.world_size,
        "site": worker.roster.site(endpoint.rank),
        "process_id": os.getpid(),
        "interface": interface.name,
        "address": interface.address,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "threads": torch.get_num_threads(),
        "message_bytes": worker.workload.message_bytes,
        **{name: getattr(settings, name) for name in STATED},
        "collective": None if settings.schedule else settings.collective,
        **worker.workload.description(),
    }


def _final_fields(worker: Worker, rotation: Rotation) -> dict[str, Any]:
    """Take the mean of all islands, and return what came of it."""
    collective = rotation.final()
    began = time.time()
    worker.workload.unite(collective)
    ended = time.time()
    return {
        "time": ended,
        "start": began,
        "end": ended,
        **worker.workload.evaluate(),
        "parameters_sha256": worker.workload.sha256(),
    }


def _end_fields(worker: Worker, done: int) -> dict[str, Any]:
    return {
        "time": time.time(),
        "rounds_done": done,
        "parameters_sha256": worker.workload.sha256(),
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
