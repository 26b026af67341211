"""What stands at the top of a report: what was run, whether it counts, and the key figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from testbed.experiment.model import DEFAULT_LOCAL_STEPS
from testbed.record.reader import KILLED, RUNNING
from testbed.record.writer import FAILED
from testbed.report.formats import UNKNOWN, digits, number, percent, seconds, size
from testbed.report.rounds import EVERYBODY
from testbed.report.run_plots import target_loss
from testbed.report.view import RunView

DEFAULT = "default"
ARROW = " \N{RIGHTWARDS ARROW} "
GOOD, BAD, OPEN = "good", "bad", "open"
NOTHING_AGAINST = "Nothing was found against citing its figures."
COLLECTIVES = {
    "ring": "ring all-reduce",
    "exchange": "each-to-each exchange",
    "multicast": "multicast",
    "aggregation": "aggregation in the network",
    "innetwork": "aggregation and multicast in the network",
    EVERYBODY: "everybody with everybody",
}


MOST_REASONS = 12


@dataclass(frozen=True)
class Verdict:
    """Whether the figures may be cited: `good`, `bad` or `open`, in a word and with reasons."""

    kind: str
    word: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fact:
    """A key figure, what it means, and the file it is from."""

    label: str
    value: str
    note: str
    source: str


def verdict(state: str, reason: str, summary: Any) -> Verdict:
    """Return whether a run counts, by its state and its summary (None if it has none)."""
    if state == RUNNING:
        return Verdict(OPEN, "Still running", ("What follows is what is recorded so far.",))
    if state == KILLED:
        return Verdict(BAD, "Killed", ("The run was ended from outside; figures are incomplete.",))
    if state == FAILED:
        return Verdict(BAD, "Failed", (reason or "No reason is recorded.",))
    if summary is None:
        return Verdict(BAD, "No summary", ("summary.json is not there.",))
    reasons = few([str(one) for one in summary.get("reasons") or ()], "summary.json")
    if summary.get("valid"):
        return Verdict(GOOD, "Valid", reasons or (NOTHING_AGAINST,))
    return Verdict(BAD, "Not valid: do not cite", reasons)


def few(reasons: Sequence[str], source: str) -> tuple[str, ...]:
    """Return the first of many reasons, and where the others are."""
    hidden = len(reasons) - MOST_REASONS
    more = (f"and {hidden} more in {source}",) if hidden > 0 else ()
    return (*reasons[:MOST_REASONS], *more)


def title(view: RunView) -> str:
    """Return the name of what was run: experiment and variant, or the network of a plain run."""
    manifest = view.material.manifest
    experiment = manifest.get("experiment") or {}
    named = [str(experiment.get("name") or DEFAULT), str(manifest.get("variant") or DEFAULT)]
    told = [name for name in dict.fromkeys(named) if name != DEFAULT]
    return ": ".join(told) or str(manifest.get("topology") or view.material.run.run_id)


def description(view: RunView) -> str:
    """Return one sentence of what was run, of what is recorded of it."""
    manifest = view.material.manifest
    islands = len(view.material.sites)
    kinds = dict.fromkeys(kind for one in view.rounds for kind in one.kinds)
    how = ", ".join(COLLECTIVES.get(kind, kind) for kind in kinds)
    steps = local_steps(manifest)
    work = f" of {steps} local step{'s' * (steps != 1)}" if steps else ""
    count = len(view.rounds)
    rounds = f"{count} round{'s' * (count != 1)}{work}"
    parts = [f"{islands} islands on {manifest.get('topology', UNKNOWN)}", rounds]
    if how:
        parts.append(how)
    parts.append(f"network: {manifest.get('capability', UNKNOWN)}")
    return ", ".join(parts) + "."


def local_steps(manifest: Mapping[str, Any]) -> int | None:
    """Return the local steps of a round: of the variant as the manifest has it, if it does."""
    steps = (manifest.get("settings") or {}).get("local_steps")
    for one in (manifest.get("experiment") or {}).get("variants") or ():
        if one.get("name") == manifest.get("variant") and one.get("outer"):
            by_outer = 1 if one["outer"].get("kind") == "none" else DEFAULT_LOCAL_STEPS
            steps = one.get("local_steps") or by_outer
    return steps if isinstance(steps, int) else None


def facts(view: RunView) -> list[Fact]:
    """Return the key figures that are known."""
    found = [
        *_target(view),
        _loss(view),
        _round(view),
        _exchange(view),
        *_prediction(view),
        *_cycle(view),
        _traffic(view),
        *_links(view),
    ]
    return [fact for fact in found if fact.value != UNKNOWN]


def _target(view: RunView) -> Sequence[Fact]:
    target, reached = target_loss(view), view.material.summary.get("time_to_target") or {}
    if target is None:
        return ()
    value = seconds(reached.get("seconds"))
    value = "not reached" if value == UNKNOWN else value
    return (Fact("Time to target", value, f"held-out loss {digits(target)}", "summary.json"),)


def _loss(view: RunView) -> Fact:
    losses = [x for one in view.rounds if (x := one.figures.get("held_out_loss")) is not None]
    value = ARROW.join(digits(x, 4) for x in (losses[:1] + losses[-1:])) if losses else UNKNOWN
    final = number((view.material.summary.get("final") or {}).get("held_out_loss"))
    note = "first round to last"
    if final is not None:
        note += f"; {digits(final, 4)} of the mean of all islands"
    return Fact("Held-out loss", value, note, "rounds.jsonl")


def _median(view: RunView, name: str) -> float | None:
    values = [one.figures[name] for one in view.rounds if name in one.figures]
    return median(values) if values else None


def _round(view: RunView) -> Fact:
    compute = seconds(_median(view, "local_s"))
    note = f"median of {len(view.rounds)}; {compute} of it local steps"
    return Fact("Round", seconds(_median(view, "round_s")), note, "rounds.jsonl")


def _exchange(view: RunView) -> Fact:
    bound, ratio = seconds(_median(view, "bound_s")), digits(_median(view, "ratio"))
    note = f"bound {bound}, {ratio} times it" if bound != UNKNOWN else "median"
    return Fact("Exchange", seconds(_median(view, "sync_s")), note, "rounds.jsonl")


def _prediction(view: RunView) -> Sequence[Fact]:
    prediction = view.material.summary.get("prediction") or {}
    error = number(prediction.get("mean_abs_error_pct"))
    rows = prediction.get("rows") or ()
    note = f"mean over {len(rows)} of the plan's rounds"
    return (Fact("Prediction off by", percent(error), note, "summary.json"),)


def _cycle(view: RunView) -> Sequence[Fact]:
    cycle = view.material.summary.get("cycle") or {}
    label = "Exact mean of all" if cycle.get("exact_mean") else "Cycle of the plan"
    note = f"predicted {seconds(cycle.get('predicted_s'))}"
    return (Fact(label, seconds(cycle.get("median_s")), note, "summary.json"),)


def _traffic(view: RunView) -> Fact:
    total = sum(one.wan_bytes for one in view.rounds)
    traversals = view.material.summary.get("traversals") or {}
    measured, planned = (digits(traversals.get(name)) for name in ("measured", "predicted"))
    note = "on links between cities"
    if measured != UNKNOWN:
        note += f"; {measured} messages times links a round, predicted {planned}"
    return Fact("WAN traffic", size(total) if total else UNKNOWN, note, "rounds.jsonl")


def _links(view: RunView) -> Sequence[Fact]:
    calibration = view.material.calibration
    worst = number(calibration.get("worst_rate_error_pct"))
    delay = number(calibration.get("worst_delay_error_ms"))
    note = f"worst rate; worst delay {seconds(None if delay is None else delay / 1000)}"
    source = view.material.source("calibration.json")
    value = percent(None if worst is None else abs(worst))
    return (Fact("Links off by", value, note, source),)
