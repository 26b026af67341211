"""One training on a standing WAN: start a worker on each island, follow them, count what they send.

What is trained and who meets whom is a `Job` (`testbed.experiment.job`). Here it is carried out:
trees are laid out, workers told their rounds, background traffic and faults let happen at their
times, rounds written down as they settle, and what came of it summed up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed.capturing import Captured, capturing
from testbed.deploy.fleet import Fleet
from testbed.emulation.emulation import Emulation
from testbed.experiment import schedule as schedules
from testbed.experiment import target
from testbed.experiment.background import Background, started
from testbed.experiment.background_model import Entry
from testbed.experiment.faults import Faults, missed_words, reroutes
from testbed.experiment.job import LAYERS_NAME, OUTPUT_NAME, STOP_NAME, Job
from testbed.experiment.model import Experiment
from testbed.experiment.trees import groups_of, installed, lay_out_groups, push_groups
from testbed.innetwork.layout import Layout, Numbering
from testbed.innetwork.limits import alike
from testbed.measure.planned import RoundPlan
from testbed.measure.reach import Reachability
from testbed.measure.sampler import Sampler
from testbed.measure.windows import round_rows
from testbed.measure.witnesses import compare_witnesses
from testbed.monitor.watch import FILE_NAME as FIDELITY_NAME
from testbed.monitor.watch import FidelityMonitor
from testbed.order import Order
from testbed.progress import Stages
from testbed.record.evidence import Evidence, settled_rounds
from testbed.record.summary import Summary, summarize
from testbed.record.writer import RunRecord
from testbed.workers import Reports, Rows, alive, sampling

SETTLE_S = 0.8
FOLLOW_S = 0.5


@dataclass(frozen=True)
class Standing:
    """What the trainings of a run have in common: the WAN they use one after the other.

    Attributes:
        fleet: connections to its islands, to which `workloads` was deployed.
        background: entries of traffic beside each training.
        numbering: of all trees of the run.
    """

    order: Order
    experiment: Experiment
    wan: Emulation
    fleet: Fleet
    reach: Reachability
    stages: Stages
    background: Sequence[Entry] = ()
    numbering: Numbering = field(default_factory=Numbering)


@dataclass
class Course:
    """A training under way.

    Attributes:
        furthest: the round after which workers were told to end; None while they were not.
        settled: rows of the rounds that can no longer change.
    """

    job: Job
    standing: Standing
    record: RunRecord
    sampler: Sampler
    background: Background
    faults: Faults
    reports: Reports
    furthest: int | None = None
    settled: list[dict[str, Any]] = field(default_factory=list)
    began: bool = False
    looked_at: float = 0.0

    def check(self) -> None:
        """Let what is due happen, and look at what workers have said meanwhile."""
        self.reports.check()
        self.faults.check()
        self.background.check()
        now = time.monotonic()
        if now - self.looked_at >= FOLLOW_S and self.reports.has_news():
            self.looked_at = now
            self._follow(self.reports.snapshot())

    def _follow(self, rows: Rows) -> None:
        if len(rows) < len(self.job.rank_order):
            return
        if not self.began:
            self.began = True
            self.background.begin(time.time())
            self.faults.begin()
        new = settled_rounds(evidence_of(self.job, rows, self.sampler), len(self.settled))
        self.settled += new
        self.record.rounds(new)
        self._end_at_target(rows)
        done = min(len(round_rows(site_rows)) for site_rows in rows.values())
        self.standing.stages.advance(done, _note(self.settled))

    def _end_at_target(self, rows: Rows) -> None:
        wanted = self.job.variant.target_loss
        if wanted is None or self.furthest is not None:
            return
        if not target.is_reached(self.settled, wanted):
            return
        finished = max(max(round_rows(site_rows)) for site_rows in rows.values())
        self.furthest = target.last_round(finished, self.settled)
        if self.furthest + 1 < self.job.variant.rounds:
            _push_text(self, STOP_NAME, target.stop_file(self.furthest))
        self.record.event("target_reached", target_loss=wanted, after_round=self.furthest)


def _note(settled: Sequence[Mapping[str, Any]]) -> str:
    if not settled:
        return ""
    last = settled[-1]
    loss = last["held_out_loss"]
    shown = "" if loss is None else f"held-out loss {loss:.3f}, "
    return f"{shown}sync {last['sync_s']:.1f} s"


def train(job: Job, standing: Standing, record: RunRecord) -> Summary:
    """Carry out one training; returns its summary, which is written too.

    Raises:
        UserError: its trees cannot be laid out.
        WorkersFailed: a worker failed; it names the first and its last words.
        RunError: a part of the WAN died, or the time was over.
    """
    plans = job.plans()
    record.amend_manifest(
        plan=schedules.for_the_record(job.schedule),
        predicted=[_predicted(number, plan) for number, plan in enumerate(plans)],
    )
    layouts = _layouts(job, standing)
    with installed(layouts, job.wan):
        _tell_workers(job, standing, record, layouts, plans)
        evidence, background, captured = _under_watch(job, standing, record)
    evidence = replace(
        evidence,
        reach=standing.reach,
        cross_check=compare_witnesses(job.wan, job.ends),
        target_loss=job.variant.target_loss,
    )
    summary = {
        **summarize(evidence),
        "background": background.summary(),
        "captured_traffic": _traffic(captured),
    }
    record.rounds(summary["rounds"])
    record.write_summary(summary)
    return summary


def _predicted(number: int, plan: RoundPlan) -> dict[str, Any]:
    return {
        "plan_round": number,
        "kind": plan.kind,
        "predicted_s": plan.predicted_s,
        "first_predicted_s": plan.first_predicted_s,
        "predicted_from": plan.statement,
        **asdict(plan.bound),
    }


def _layouts(job: Job, standing: Standing) -> list[Layout]:
    groups = groups_of(job.schedule.rounds)
    limits = alike(standing.order.accelerators, standing.order.accelerator_limits)
    return lay_out_groups(groups, job.wan, job.rank_order, standing.numbering, limits)


def _tell_workers(
    job: Job,
    standing: Standing,
    record: RunRecord,
    layouts: Sequence[Layout],
    plans: Sequence[RoundPlan],
) -> None:
    """Push what workers of this training read: rounds, groups, layers."""
    predicted_s = [plan.predicted_s for plan in plans]
    paces_mbps = [plan.pace_mbps for plan in plans]
    text = schedules.worker_file(job.schedule, predicted_s, paces_mbps)
    files = {schedules.FILE_NAME: text}
    if job.variant.workload.layers is not None:
        files[LAYERS_NAME] = Path(job.variant.workload.layers).read_text(encoding="utf-8")
    for name, content in files.items():
        _push(standing.fleet, record.path, name, content, job.directory)
    if layouts:
        push_groups(layouts, standing.fleet, record.path, job.directory)


def _push_text(course: Course, name: str, text: str) -> None:
    _push(course.standing.fleet, course.record.path, name, text, course.job.directory)


def _push(fleet: Fleet, here: Path, name: str, text: str, there: str) -> None:
    file = here / name
    file.write_text(text, encoding="utf-8")
    fleet.push([file], there)
    file.unlink()


def _under_watch(
    job: Job, standing: Standing, record: RunRecord
) -> tuple[Evidence, Background, Captured]:
    """Let the workers run to their end while links, machine and packets are watched."""
    experiment, rate_scale = standing.experiment, standing.order.rate_scale
    faults = Faults.of(experiment.faults, job.wan, record, rate_scale)
    with (
        sampling(job.wan, job.ends, record) as sampler,
        _capture(job, standing.order, record) as captured,
        FidelityMonitor(job.wan, record.path / FIDELITY_NAME) as monitor,
        started(
            standing.background,
            job.wan,
            standing.fleet,
            record,
            seed=job.seed,
            rate_scale=rate_scale,
            limit_s=standing.order.timeout_s,
        ) as background,
        _mended(faults),
    ):
        course = Course(job, standing, record, sampler, background, faults, Reports(record))
        _work(course)
        time.sleep(SETTLE_S)
    _collect(course)
    evidence = evidence_of(job, course.reports.snapshot(), sampler)
    windows = evidence.windows
    measured = (windows[0].start_s, windows[-1].end_s) if windows else None
    evidence = replace(
        evidence,
        further_reasons=captured.reasons,
        machine_reasons=monitor.reasons(measured),
        unjudged=reroutes(faults.begun, job.variant.uses_aggregation),
        background=background.load(*measured) if measured else {},
    )
    for line in missed_words(faults.missed, job.label):
        standing.stages.console.print(line, style="yellow", markup=False, soft_wrap=True)
    return evidence, background, captured


@contextmanager
def _mended(faults: Faults) -> Iterator[None]:
    """Mend what faults left broken after a training that came to its end."""
    yield
    faults.mend()


def _capture(job: Job, order: Order, record: RunRecord) -> AbstractContextManager[Captured]:
    """Capture while the body runs, when the order asks for it."""
    if not order.capture:
        return nullcontext(Captured())
    return capturing(job.ends, record, job.wan.fabric.site_of_island_ip)


def _traffic(captured: Captured) -> dict[str, Any] | None:
    rows = {f"{a}>{b}": asdict(flow) for (a, b), flow in sorted(captured.sent.items())}
    return rows or None


def _work(course: Course) -> None:
    """Start the workers and follow them to their end."""
    job, standing, record = course.job, course.standing, course.record
    rounds = job.variant.rounds
    name = "" if standing.experiment.is_plain else f" of {job.variant.name}, {job.repetition}"
    standing.stages.announce(f"Training {rounds} rounds{name}", total=rounds)
    processes = standing.fleet.start(
        job.commands(), record.path / "workers", on_line=course.reports.take
    )
    check = alive(job.wan, course.sampler, record, course.check)
    standing.fleet.watch(processes, standing.order.timeout_s, on_poll=check)


def _collect(course: Course) -> None:
    """Fetch every worker's own log; it replaces what was reported on the way."""
    job, standing, record = course.job, course.standing, course.record
    standing.stages.announce("Collecting results", total=len(standing.fleet.sites))
    local = record.path / "collected"
    collected = standing.fleet.collect(f"{job.directory}/{OUTPUT_NAME}", local)
    for site, folder in collected.items():
        record.replace_worker_log(site, (folder / "worker.jsonl").read_text())
        (folder / "worker.jsonl").unlink()
        folder.rmdir()
        (local / site).rmdir()
    local.rmdir()


def evidence_of(job: Job, rows: Rows, sampler: Sampler) -> Evidence:
    """Return what the workers' rows and the counters are set against."""
    starts = [row for site in rows.values() for row in site if row["event"] == "start"]
    message_bytes = int(starts[0]["message_bytes"]) if starts else job.message_bytes
    return Evidence(
        sites=job.wan.topology.codes,
        workers=rows,
        links=sampler.series(),
        message_bytes=message_bytes,
        rounds=job.plans(message_bytes),
        cycle=job.schedule.cycle,
        exact_mean=job.schedule.exact_mean,
    )
