"""The main job from end to end, as a user calls it.

A run on a machine whose hypervisor was elsewhere rightly ends invalid, so what is asked of every
run is that all is right but the machine, and that the verdict, the reasons and the exit code agree.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import testbed.record
from testbed.ownership import runtime_directories
from testbed.record.reader import load_run

pytestmark = [pytest.mark.root, pytest.mark.slow]

ATOLL = str(Path(sys.executable).with_name("atoll"))
DISTURBED_STEAL_PCT = 3.0
QUICKLY = ("--no-calibrate", "--no-report")
SCHEMAS = Path(testbed.record.__file__).parent / "schemas"


def emulate(runs: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [ATOLL, "emulate", *words, "--runs", str(runs)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


def read(runs: Path, name: str) -> Any:
    return json.loads((runs / "latest" / name).read_text())


def emulate_to_the_end(runs: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Emulate; a machine may disturb calibration, which ends a run, and may make a run invalid."""
    for _ in range(3):
        done = emulate(runs, *words)
        if "link directions are not what the topology asks for" not in done.stderr:
            break
    summary = read(runs, "summary.json")
    assert summary["reasons"] == summary["machine_reasons"], done.stdout + done.stderr
    assert summary["valid"] is (summary["reasons"] == [])
    assert done.returncode == (0 if summary["valid"] else 1), done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def nine_cities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    emulate_to_the_end(runs, "nine_city", "--rounds", "2", "--local-steps", "2")
    return runs


def test_all_36_pairs_are_reached_both_ways_no_faster_than_light(nine_cities: Path) -> None:
    round_trips = read(nine_cities, "summary.json")["round_trips"]
    assert round_trips["pairs"] == 72
    assert round_trips["unreachable"] == []
    for row in round_trips["rows"]:
        assert row["median_ms"] >= row["asked_ms"]


def test_every_ring_hop_carries_what_gloos_ring_must_put_there(nine_cities: Path) -> None:
    # Seven links around the world and the spurs to SEO and BAR there and back: 11 directions.
    summary = read(nine_cities, "summary.json")
    assert summary["traversals"]["predicted"] == pytest.approx(11 * 16 / 9, rel=1e-3)
    assert summary["traversals"]["measured"] == pytest.approx(11 * 16 / 9, rel=0.01)
    hop_bytes = 2 * 8 / 9 * summary["message_bytes"] * len(summary["rounds"])
    loaded = [x for x in summary["link_bytes"].values() if x["predicted_payload_bytes"]]
    assert len(loaded) == 11 + 18  # and every access port both ways
    for row in loaded:
        assert row["measured_payload_bytes"] == pytest.approx(hop_bytes, rel=0.02)


def test_all_islands_end_with_the_same_parameters(nine_cities: Path) -> None:
    summary = read(nine_cities, "summary.json")
    assert len(summary["parameters_sha256"]) == 64
    workers = load_run(nine_cities / "latest").workers
    assert len(workers) == 9


def test_a_run_is_valid_unless_the_machine_was_taken_away(nine_cities: Path) -> None:
    samples = load_run(nine_cities / "latest").path / "fidelity.jsonl"
    steal = [json.loads(line)["steal_pct"] for line in samples.read_text().splitlines()]
    if max(steal) > DISTURBED_STEAL_PCT:
        pytest.skip(f"the hypervisor took {max(steal):.0f} % of the processors in one second")
    assert read(nine_cities, "summary.json")["valid"] is True


def test_three_witnesses_agree_on_the_bytes_of_every_direction(nine_cities: Path) -> None:
    rows = read(nine_cities, "summary.json")["cross_check"]
    assert len(rows) == 2 * 40
    assert all(row["agree"] for row in rows)


def test_the_record_is_complete_and_keeps_to_its_schemas(nine_cities: Path) -> None:
    run = load_run(nine_cities / "latest")
    assert run.state == "complete"
    for name in ("manifest", "summary"):
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        jsonschema.validate(read(nine_cities, f"{name}.json"), schema)
    assert run.manifest["congestion_control"] == "cubic"
    assert len(run.manifest["interfaces"]) == 40
    # No queue is shorter than the longest round trip, BAR to SIN and back.
    assert min(run.manifest["queues_ms"].values()) == pytest.approx(315.0)
    assert len(run.rounds) == 2


def test_every_link_was_calibrated_before_it_was_relied_on(nine_cities: Path) -> None:
    calibration = read(nine_cities, "calibration.json")
    assert len(calibration["directions"]) == 40
    assert abs(calibration["worst_rate_error_pct"]) <= 2
    assert abs(calibration["worst_delay_error_ms"]) <= 0.5


def test_nothing_of_the_run_is_left_but_its_record(nine_cities: Path) -> None:
    run_id = (nine_cities / "latest").resolve().name
    assert run_id not in [directory.run_id for directory in runtime_directories()]


def test_the_same_seed_trains_to_the_same_parameters_and_capture_agrees(tmp_path: Path) -> None:
    words = ("three_city", "--rounds", "1", "--local-steps", "2", "--seed", "7", *QUICKLY)
    hashes = []
    for name, more in (("a", ["--capture"]), ("b", ["--json"])):
        done = emulate_to_the_end(tmp_path / name, *words, *more)
        hashes.append(read(tmp_path / name, "summary.json")["parameters_sha256"])
    assert hashes[0] == hashes[1]
    assert json.loads(done.stdout) == read(tmp_path / "b", "summary.json")
    summary = read(tmp_path / "a", "summary.json")
    sent = summary["captured_traffic"]
    assert set(sent) == {f"{a}>{b}" for a in sent_sites() for b in sent_sites() if a != b}
    for code in sent_sites():
        captured = sum(x["bytes"] for pair, x in sent.items() if pair.startswith(code))
        counted = summary["link_bytes"][f"{code}.island>{code}"]["measured_bytes"]
        assert captured >= counted  # the capture began before the first round


def sent_sites() -> list[str]:
    return ["AMS", "FRA", "LON"]


def test_a_worker_that_cannot_work_ends_the_run_with_its_name(tmp_path: Path) -> None:
    done = emulate(tmp_path, "three_city", "--rounds", "1", "--timeout-s", "1", *QUICKLY)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("atoll: ")
    assert "AMS" in last
    assert load_run(tmp_path / "latest").state == "failed"
