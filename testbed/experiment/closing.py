"""What a training came to, in words and tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from schedules.capabilities import RING
from schedules.ring import ring_share
from testbed.experiment.job import Job
from testbed.measure.capture import FlowTotal
from testbed.record.summary import Summary
from testbed.record.tables import (
    background_table,
    link_table,
    number,
    prediction_table,
    round_table,
    traffic_table,
)

SHOWN_CLIQUES = 4


def plan_line(job: Job) -> str:
    """Return what a training's rounds are and how long each should take, before it begins."""
    plans = job.plans()
    shown = "; ".join(
        f"{clique_words(plan.cliques, plan.kind)} in {plan.predicted_s:.2f} s" for plan in plans
    )
    passes = len(job.schedule.cycle)
    whole = sum(plans[place].predicted_s for place in job.schedule.cycle)
    total = f", {whole:.2f} s for all {passes} rounds of a cycle" if passes > 1 else ""
    counted = "; ".join(dict.fromkeys(plan.statement for plan in plans))
    whole_trees = unsplit_words(job.schedule.written.get("unsplit_rounds", ()))
    return f"Plan of {job.variant.name}: {shown}{total}, predicted from {counted}{whole_trees}"


def unsplit_words(rounds: Sequence[int]) -> str:
    """Return what to say of rounds whose messages the planner would split over several trees."""
    if not rounds:
        return ""
    numbers = ", ".join(str(number + 1) for number in rounds)
    return f"; round {numbers} was best with messages split over trees, and runs with whole ones"


def clique_words(cliques: Sequence[Sequence[str]], kind: str) -> str:
    """Return cliques in a few words, such as `exchange {LON,NYC} {SEO,TYO}`."""
    join = ">" if kind == RING else ","
    sets = " ".join("{" + join.join(clique) + "}" for clique in cliques[:SHOWN_CLIQUES])
    more = f" and {len(cliques) - SHOWN_CLIQUES} more" if len(cliques) > SHOWN_CLIQUES else ""
    return f"{kind} {sets}{more}"


def closing_lines(job: Job, summary: Summary) -> list[str]:
    """Return what a training came to, in a few lines."""
    peak_bytes = max(summary["peak_memory_bytes"].values(), default=0)
    loss, unit = summary["held_out_loss"], summary["loss_unit"]
    learned = (
        f"Held-out loss {number(loss['first'], 3)} after the first round, "
        f"{number(loss['last'], 3)} after the last{f' ({unit})' if unit else ''}; a"
        if loss["last"] is not None
        else "A"
    )
    return [
        *_ring_line(job, summary),
        *_cycle_line(summary),
        *_target_line(summary),
        f"{learned} worker took at most {peak_bytes / 2**20:.0f} MiB. "
        f"Bring-up {job.wan.bring_up_s:.1f} s.",
    ]


def _ring_line(job: Job, summary: Summary) -> list[str]:
    if job.schedule.kinds != (RING,) or not job.schedule.is_one_clique:
        return []
    message_bytes, members = summary["message_bytes"], len(job.rank_order)
    hop_bytes = ring_share(members) * message_bytes
    ring = ">".join(job.schedule.rounds[0].cliques[0])
    return [
        f"Ring {ring}: each hop carries 2(N-1)/N x M = {hop_bytes / 1e6:.3f} MB of payload a "
        f"round (N = {members}, M = {message_bytes / 1e6:.3f} MB)."
    ]


def _cycle_line(summary: Summary) -> list[str]:
    cycle = summary["cycle"]
    if cycle["median_s"] is None:
        return []
    what = "an exact mean of all" if cycle["exact_mean"] else f"{cycle['rounds']} rounds"
    return [
        f"Communication of {what}: {cycle['median_s']:.2f} s (median), predicted "
        f"{cycle['predicted_s']:.2f} s, {cycle['error_pct']:+.1f} %."
    ]


def _target_line(summary: Summary) -> list[str]:
    wanted = summary["time_to_target"]
    if wanted is None or wanted["seconds"] is None:
        return []
    return [f"Target loss {wanted['target_loss']:g} reached after {wanted['seconds']:.1f} s."]


def print_summary(summary: Summary, console: Console) -> None:
    """Print the tables of a training: rounds, predictions, link directions, what was captured."""
    console.print(round_table(summary))
    if len(summary["prediction"]["rows"]) > 1:
        console.print(prediction_table(summary))
    console.print(link_table(summary))
    if summary["background"]:
        console.print(background_table(summary))
    if summary["captured_traffic"]:
        console.print(traffic_table(_flows(summary["captured_traffic"])))


def _flows(rows: dict[str, Any]) -> dict[tuple[str, str], FlowTotal]:
    found = {}
    for pair, row in rows.items():
        source, _, sink = pair.partition(">")
        found[source, sink] = FlowTotal(**row)
    return found
