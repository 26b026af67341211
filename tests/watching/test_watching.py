"""Records are written by `RunRecord`, as a run writes them; what is shown is worked out by hand."""

import json
import os
import pty
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from testbed.record.files import json_line
from testbed.record.writer import RunRecord
from testbed.watching.exposition import registry_of
from testbed.watching.frame import frame_of
from testbed.watching.live import KEPT_SAMPLES, Live
from testbed.watching.rates import Meter, Meters
from testbed.watching.tail import Tail
from testbed.watching.view import cliques, progress_line, view

COMMAND = """
import sys, typer
from testbed.watching.cli import metrics_command, watch_command
app = typer.Typer()
app.command(name="watch")(watch_command)
app.command(name="metrics")(metrics_command)
app()
"""
MANIFEST = {"topology": "three_city", "rate_scale": 0.01, "settings": {"rounds": 10}}


def links_csv(*rows: tuple[float, str, int]) -> str:
    return "".join(f"{t},{way},{count},{count // 1000},0\n" for t, way, count in rows)


def round_row(number: int, **more: Any) -> dict[str, Any]:
    return {"round": number, "start": 3.0 * number, "end": 3.0 * number + 3, "sync_s": 1.5, **more}


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    made = RunRecord.create(tmp_path / "runs" / "one", dict(MANIFEST))
    made.links_csv.write_text(
        "time,direction,bytes,packets,drops\n"
        + links_csv(
            (100.0, "AMS>FRA", 1000), (101.0, "AMS>FRA", 6_251_000), (102.0, "AMS>FRA", 12_501_000),
            (102.0, "AMS.island>AMS", 5_000), (102.0, "FRA>AMS", 0),
        )
    )  # fmt: skip
    made.worker_rows(
        "AMS", [{"event": "start"}, {"event": "round", "round": 4, "train_loss": 3.25}]
    )
    made.worker_rows("FRA", [{"event": "start"}, {"event": "round", "round": 3, "train_loss": 3.5}])
    made.rounds([round_row(n, held_out_loss=4.0 - n / 10) for n in range(4)])
    return made


def looked(record: RunRecord) -> Live:
    live = Live(record.path)
    live.look()
    return live


def shown(live: Live) -> str:
    console = Console(width=110, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(view(frame_of(live)))
    return console.export_text()


# --- files that grow -----------------------------------------------------------------------------


def test_a_tail_gives_whole_lines_once(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    tail = Tail(file)
    assert tail.lines() == []
    file.write_text("one\ntw")
    assert tail.lines() == ["one"]
    with file.open("a") as more:
        more.write("o\nthree\n")
    assert tail.lines() == ["two", "three"]
    assert tail.lines() == []
    assert not tail.restarted


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text("one\ntwo\n")
    tail = Tail(file)
    tail.lines()
    (tmp_path / "other").write_text("uno\ndos\ntres\n")
    (tmp_path / "other").replace(file)
    assert tail.lines() == ["uno", "dos", "tres"]
    assert tail.restarted


# --- rates ---------------------------------------------------------------------------------------


def test_a_rate_is_that_of_the_last_second() -> None:
    meter = Meter()
    for time_s, count in ((0.0, 0), (1.0, 1_000_000), (1.5, 2_000_000), (2.0, 3_000_000)):
        meter.add(time_s, count, 0, 0)
    assert meter.rate_mbps(2.0) == pytest.approx(16.0)
    assert meter.rate_mbps(2.5) == pytest.approx(8.0)  # it stood still for half of it
    assert meter.rate_mbps(9.0) == 0.0
    assert meter.peak_mbps == pytest.approx(16.0)


def test_lines_that_are_no_rows_are_passed_over() -> None:
    meters = Meters()
    meters.take(["time,direction,bytes,packets,drops", "1.0,NYC>LON,100,2,0", "2.0,NYC>LO", ""])
    assert list(meters.by_direction) == ["NYC>LON"]
    assert meters.newest_s == 1.0


# --- what is shown -------------------------------------------------------------------------------


def test_links_have_their_rate_and_their_share_of_the_emulated_capacity(record: RunRecord) -> None:
    (first, *_) = frame_of(looked(record)).links
    forward, backward = first
    assert (forward.direction, backward.direction) == ("AMS>FRA", "FRA>AMS")
    assert forward.rate_mbps == pytest.approx(50.0)  # 6.25 MB in the last second
    assert forward.share == pytest.approx(0.5)  # of 10 Gbit/s at rate_scale 0.01
    assert forward.bytes == 12_500_000
    assert backward.rate_mbps == 0.0


def test_progress_is_that_of_the_slowest_worker_and_time_left_that_of_median_rounds(
    record: RunRecord,
) -> None:
    frame = frame_of(looked(record))
    assert (frame.done, frame.asked) == (4, 10)
    assert frame.left_s == pytest.approx(6 * 3.0)
    assert progress_line(frame) == "rounds 4 of 10, held-out loss 3.700, 0:18 left"


def test_a_worker_is_in_the_phase_that_its_access_port_shows(record: RunRecord) -> None:
    phases = {worker.site: worker.phase for worker in frame_of(looked(record)).workers}
    assert phases == {"AMS": "computes or waits", "FRA": "computes or waits"}
    with record.links_csv.open("a") as file:
        file.write(links_csv((102.5, "AMS.island>AMS", 3_000_000)))
    phases = {worker.site: worker.phase for worker in frame_of(looked(record)).workers}
    assert phases["AMS"] == "sends"
    record.worker_rows("AMS", [{"event": "end"}])
    assert frame_of(looked(record)).workers[0].phase == "done"


def test_a_look_adds_what_came_since_the_last(record: RunRecord) -> None:
    live = looked(record)
    record.rounds([round_row(4)])
    record.worker_rows("FRA", [{"event": "round", "round": 4}])
    live.look()
    assert frame_of(live).done == 5
    assert live.rounds.count == 5


def test_the_newest_variant_is_the_one_that_is_watched(record: RunRecord) -> None:
    inner = record.path / "variants" / "ring" / "2"
    (inner / "workers").mkdir(parents=True)
    (inner / "manifest.json").write_text(json.dumps({**MANIFEST, "variant": "ring"}))
    record.amend_manifest(experiment={"variants": [{}, {}], "repetitions": 3})
    (inner / "rounds.jsonl").write_text(json_line(round_row(0)))
    frame = frame_of(looked(record))
    assert frame.title.endswith("training 1 of 6 · variant ring, repetition 2")
    assert len(frame.rounds) == 1


def test_a_running_run_says_what_speaks_against_it_so_far(record: RunRecord) -> None:
    sample: dict[str, Any] = {
        "time": 1.0,
        "interval_s": 1.0,
        "cpu_busy_pct": 50.0,
        "steal_pct": 0.0,
    }
    sample |= {"runnable": 1, "unasked_drops": {"AMS>FRA": 3}}
    (record.path / "fidelity.jsonl").write_text(json_line(sample))
    frame = frame_of(looked(record))
    assert frame.state == "running"
    assert not frame.judged
    assert "AMS>FRA" in " ".join(frame.reasons)


def test_what_the_machine_did_before_the_first_round_is_not_held_against_it(
    tmp_path: Path,
) -> None:
    record = RunRecord.create(tmp_path / "runs" / "one", dict(MANIFEST))
    sample = {"time": 1.0, "interval_s": 1.0, "cpu_busy_pct": 9.0, "steal_pct": 90.0, "runnable": 1}
    samples = [{**sample, "time": float(n)} for n in range(1, 21)]
    (record.path / "fidelity.jsonl").write_text("".join(json_line(one) for one in samples))
    assert frame_of(looked(record)).reasons == ()
    record.rounds([{**round_row(0), "start": 3.0}])
    assert "hypervisor took 90 %" in " ".join(frame_of(looked(record)).reasons)


def test_a_finished_run_shows_its_verdict_and_the_peaks_of_links(record: RunRecord) -> None:
    record.write_summary({"valid": True, "reasons": []})
    record.end()
    live = looked(record)
    assert frame_of(live).links[0][0].rate_mbps == pytest.approx(50.0)
    text = shown(live)
    assert "complete" in text
    assert "valid" in text.splitlines()[2]
    assert "█████·····" in text


def test_a_narrow_terminal_shows_names_and_figures_whole(record: RunRecord) -> None:
    console = Console(width=60, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(view(frame_of(looked(record)), console.width))
    text = console.export_text()
    for whole in ("AMS-FRA", "Mbit/s >", "drops", "computes or waits", "held-out"):
        assert whole in text


def test_an_empty_record_can_be_looked_at(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "runs" / "new", {"topology": "no such"})
    assert "rounds 0" in shown(looked(record))


def test_cliques_are_named_while_there_is_room() -> None:
    pairs = {"cliques": [{"sites": ["AMS", "LON"]}, {"sites": ["FRA", "NYC"]}]}
    assert cliques(pairs) == "AMS+LON FRA+NYC"
    assert cliques({"cliques": [{"sites": ["NYC"] * 12}]}) == "clique of 12"
    assert cliques({"cliques": [{"sites": ["AMS", "LON"]}] * 9}) == "9 cliques"


# --- the commands --------------------------------------------------------------------------------


def command(record: RunRecord, *words: str) -> list[str]:
    return [sys.executable, "-c", COMMAND, *words, "--runs", str(record.path.parent)]


def test_once_prints_one_frame(record: RunRecord) -> None:
    done = subprocess.run(
        command(record, "watch", "one", "--once"), capture_output=True, text=True, check=True
    )
    assert "rounds 4 of 10" in done.stdout


def test_q_ends_watching_on_a_terminal(record: RunRecord) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(record, "watch", "one"),
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"AMS-FRA" not in seen:
        seen += os.read(ours, 65536)
    os.write(ours, b"q")
    while process.poll() is None:
        try:
            seen += os.read(ours, 65536)
        except OSError:
            break
    assert process.wait(timeout=20) == 0
    os.close(ours)


@pytest.mark.parametrize("ends", ["terminated", "gone"])
def test_watching_ends_in_order_with_its_terminal(record: RunRecord, ends: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(record, "watch", "one"),
        stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"AMS-FRA" not in seen:
        seen += os.read(ours, 65536)
    if ends == "terminated":
        process.terminate()
        while b"\x1b[?1049l" not in seen:  # back from the other screen
            seen += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(timeout=20) is not None


def samples_of(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("direction", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_counters_of_links_rounds_loss_and_validity(record: RunRecord) -> None:
    found = samples_of(generate_latest(registry_of(Live(record.path))).decode())
    assert found["atoll_link_bytes_total", "AMS>FRA"] == 12_501_000
    assert found["atoll_link_capacity_bits_per_second", "AMS>FRA"] == 100e6
    assert found["atoll_rounds_total", ""] == 4
    assert found["atoll_held_out_loss", ""] == pytest.approx(3.7)
    assert found["atoll_run_running", ""] == 1
    assert found["atoll_run_reasons_against", ""] == 0


def test_scrapes_at_the_same_time_take_turns(record: RunRecord) -> None:
    sample = {"time": 1.0, "interval_s": 1.0, "cpu_busy_pct": 9.0, "steal_pct": 0.0, "runnable": 1}
    late = json_line({**sample, "late_releases": 1})
    registry = registry_of(Live(record.path))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            with (record.path / "fidelity.jsonl").open("a") as file:
                file.write(late * 200)
            texts = list(pool.map(lambda _: generate_latest(registry).decode(), range(8)))
    counted = {samples_of(text)["atoll_link_late_releases_total", ""] for text in texts}
    assert counted == {2000.0}


def test_a_counter_does_not_fall_when_old_samples_are_forgotten(record: RunRecord) -> None:
    sample = {"time": 1.0, "interval_s": 1.0, "cpu_busy_pct": 9.0, "steal_pct": 0.0, "runnable": 1}
    late = json_line({**sample, "late_releases": 2})
    (record.path / "fidelity.jsonl").write_text(late * (KEPT_SAMPLES + 100))
    found = samples_of(generate_latest(registry_of(Live(record.path))).decode())
    assert found["atoll_link_late_releases_total", ""] == 2 * (KEPT_SAMPLES + 100)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("rounds.jsonl", '{"start": 1.0}\n'),
        ("workers/AMS.jsonl", '{"event": "round"}\n{"event": "round", "round": "x"}\n'),
        ("workers/FRA.jsonl", '{"event": "round", "round": 1, "train_loss": "low"}\n'),
        ("manifest.json", '{"topology": "three_city", "rate_scale": "small"}'),
    ],
)
def test_rows_that_are_none_are_shown_as_unknown(record: RunRecord, file: str, text: str) -> None:
    (record.path / file).write_text(text)
    assert "rounds " in shown(looked(record))


def test_values_of_another_kind_are_one_line(record: RunRecord) -> None:
    (record.path / "fidelity.jsonl").write_text('{"time": 1, "late_releases": "many"}\n')
    done = subprocess.run(
        command(record, "watch", "one", "--once"), capture_output=True, text=True, check=False
    )
    assert "RunError" in done.stderr  # the command line makes one line of it
    assert "not of the kind that was written (ValueError" in done.stderr


def test_the_endpoint_listens_on_loopback_and_follows_the_run(record: RunRecord) -> None:
    process = subprocess.Popen(
        command(record, "metrics", "one", "--port", "0"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = next(word for word in said.split() if word.startswith("http://127.0.0.1:"))
        assert b'atoll_link_bytes_total{direction="FRA>AMS"} 0.0' in scraped(url)
        with record.links_csv.open("a") as file:
            file.write(links_csv((103.0, "FRA>AMS", 7_000)))
        assert b'atoll_link_bytes_total{direction="FRA>AMS"} 7000.0' in scraped(url)
    finally:
        process.terminate()
        process.wait(timeout=20)


def scraped(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: bytes = answer.read()
        return text


def test_many_rows_are_read_in_little_time(record: RunRecord) -> None:
    # An hour of nine cities, five rows a second of forty directions, must not hold up a screen.
    rows = [(100.0 + n / 5, "AMS>FRA", 20_000_000 + n) for n in range(20_000)]
    with record.links_csv.open("a") as file:
        file.write(links_csv(*rows))
    live = looked(record)
    before = time.process_time()
    live.look()
    again_s = time.process_time() - before
    assert live.meters.by_direction["AMS>FRA"].bytes == 20_019_999
    assert again_s < 1.0
