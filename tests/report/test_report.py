"""The report as it is written: what is in the page and in the files beside it."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tensorboardX.proto import event_pb2

from testbed.report.headline import local_steps
from testbed.report.page import run_page
from testbed.report.trace import FIRST_WORKER, trace
from testbed.report.view import view_run
from testbed.report.writing import write_report
from topologies.errors import RunError
from topologies.files import load

from .records import ORIGIN_S, Record, write_record

VOID = {"meta", "link", "input", "br"}
MOST_BYTES = 1_500_000
SECTIONS = ("training", "rounds", "timeline", "links", "machine")
ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """What of a page tests look at; raises AssertionError for elements that are not nested."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.text: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if held.get("id"):
            self.identifiers.append(str(held["id"]))
        self.references += [str(held[name]) for name in ("src", "href") if held.get(name)]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_record(tmp_path_factory.mktemp("runs") / "20270115T080000Z-nine_city-0001")
    assert write_report(run) == run / "report.html"
    return run


@pytest.fixture(scope="module")
def page(record: Path) -> Page:
    return Page((record / "report.html").read_text())


# --- the page -------------------------------------------------------------------------------------


def test_the_page_says_what_was_run_and_its_key_figures(page: Page) -> None:
    for words in (
        "rotating triples",
        "9 islands on nine_city, 6 rounds of 10 local steps, each-to-each exchange",
        "Valid",
        "Time to target 61.5 s",
        "bound 1.60 s, 1.25 times it",
        "Prediction off by 4.2 %",
        "20.1 messages times links a round, predicted 20.0",
        "atoll run experiments/rotating.yaml",
        "commit 0123456789ab",
    ):
        assert words in page.words


@pytest.mark.parametrize(
    ("variant", "steps"),
    [
        ({"outer": {"kind": "mean"}, "local_steps": 20}, 20),
        ({"outer": {"kind": "diloco"}, "local_steps": None}, 10),
        ({"outer": {"kind": "none"}, "local_steps": None}, 1),
        ({}, None),
    ],
)
def test_local_steps_are_those_of_the_variant(variant: dict[str, Any], steps: int | None) -> None:
    experiment = {"variants": [{"name": "other"}, {"name": "mine", **variant}]}
    assert local_steps({"variant": "mine", "experiment": experiment}) == steps


def test_every_part_is_there(page: Page) -> None:
    wanted = {
        "where", "training", "rounds", "workers", "links", "machine", "again", "map", "slider",
        "loss_by_time", "loss_by_bytes", "consensus_distance", "gradient_noise", "loss_by_island",
        "round_time", "round_parts", "timeline", "link_bytes", "access_bytes", "calibration",
        "processors", "lateness",
    }  # fmt: skip
    assert wanted <= set(page.identifiers)
    assert len(page.identifiers) == len(set(page.identifiers))


def test_the_page_asks_for_nothing_from_elsewhere(record: Path, page: Page) -> None:
    text = (record / "report.html").read_text()
    assert "default-src 'none'" in text
    assert len(text) < MOST_BYTES
    for reference in page.references:
        assert not re.match(r"[a-z]+://|//", reference), reference
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text


def test_every_file_that_a_figure_names_is_there(record: Path, page: Page) -> None:
    files = {name for name in page.references if not name.startswith(("#", "data:"))}
    assert {"rounds.jsonl", "links.csv", "workers/", "summary.json", "calibration.json"} <= files
    assert [name for name in files if not (record / name).exists()] == []


def test_the_first_round_is_coloured_without_a_script(record: Path) -> None:
    text = (record / "report.html").read_text()
    # 10 MB of NYC>LAX in 2.8 s at 100 Mbit/s are 29 %: the third of eight colours.
    (strand, *_) = re.findall(r'<path class="strand" data-d="NYC>LAX"[^>]*>', text) or re.findall(
        r'<path class="strand" data-d="NYC&gt;LAX"[^>]*>', text
    )
    assert "stroke:var(--u3);stroke-width:2.7" in strand
    assert text.count('class="thumb"') == 6


def test_an_old_report_is_replaced_and_nothing_is_left_over(record: Path) -> None:
    assert [path.name for path in record.glob(".*")] == []
    assert len(list((record / "tensorboard").iterdir())) == 1


# --- files beside it ------------------------------------------------------------------------------


def test_each_plot_is_there_as_png_and_svg(record: Path, page: Page) -> None:
    names = {path.stem for path in (record / "plots").iterdir()}
    assert (
        {"timeline", "round_time", "loss_by_time", "link_bytes"} <= names <= set(page.identifiers)
    )
    for name in names:
        assert (record / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (record / "plots" / f"{name}.svg").read_text()


def test_rounds_as_csv_and_parquet_say_the_same(record: Path) -> None:
    with (record / "rounds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["held_out_loss"] for row in rows][:2] == ["3.8", "3.65"]
    assert rows[2]["cliques"] == "AMS NYC|LAX TYO"
    assert rows[2]["wan_bytes"] == str(30_000_000)  # two links each way for one pair, one the other
    columns = pq.read_table(record / "rounds.parquet").to_pylist()
    assert [str(row["end"]) for row in columns] == [row["end"] for row in rows]


def test_links_as_parquet_are_the_samples_of_links_csv(record: Path) -> None:
    table = pq.read_table(record / "links.parquet")
    with (record / "links.csv").open(newline="") as file:
        expected = sorted(
            (r["direction"], float(r["time"]), int(r["bytes"])) for r in csv.DictReader(file)
        )
    found = sorted(
        zip(*(table[n].to_pylist() for n in ("direction", "time", "bytes")), strict=True)
    )
    assert found == expected
    assert str(table.schema.field("bytes").type) == "int64"


def test_the_trace_has_phases_counters_and_marks(record: Path) -> None:
    told = json.loads((record / "trace.json").read_text())
    assert told == trace(view_run(record))
    events = told["traceEvents"]
    assert told["otherData"]["origin_unix_s"] == ORIGIN_S - 2
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names[FIRST_WORKER] == "AMS worker"
    first = next(e for e in events if e["ph"] == "X" and e["pid"] == FIRST_WORKER)
    assert (first["name"], first["ts"], first["dur"]) == ("compute", 2e6, 4e6)
    rates = [e for e in events if e["ph"] == "C" and e["name"] == "AMS.island>AMS"]
    # 10 MB in three seconds, from five seconds into the first round, two after the origin.
    assert [(e["ts"], e["args"]["Mbit/s"]) for e in rates[:3]] == [
        (1e6, 0.0),
        (7e6, 26.667),
        (10e6, 0.0),
    ]
    assert [e["name"] for e in events if e["ph"] == "i"] == [
        "run_started",
        "fault",
        "fault_over",
        "run_ended",
    ]
    assert all({"ph", "pid", "tid", "name"} <= set(event) for event in events)


def test_tensorboard_reads_the_losses_of_every_round(record: Path) -> None:
    (file,) = (record / "tensorboard").iterdir()
    losses = [
        (event.step, round(value.simple_value, 3), event.wall_time)
        for event in tfrecords(file)
        for value in event.summary.value
        if value.tag == "loss/held_out"
    ]
    assert losses[:2] == [(0, 3.8, ORIGIN_S + 10), (1, 3.65, ORIGIN_S + 20)]
    assert len(losses) == 6


def tfrecords(path: Path) -> list[event_pb2.Event]:
    """Read TensorBoard's file by its format: length (8 bytes), check (4), event, check (4)."""
    data, events = path.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        events.append(event_pb2.Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return events


# --- what is missing or odd -----------------------------------------------------------------------


def killed(run: Path) -> None:
    """Leave what a run has that was killed in its second round: no summary, half a line."""
    for name in ("summary.json", "calibration.json", "fidelity.jsonl"):
        (run / name).unlink()
    for name, lines in (("rounds.jsonl", 1), ("events.jsonl", 1), ("links.csv", 20)):
        text = (run / name).read_text().splitlines(keepends=True)
        (run / name).write_text("".join(text[:lines]) + text[lines][:7])
    for path in (run / "workers").iterdir():
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))


def test_a_killed_run_has_a_report_of_what_it_came_to(tmp_path: Path) -> None:
    run = Record(load("three_city"), [[("AMS", "FRA")]], 3).write(tmp_path / "run")
    killed(run)
    page = Page(write_report(run).read_text())
    assert "Killed" in page.words
    assert {"map", "loss_by_time", "timeline"} <= set(page.identifiers)
    assert not {"calibration", "processors", "link_bytes"} & set(page.identifiers)
    assert "Neither a calibration nor the monitor's samples are recorded." in page.words


def test_a_record_of_nothing_but_its_manifest_has_a_report(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text('{"topology": "no such network", "started": "sometime"}')
    page = Page(write_report(run).read_text())
    assert "there is no map" in page.words
    assert "No worker finished a round." in page.words
    assert (run / "rounds.csv").read_text().strip() == "round"
    assert json.loads((run / "trace.json").read_text())["traceEvents"]


def test_values_of_another_kind_are_one_line(tmp_path: Path) -> None:
    folder = write_record(tmp_path / "run", rounds=1)
    log = folder / "workers" / "NYC.jsonl"
    log.write_text(log.read_text().replace('"sync_start": 1', '"sync_start": "at", "x": 1'))
    with pytest.raises(RunError, match="not of the kind that was written") as caught:
        write_report(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_from_files_are_text_and_never_markup(tmp_path: Path) -> None:
    run = write_record(tmp_path / "run", rounds=2)
    evil = "</script><img src=x onerror=alert(1)>"
    manifest = json.loads((run / "manifest.json").read_text())
    manifest |= {"command": evil, "experiment": {"name": evil}, "capability": evil}
    (run / "manifest.json").write_text(json.dumps(manifest))
    rows = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    for row in rows:
        row["cliques"] = [{"sites": [evil, "NYC"], "kind": evil}]
    (run / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = json.loads((run / "summary.json").read_text())
    summary |= {"valid": False, "reasons": [evil], "prediction": {"rows": [{"kind": evil}]}}
    (run / "summary.json").write_text(json.dumps(summary))
    text = run_page(view_run(run), dict.fromkeys(SECTIONS, ()))
    assert "<img" not in text
    assert text.count("</script>") == 3  # the page's own
    assert evil in Page(text).words


def test_a_run_of_a_comparison_uses_what_all_its_runs_share(tmp_path: Path) -> None:
    whole = write_record(tmp_path / "whole", rounds=2)
    run = whole / "variants" / "rotating" / "1"
    shutil.copytree(whole, run, ignore=shutil.ignore_patterns("variants"))
    for name in ("calibration.json", "fidelity.jsonl", "topology.yaml"):
        (run / name).unlink()
    view = view_run(run)
    assert len(view.material.calibration["directions"]) == 40
    assert view.material.topology is not None
    assert view.material.source("calibration.json") == "../../../calibration.json"
    # The monitor watched from the start of everything; this run ended after 20 seconds.
    assert len(view.material.fidelity) == 20
    text = run_page(view, dict.fromkeys(SECTIONS, ()))
    assert 'href="../../../report.html"' in text
    assert "NYC \N{RIGHTWARDS ARROW} LON" in text  # the traffic beside it


# --- the command ----------------------------------------------------------------------------------


def test_the_command_names_the_page_and_never_loads_torch(tmp_path: Path) -> None:
    run = tmp_path / "one"
    run.mkdir()
    (run / "manifest.json").write_text("{}")
    code = (
        "import sys, typer; from testbed.report_cli import report_command\n"
        "app = typer.Typer(); app.command()(report_command)\n"
        "app(sys.argv[1:], standalone_mode=False); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, "one", "--runs", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    told, torch_loaded = done.stdout.splitlines()
    assert json.loads(told) == {"report": str(run / "report.html")}
    assert torch_loaded == "False"
