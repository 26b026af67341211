"""Carries out a whole experiment on a standing WAN: every variant, every repetition, interleaved.

One variant after the other, then all again: what slowly changes on the machine meets all of them
alike. An experiment of one training is recorded as the run itself; of others each training has a
record of its own in `variants/<variant>/<repetition>/` of the run's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from testbed.deploy.island import Islands
from testbed.emulation.emulation import Emulation
from testbed.experiment import schedule as schedules
from testbed.experiment.background_model import Entry, read_traffic_matrix
from testbed.experiment.closing import closing_lines, plan_line, print_summary
from testbed.experiment.file import from_data
from testbed.experiment.job import Job
from testbed.experiment.model import Experiment
from testbed.experiment.target import not_reached
from testbed.measure.reach import Reachability
from testbed.order import Order
from testbed.progress import Stages
from testbed.record.summary import Summary
from testbed.record.writer import RunRecord
from testbed.training import Standing, train
from testbed.workers import deploy, island_progress
from topologies.model import Topology
from workloads.innetwork.build import ensure_built

VARIANTS = "variants"


def conduct(
    order: Order,
    wan: Emulation,
    islands: Islands,
    reach: Reachability,
    record: RunRecord,
    stages: Stages,
) -> int:
    """Carry out the order's experiment; returns the exit code.

    Raises:
        UserError: the network cannot do what a variant asks.
        WorkersFailed: a worker failed; it names the first and its last words.
        RunError: a part of the WAN died, or the time was over.
    """
    assert order.experiment is not None
    experiment = from_data(order.experiment)
    jobs = list(jobs_of(order, experiment, wan))
    with islands.fleet(island_progress(stages)) as fleet:
        if any(job.works_with_the_network for job in jobs):
            ensure_built()
        deploy(fleet, stages)
        beside = background_of(experiment, wan.topology)
        standing = Standing(order, experiment, wan, fleet, reach, stages, beside)
        for job in jobs[: len(experiment.variants)]:
            stages.finish()
            stages.console.print(plan_line(job), highlight=False, markup=False, soft_wrap=True)
        summaries = []
        for done, job in enumerate(jobs):
            if not experiment.is_plain:
                stages.part("Trainings", done, len(jobs))
            summaries.append(_one(job, standing, record))
    if experiment.is_plain:
        return _conclude_plain(jobs[0], summaries[0], standing, record)
    return _conclude(jobs, summaries, standing)


def jobs_of(order: Order, experiment: Experiment, wan: Emulation) -> Iterator[Job]:
    """Yield the trainings of an experiment in the order in which they run."""
    for repetition in range(1, experiment.repetitions + 1):
        for variant, training in zip(experiment.variants, order.trainings, strict=True):
            yield Job.of(
                variant,
                schedules.from_data(training["schedule"]),
                int(training["message_bytes"]),
                wan,
                seed=experiment.seed,
                repetition=repetition,
            )


def background_of(experiment: Experiment, topology: Topology) -> Sequence[Entry]:
    """Return everything that goes on beside a training."""
    matrix: Sequence[Entry] = ()
    if experiment.traffic_matrix is not None:
        matrix = read_traffic_matrix(Path(experiment.traffic_matrix), topology)
    return [*experiment.background, *matrix, *experiment.tenants]


def _one(job: Job, standing: Standing, run: RunRecord) -> Summary:
    if standing.experiment.is_plain:
        return train(job, standing, run)
    name, repetition = job.variant.name, job.repetition
    run.event("training_started", variant=name, repetition=repetition)
    path = run.path / VARIANTS / name / str(repetition)
    own = {"variant": name, "repetition": repetition, "capability": job.variant.capability}
    manifest = {**run.manifest, **own, "seeds": {"run": standing.order.seed, "training": job.seed}}
    with RunRecord.create(path, manifest, is_latest=False) as record:
        summary = train(job, standing, record)
    run.event("training_ended", variant=name, repetition=repetition, valid=summary["valid"])
    return summary


def _failures(job: Job, summary: Summary) -> list[str]:
    """Return what keeps a training from having done what was asked, one line each."""
    found = [f"INVALID: {reason}" for reason in summary["reasons"]]
    wanted = summary["time_to_target"]
    if wanted is not None and wanted["seconds"] is None:
        missed = not_reached(wanted["target_loss"], summary, summary["loss_unit"])
        found.append(f"NOT REACHED: {missed}")
    return found


def _conclude_plain(job: Job, summary: Summary, standing: Standing, record: RunRecord) -> int:
    """Print what a run of one training came to."""
    failures = _failures(job, summary)
    standing.stages.finish()
    print_summary(summary, standing.stages.console)
    _say(standing, [*closing_lines(job, summary), f"Record: {record.path}"], failures)
    if standing.order.as_json:
        print(json.dumps(summary, indent=1))
    return 1 if failures else 0


def _conclude(jobs: Sequence[Job], summaries: Sequence[Summary], standing: Standing) -> int:
    """Print what went wrong in a run of several trainings; what they came to is compared later."""
    standing.stages.finish()
    found = [(job, _failures(job, summary)) for job, summary in zip(jobs, summaries, strict=True)]
    failures = [
        f"{job.variant.name}, {job.repetition}: {line}" for job, lines in found for line in lines
    ]
    _say(standing, [], failures)
    return 1 if without_success((job.variant.name, not lines) for job, lines in found) else 0


def without_success(trainings: Iterable[tuple[str, bool]]) -> set[str]:
    """Return the variants of which no repetition did what was asked; that is what repeating is for.

    Args:
        trainings: of each the variant's name, and whether nothing went wrong.
    """
    outcomes = list(trainings)
    return {name for name, _ in outcomes} - {name for name, succeeded in outcomes if succeeded}


def _say(standing: Standing, lines: Sequence[str], failures: Sequence[str]) -> None:
    console = standing.stages.console
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in failures:
        console.print(line, style="red", markup=False, soft_wrap=True)
