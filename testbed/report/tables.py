"""The tables of a report: every figure that a plot shows, to read and to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from testbed.report.formats import UNKNOWN, digits, number, percent, rate, seconds, size
from testbed.report.rounds import Clique, is_access
from testbed.report.view import RunView

MOST_ROWS = 400


@dataclass(frozen=True)
class Table:
    """Rows of text; `words` are the columns that are not figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str
    words: frozenset[int] = frozenset({0})
    note: str = ""


def cut(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], **more: Any) -> Table:
    """Return a table of the first rows; its note says where there are more."""
    source = more["source"]
    note = f"The first {MOST_ROWS} of {len(rows)}; all are in {source}."
    shown = tuple(tuple(row) for row in rows[:MOST_ROWS])
    hidden = note if len(rows) > MOST_ROWS else ""
    return Table(title, tuple(columns), shown, note=hidden, **more)


def round_table(view: RunView) -> Table:
    """Return a row for each round."""
    islands = len(view.material.sites)
    columns = ("round", "who", "compute", "wait", "exchange", "predicted", "bound", "ratio")
    rows = [
        (
            str(one.number + 1),
            clique_text(one.cliques, islands),
            *(seconds(one.figures.get(n)) for n in ("local_s", "wait_s", "sync_s", "predicted_s")),
            seconds(one.figures.get("bound_s")),
            digits(one.figures.get("ratio")),
            *(
                digits(one.figures.get(name), 4)
                for name in ("train_loss", "held_out_loss", "consensus_distance")
            ),
            size(one.wan_bytes),
        )
        for one in view.rounds
    ]
    more = ("training loss", "held out", "distance", "WAN")
    return cut("Rounds", columns + more, rows, source="rounds.jsonl", words=frozenset({0, 1}))


def clique_text(cliques: Sequence[Clique], islands: int) -> str:
    """Return who exchanged and how, in a line: `AMS LON | BAR NYC, ring`."""
    groups = [members_text(one, islands) for one in cliques if len(one.sites) > 1]
    if not groups:
        return "nobody"
    kinds = dict.fromkeys(one.kind for one in cliques if len(one.sites) > 1 and one.kind)
    return ", ".join([" | ".join(groups), *kinds])


def members_text(clique: Clique, islands: int) -> str:
    """Return the members of a clique; of a large one that is everybody, their number."""
    everybody = len(clique.sites) == islands > 5
    return f"all {islands} islands" if everybody else " ".join(clique.sites)


def link_table(view: RunView) -> Table:
    """Return what each direction carried, against its prediction."""
    columns = ("direction", "payload", "predicted", "ratio", "on the wire", "frames", "drops")
    rows = [
        (
            name,
            size(row.get("measured_payload_bytes")),
            size(row.get("predicted_payload_bytes")),
            digits(row.get("ratio"), 5),
            size(row.get("measured_bytes")),
            digits(row.get("measured_packets"), 7),
            digits(row.get("drops"), 7),
        )
        for name, row in _wan_first(view.material.summary.get("link_bytes") or {})
    ]
    return cut("Bytes of every direction, all rounds", columns, rows, source="summary.json")


def _wan_first(rows: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    return sorted(rows.items(), key=lambda item: (is_access(item[0]), item[0]))


def calibration_table(view: RunView) -> Table:
    """Return what each direction was asked for and does."""
    columns = ("direction", "asked", "achieved", "error", "delay asked", "achieved", "error", "p99")
    rows = [
        (
            str(row.get("direction", UNKNOWN)),
            rate(row.get("asked_rate_mbps")),
            rate(row.get("achieved_rate_mbps")),
            percent(row.get("rate_error_pct"), signed=True),
            f"{digits(row.get('asked_delay_ms'), 4)} ms",
            f"{digits(row.get('achieved_delay_ms'), 4)} ms",
            f"{digits(row.get('delay_error_ms'))} ms",
            f"{digits(row.get('p99_delay_ms'), 4)} ms",
        )
        for row in view.material.calibration.get("directions") or ()
    ]
    source = view.material.source("calibration.json")
    return cut("Calibration of every direction", columns, rows, source=source)


def prediction_table(view: RunView) -> Table:
    """Return the predicted and the measured time of each of the plan's rounds."""
    columns = ("plan's round", "collective", "predicted", "measured, median", "error")
    rows = [
        (
            str(int(row.get("plan_round", 0)) + 1),
            str(row.get("kind", UNKNOWN)),
            seconds(row.get("predicted_s")),
            seconds(row.get("median_s")),
            percent(row.get("error_pct"), signed=True),
        )
        for row in (view.material.summary.get("prediction") or {}).get("rows") or ()
    ]
    words = frozenset({0, 1})
    return cut(
        "Predicted before, measured after", columns, rows, source="summary.json", words=words
    )


def background_table(view: RunView) -> Table:
    """Return what came of the flows beside the training."""
    columns = ("flow", "protocol", "asked", "sent", "arrived", "bytes sent", "bytes lost")
    rows = [
        (
            f"{row.get('source')} \N{RIGHTWARDS ARROW} {row.get('target')}",
            str(row.get("protocol", UNKNOWN)),
            *(rate(row.get(name)) for name in ("offered_mbps", "sent_mbps", "rate_mbps")),
            *(size(row.get(name)) for name in ("sent_bytes", "lost_bytes")),
        )
        for row in view.material.summary.get("background") or ()
    ]
    words = frozenset({0, 1})
    return cut("Traffic beside it", columns, rows, source="summary.json", words=words)


def round_trip_table(view: RunView) -> Table:
    """Return the configured and measured round trip of every pair."""
    columns = ("pair", "configured", "least measured", "median", "error", "lost")
    rows = [
        (
            f"{row.get('source')} \N{LEFT RIGHT ARROW} {row.get('target')}",
            *(f"{digits(row.get(n), 5)} ms" for n in ("asked_ms", "measured_min_ms", "median_ms")),
            f"{digits(row.get('error_ms'))} ms",
            digits(row.get("lost")),
        )
        for row in (view.material.summary.get("round_trips") or {}).get("rows") or ()
    ]
    return cut("Round trips between islands", columns, rows, source="summary.json")


def witness_table(view: RunView) -> Table:
    """Return what three witnesses counted at both ends of every direction."""
    columns = ("direction", "end", "interface", "switch", "back-end", "difference", "agree")
    rows = [
        (
            str(row.get("direction")),
            str(row.get("end")),
            *(digits(row.get(f"{n}_bytes"), 12) for n in ("interface", "controller", "backend")),
            digits(row.get("difference_bytes"), 7),
            "yes" if row.get("agree") else "no",
        )
        for row in view.material.summary.get("cross_check") or ()
    ]
    words = frozenset({0, 1, 6})
    title = "Three witnesses of the same bytes"
    return cut(title, columns, rows, source="summary.json", words=words)


def event_table(view: RunView) -> Table:
    """Return what happened beside the rounds: faults, reroutes, errors, the end."""
    rows = [
        (
            seconds(time - view.start_s) if (time := number(row.get("time"))) else UNKNOWN,
            str(row.get("event", "")).replace("_", " "),
            _rest(row),
        )
        for row in view.material.run.events
    ]
    words = frozenset({1, 2})
    columns = ("since the first step", "event", "what")
    return cut("Events", columns, rows, source="events.jsonl", words=words)


def _rest(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in row.items() if k not in ("time", "event") and v != "")


def when(text: Any) -> str:
    """Return a moment of ISO 8601 as people write it, the text itself where it is none."""
    try:
        moment = datetime.fromisoformat(str(text)).astimezone(timezone.utc)
    except ValueError:
        return str(text or "")
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
