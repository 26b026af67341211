"""A frame as a terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.record.tables import MISSING, megabytes, number
from testbed.watching.frame import Frame, Way, WorkerLine

BAR_CELLS = 10
SIDE_BY_SIDE_WIDTH, NARROW_WIDTH = 175, 90
MOST_LETTERS = 36
FILLED, EMPTY = "█", "·"
BUSY, FULL = 0.5, 0.9


def view(frame: Frame, width: int = 0) -> RenderableType:
    """Return everything of a frame: links beside workers if it is wide enough, else above them.

    Args:
        frame: what is shown.
        width: of the terminal, in characters; in a narrow one there are figures and no bars. 0 if
            there is no limit.
    """
    head = (
        Text(f"{frame.title} · {frame.state}", style="bold"),
        Text(progress_line(frame)),
        verdict(frame),
    )
    bars = not 0 < width < NARROW_WIDTH
    parts = (
        link_table(frame, bars),
        worker_table(frame.workers, bars),
        round_table(frame.rounds, bars),
    )
    if width < SIDE_BY_SIDE_WIDTH:
        return Group(*head, *parts)
    beside = Table.grid(padding=(0, 3))
    beside.add_row(parts[0], Group(*parts[1:]))
    return Group(*head, beside)


def progress_line(frame: Frame) -> str:
    """Return how many rounds are done, the newest loss, and the time left."""
    of = f" of {frame.asked}" if frame.asked else ""
    parts = [f"rounds {frame.done}{of}"]
    losses = [row["held_out_loss"] for row in frame.rounds if row.get("held_out_loss") is not None]
    if losses:
        parts.append(f"held-out loss {losses[-1]:.3f}")
    if frame.left_s is not None:
        parts.append(f"{clock(frame.left_s)} left")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return a time as `m:ss`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def link_table(frame: Frame, bars: bool = True) -> Table:
    """Return a row for each WAN link: rate and utilization of both directions."""
    when = "now" if frame.state == "running" else "peak"
    rates = (f"Mbit/s > {when}", "", f"Mbit/s < {when}", "") if bars else ("Mbit/s >", "Mbit/s <")
    table = _table("link", *rates, "MB >", "MB <", "drops")
    for forward, backward in frame.links:
        table.add_row(
            forward.direction.replace(">", "-"),
            *rate_cells(forward, bars),
            *rate_cells(backward, bars),
            megabytes(forward.bytes, 1),
            megabytes(backward.bytes, 1),
            str(forward.drops + backward.drops),
        )
    return table


def rate_cells(way: Way, bars: bool) -> tuple[RenderableType, ...]:
    """Return a direction's rate, and how full that is."""
    rate = number(way.rate_mbps, 1)
    return (rate, bar(way)) if bars else (rate,)


def bar(way: Way) -> Text:
    """Return utilization as ten cells: green, yellow from half, red from nine tenths."""
    if way.share is None:
        return Text(MISSING)
    filled = min(BAR_CELLS, round(way.share * BAR_CELLS))
    style = "red" if way.share >= FULL else "yellow" if way.share >= BUSY else "green"
    bar_text = Text(FILLED * filled, style=style)
    return bar_text.append(EMPTY * (BAR_CELLS - filled), style="dim")


def worker_table(workers: Sequence[WorkerLine], bars: bool = True) -> Table:
    """Return a row for each worker: what it does, and its access port."""
    ports = ("up", "", "down", "") if bars else ("up", "down")
    losses = ("train loss", "held-out loss") if bars else ("loss", "held-out")
    table = _table("island", "round", "phase", *ports, *losses)
    for worker in workers:
        table.add_row(
            worker.site,
            MISSING if worker.round is None else str(worker.round),
            worker.phase,
            *rate_cells(worker.up, bars),
            *rate_cells(worker.down, bars),
            number(worker.train_loss, 3),
            number(worker.held_out_loss, 3),
        )
    return table


def round_table(rounds: Sequence[Mapping[str, Any]], wide: bool = True) -> Table:
    """Return a row for each of the newest rounds."""
    last = ("predicted s", "ratio", "held-out loss") if wide else ("plan s", "ratio", "loss")
    table = _table("round", "cliques", "local s", "sync s", *last)
    for row in rounds:
        table.add_row(
            str(row.get("round", MISSING)),
            cliques(row) or MISSING,
            number(row.get("local_s"), 2),
            number(row.get("sync_s"), 2),
            number(row.get("predicted_s"), 2),
            number(row.get("ratio"), 2),
            number(row.get("held_out_loss"), 3),
        )
    return table


def cliques(row: Mapping[str, Any]) -> str:
    """Return who met whom in a round, as `AMS+LON FRA+NYC`, or how many where that is too long."""
    met = [one["sites"] for one in row.get("cliques") or ()]
    words = " ".join("+".join(sites) for sites in met)
    if len(words) > MOST_LETTERS:
        words = " ".join(f"clique of {len(sites)}" for sites in met)
    return words if len(words) <= MOST_LETTERS else f"{len(met)} cliques"


def verdict(frame: Frame) -> Text:
    """Return whether the run is valid, as far as is known."""
    if frame.reasons:
        return Text("\n".join(f"INVALID: {reason}" for reason in frame.reasons), style="red")
    if frame.judged:
        return Text("valid", style="green")
    said = "nothing against it so far" if frame.state == "running" else "no summary"
    return Text(f"validity: {said}")
