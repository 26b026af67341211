"""What a report leaves for other programs: tables, a trace, events for TensorBoard.

`rounds.csv` and `rounds.parquet` have a row a round, `links.parquet` the samples of `links.csv` in
columns with types. TensorBoard reads `tensorboard/`, with the UNIX time of each round's end.
"""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from testbed.measure.series import Series
from testbed.report.rounds import Round
from testbed.report.trace import write_trace
from testbed.report.view import RunView
from topologies.model import Direction

ROUNDS_CSV, ROUNDS_PARQUET, LINKS_PARQUET = "rounds.csv", "rounds.parquet", "links.parquet"
TRACE, TENSORBOARD = "trace.json", "tensorboard"
EVENT_FILES = "events.out.tfevents.*"
SCALARS = {
    "loss/training": "train_loss",
    "loss/held_out": "held_out_loss",
    "seconds/round": "round_s",
    "seconds/compute": "local_s",
    "seconds/wait": "wait_s",
    "seconds/exchange": "sync_s",
    "seconds/bound": "bound_s",
    "seconds/predicted": "predicted_s",
    "seconds/exposed": "exposed_s",
    "network/ratio_to_bound": "ratio",
    "network/wan_bytes": "wan_bytes",
    "islands/consensus_distance": "consensus_distance",
    "islands/gradient_noise": "gradient_noise",
}


def write_exports(view: RunView, folder: Path) -> None:
    """Write every export of a run into its record."""
    rows = round_rows(view.rounds)
    write_csv(folder / ROUNDS_CSV, rows)
    pq.write_table(pa.Table.from_pylist(rows), folder / ROUNDS_PARQUET)
    pq.write_table(link_table(view.material.links), folder / LINKS_PARQUET)
    write_trace(view, folder / TRACE)
    write_events(view.rounds, folder / TENSORBOARD)


def round_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Return a flat row for each round; all have the same columns, None where one has no figure.

    `cliques` is text, islands of a clique parted by spaces and cliques by `|`.
    """
    names = list(dict.fromkeys(name for one in rounds for name in one.figures))
    places = ("round", "plan_round", "start", "end")
    return [
        {
            "round": one.number,
            "plan_round": one.plan_round,
            "start": one.start,
            "end": one.end,
            "cliques": "|".join(" ".join(clique.sites) for clique in one.cliques),
            "kinds": "|".join(clique.kind for clique in one.cliques),
            **{name: one.figures.get(name) for name in names if name not in places},
            "wan_bytes": one.wan_bytes,
        }
        for one in rounds
    ]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV (RFC 4180), the columns named in the first line."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["round"])
        writer.writeheader()
        writer.writerows(rows)


def link_table(links: Mapping[Direction, Series]) -> pa.Table:
    """Return the samples of every direction, by direction and time."""
    times = [pa.array(series.times) for series in links.values()]
    columns: dict[str, Any] = {
        "time": pa.chunked_array(times, pa.float64()),
        "direction": pa.chunked_array(
            [pa.array([str(d)] * len(series.times)) for d, series in links.items()], pa.string()
        ),
    }
    for name in ("bytes", "packets", "drops"):
        parts = [pa.array(getattr(series, name)) for series in links.values()]
        columns[name] = pa.chunked_array(parts, pa.int64())
    return pa.table(columns)


def write_events(rounds: Sequence[Round], folder: Path) -> None:
    """Write the figures of rounds for TensorBoard in place of those of an earlier report."""
    if folder.is_dir():
        for old in folder.glob(EVENT_FILES):
            old.unlink()
    with _summary_writer()(logdir=str(folder)) as writer:
        for one in rounds:
            figures = {**one.figures, "wan_bytes": one.wan_bytes}
            for tag, name in SCALARS.items():
                if figures.get(name) is not None:
                    writer.add_scalar(tag, figures[name], one.number, walltime=one.end)


def _summary_writer() -> Any:
    """Return tensorboardX's writer without loading torch.

    The package asks for torch where it is installed, and does without where it is not. Numbers need
    none, and loading it would take longer than the whole report, and 200 MB.
    """
    held = "torch" in sys.modules
    if not held:
        sys.modules["torch"] = None  # type: ignore[assignment]  # what makes an import fail
    try:
        return importlib.import_module("tensorboardX").SummaryWriter
    finally:
        if not held:
            del sys.modules["torch"]
