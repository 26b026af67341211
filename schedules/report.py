"""Plans, comparisons and bounds as tables for people and as rows for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedules.bounds import Bound
from schedules.capabilities import RING
from schedules.plan import Plan, PlannedRound
from schedules.planner import Alternative
from schedules.solution import MEAN_OBJECTIVE

SHOWN_ROUNDS = 12
SHOWN_MEMBERS = 12
SHOWN_CLIQUES = 8
FEW_CLIQUES = 3
MS_PER_SECOND = 1000


# --- a plan ---------------------------------------------------------------------------------------


def print_plan(plan: Plan, console: Console) -> None:
    """Print a plan's rounds, what it attains and how sure that is, and what it compares with."""
    console.print(_rounds_table(plan))
    hidden = len(plan.rounds) - SHOWN_ROUNDS
    if hidden > 0:
        console.print(f"and {hidden} more rounds (--json or --out has them all)")
    console.print(_verdict(plan))
    console.print()
    console.print(_yardstick_table(plan))


def _rounds_table(plan: Plan) -> Table:
    chosen = plan.collective or "best collective"
    megabytes = plan.message_bytes / 1e6
    table = Table(
        title=f"{plan.topology}: {plan.capabilities.read().name}, {chosen}, objective "
        f"{plan.objective}, {megabytes:g} MB messages",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("#", justify="right")
    table.add_column("cliques", overflow="fold")
    table.add_column("collective")
    numbers = ("share", "transfer s", "units", "latency ms", "round s", "traversals")
    for name in numbers:
        table.add_column(name, justify="right")
    table.add_column("busiest")
    for number, planned in enumerate(plan.rounds[:SHOWN_ROUNDS], start=1):
        table.add_row(str(number), *_round_cells(planned))
    return table


def _round_cells(planned: PlannedRound) -> list[str]:
    predicted = planned.predicted
    return [
        cliques_text(planned.cliques),
        planned.collective + _trees_text(planned),
        f"{planned.share:.1%}",
        f"{predicted.transfer_s:.4g}",
        _units_text(planned),
        f"{predicted.latency_s * MS_PER_SECOND:.1f}",
        f"{predicted.round_s:.4g}",
        f"{predicted.traversals:.5g}",
        predicted.busiest,
    ]


def _units_text(planned: PlannedRound) -> str:
    """Return the transfer in units, with the fractional optimum where that is less."""
    units, fractional = planned.predicted.transfer_units, planned.predicted.fractional_units
    if fractional is None or fractional >= units * (1 - 1e-6):
        return f"{units:.4g}"
    return f"{units:.4g} ({fractional:.4g} split)"


def _trees_text(planned: PlannedRound) -> str:
    return f", {len(planned.trees)} trees" if planned.trees else ""


def cliques_text(cliques: Sequence[Sequence[str]]) -> str:
    """Return cliques in braces, those beyond a few counted only."""
    shown = []
    most = SHOWN_MEMBERS if len(cliques) <= FEW_CLIQUES else SHOWN_MEMBERS // 2
    for clique in cliques[:SHOWN_CLIQUES]:
        hidden = len(clique) - most
        more = f" and {hidden} more" if hidden > 0 else ""
        shown.append("{" + " ".join(clique[:most]) + more + "}")
    hidden = len(cliques) - SHOWN_CLIQUES
    return " ".join(shown) + (f" and {hidden} more" if hidden > 0 else "")


def _verdict(plan: Plan) -> Text:
    """Say what the plan attains, and what is proved."""
    text = Text(f"{plan.value:.5g} {plan.unit}", style="bold")
    text.append(f" ({_in_units(plan)}): ", style="default not bold")
    if plan.optimal:
        text.append("proved optimal", style="green")
    else:
        text.append(f"gap at most {plan.gap_pct:.3g} % (bound {plan.bound:.5g})", style="yellow")
    text.append(f" ({plan.solved_by}, {plan.search_s:.1f} s)", style="default not bold")
    if plan.stopped_early:
        text.append("; stopped early", style="yellow")
    if len(plan.cycle) > len(plan.rounds):
        text.append(
            f"; a cycle of {len(plan.cycle)} rounds attains {plan.cycle_value:.5g}",
            style="default not bold",
        )
    return text


def _in_units(plan: Plan) -> str:
    """Return the value with the time of one message over the slowest direction as the unit."""
    times = "message times" if plan.objective == MEAN_OBJECTIVE else "per message time"
    return f"{plan.value_units:.4g} {times} of {plan.unit_s:.4g} s"


def _yardstick_table(plan: Plan) -> Table:
    ring = plan.ring
    table = Table("beside it", "seconds", "units", "set by", title_justify="left")
    table.columns[1].justify = table.columns[2].justify = "right"
    table.add_row(
        f"ring of everyone ({ring.value:.5g}{_against_ring(plan)})",
        f"{ring.round_s:.4g}",
        f"{ring.transfer_units:.4g}",
        " ".join(ring.order[:SHOWN_MEMBERS]),
        end_section=True,
    )
    for bound in plan.bounds:
        table.add_row(*_bound_cells(bound))
    return table


def _against_ring(plan: Plan) -> str:
    ratio = speedup(plan)
    return f"; this plan is {ratio:.3g} times as good" if ratio else ""


def speedup(plan: Plan) -> float:
    """Return how many times as good as a ring of everyone a plan is, for its objective."""
    better, worse = plan.value, plan.ring.value
    if plan.objective == MEAN_OBJECTIVE:
        better, worse = worse, better
    return better / worse if worse else 0.0


# --- a comparison ---------------------------------------------------------------------------------


def alternative_row(alternative: Alternative) -> dict[str, Any]:
    """Return a comparison's row: the plan of a capability and collective in figures."""
    row: dict[str, Any] = {
        "capability": alternative.capability,
        "collective": alternative.collective or "best",
    }
    plan = alternative.plan
    if plan is None:
        return row | {"infeasible": alternative.reason}
    means = _means(plan)
    return row | {
        "chosen": sorted({planned.collective for planned in plan.rounds}),
        "rounds": len(plan.rounds),
        "cliques": [[list(clique) for clique in planned.cliques] for planned in plan.rounds],
        "shares": [planned.share for planned in plan.rounds],
        "value": plan.value,
        "unit": plan.unit,
        "value_units": plan.value_units,
        "bound": plan.bound,
        "gap_pct": plan.gap_pct,
        "optimal": plan.optimal,
        **means,
        "ring_ratio": speedup(plan),
    }


def _means(plan: Plan) -> dict[str, float]:
    """Return figures of a plan's rounds, each round weighed by how often it runs."""
    names = ("round_s", "transfer_s", "transfer_units", "latency_s", "traversals")
    return {
        f"mean_{name}": sum(r.share * getattr(r.predicted, name) for r in plan.rounds)
        for name in names
    }


def comparison_table(rows: Sequence[dict[str, Any]], unit: str) -> Table:
    """Return a comparison as a table: the schedule of every capability and what it attains."""
    table = Table(title=f"value in {unit}", title_justify="left", title_style="bold")
    for name in ("capability", "collective", "schedule"):
        table.add_column(name, overflow="fold")
    for name in ("round s", "units", "traversals", "value", "a message time", "x ring", "gap %"):
        table.add_column(name, justify="right")
    for place, row in enumerate(rows):
        fixed = row["collective"] != "best"
        last_fixed = fixed and rows[min(place + 1, len(rows) - 1)]["collective"] == "best"
        table.add_row(*_comparison_cells(row), end_section=last_fixed)
    return table


def _comparison_cells(row: dict[str, Any]) -> list[str]:
    collective = row["collective"]
    if "infeasible" in row:
        return [row["capability"], collective, row["infeasible"], *[""] * 7]
    if collective == "best":
        collective = "best: " + " and ".join(row["chosen"])
    return [
        row["capability"],
        collective,
        schedule_text(row["cliques"], is_ring=row["chosen"] == [RING]),
        f"{row['mean_round_s']:.4g}",
        f"{row['mean_transfer_units']:.4g}",
        f"{row['mean_traversals']:.4g}",
        f"{row['value']:.5g}",
        f"{row['value_units']:.4g}",
        f"{row['ring_ratio']:.3g}",
        "proved" if row["optimal"] else f"{row['gap_pct']:.2g}",
    ]


def schedule_text(rounds: Sequence[Sequence[Sequence[str]]], is_ring: bool = False) -> str:
    """Return rounds in a few words, or their cliques where there are one or two rounds."""
    if len(rounds) == 1 and len(rounds[0]) == 1:
        return f"one {'ring' if is_ring else 'clique'} of {len(rounds[0][0])}"
    if len(rounds) <= 2:
        return " then ".join(cliques_text(cliques) for cliques in rounds)
    sizes = sorted({len(clique) for cliques in rounds for clique in cliques})
    of_sizes = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"{len(rounds)} rounds of cliques of {of_sizes}"


# --- bounds ---------------------------------------------------------------------------------------


def bounds_table(bounds: Iterable[Bound], title: str) -> Table:
    """Return bounds as a table, each with where it comes from."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("bound")
    for name in ("seconds", "units"):
        table.add_column(name, justify="right")
    table.add_column("set by", overflow="fold")
    table.add_column("source", overflow="fold")
    for bound in bounds:
        table.add_row(*_bound_cells(bound), bound.source)
    return table


def _bound_cells(bound: Bound) -> list[str]:
    units = "" if bound.units is None else f"{bound.units:.4g}"
    return [bound.name, f"{bound.seconds:.4g}", units, _short(bound.limited_by)]


def _short(text: str, most: int = 48) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def bound_rows(bounds: Iterable[Bound]) -> list[dict[str, Any]]:
    """Return bounds as plain rows."""
    return [asdict(bound) for bound in bounds]
