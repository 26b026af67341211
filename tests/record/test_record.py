"""The record of a run while it is made, and as it is read: complete, failed, running, killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.record.reader import find_run, list_runs, load_run
from testbed.record.writer import RunRecord
from testbed.workers import Reports
from topologies.errors import RunError, UserError
from topologies.model import Direction

MANIFEST = {"topology": "nine_city", "started": "2025-03-01T00:00:00+00:00"}


def _row(number: int) -> dict[str, Any]:
    return {"round": number, "sync_s": 0.5}


def _create(runs: Path, name: str = "20250301T000000Z-nine_city-0001") -> RunRecord:
    return RunRecord.create(runs / name, MANIFEST)


def test_a_new_record_has_its_manifest_and_is_the_latest(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        assert json.loads((record.path / "manifest.json").read_text()) == MANIFEST
        assert (tmp_path / "latest").resolve() == record.path
        assert record.run_id == "20250301T000000Z-nine_city-0001"


def test_two_runs_cannot_share_a_record(tmp_path: Path) -> None:
    with _create(tmp_path), pytest.raises(RunError, match="is there already"):
        _create(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RunError, match=r"runs/.*: Not a directory"):
        _create(tmp_path / "runs")


def test_everything_written_is_read_back(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        record.amend_manifest(message_bytes=400)
        record.event("reroute", direction="NYC>LON")
        record.rounds([_row(0), _row(1)])
        record.worker_rows("NYC", [{"event": "start"}])
        record.worker_rows("NYC", [{"event": "end"}])
        record.links_csv.write_text("time,direction,bytes,packets,drops\n1.0,NYC>LON,5,1,0\n")
        record.write_calibration({"directions": []})
        record.write_summary({"valid": True})
    run = load_run(record.path)
    assert (run.state, run.reason) == ("complete", "")
    assert run.manifest == {**MANIFEST, "message_bytes": 400}
    assert [row["event"] for row in run.events] == ["run_started", "reroute", "run_ended"]
    assert run.rounds == [_row(0), _row(1)]
    assert run.workers == {"NYC": [{"event": "start"}, {"event": "end"}]}
    assert list(run.links[Direction("NYC", "LON")].bytes) == [5]
    assert (run.summary, run.calibration) == ({"valid": True}, {"directions": []})


def test_a_round_is_written_once(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        record.rounds([_row(0)])
        record.rounds([_row(0), _row(1)])
    assert load_run(record.path).rounds == [_row(0), _row(1)]


def test_a_collected_worker_log_takes_the_place_of_what_was_reported(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        record.worker_rows("NYC", [{"event": "start"}])
        record.replace_worker_log("NYC", '{"event":"start"}\n{"event":"end"}\n')
    assert [row["event"] for row in load_run(record.path).workers["NYC"]] == ["start", "end"]


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RunError), _create(tmp_path) as record:
        raise RunError("linkd ended")
    run = load_run(record.path)
    assert (run.state, run.reason) == ("failed", "linkd ended")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
    ],
)
def test_a_run_that_is_broken_off_says_by_what(
    tmp_path: Path, error: BaseException, reason: str
) -> None:
    with pytest.raises(type(error)), _create(tmp_path) as record:
        raise error
    assert load_run(record.path).reason == reason


def test_a_full_disk_is_told_with_the_file_that_could_not_be_written(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        record.worker_log("NYC").symlink_to("/dev/full")
        with pytest.raises(RunError, match=r"workers/NYC\.jsonl: No space left on device"):
            record.worker_rows("NYC", [{"event": "start"}])
        reports = Reports(record)
        reports.take("NYC", '{"event": "start"}')  # in a thread, whose exception reaches nobody
        with pytest.raises(RunError, match="the record cannot be written"):
            reports.check()


def test_a_run_is_running_while_its_record_is_open(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        assert load_run(record.path).state == "running"
    assert load_run(record.path).state == "complete"


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from testbed.record.writer import RunRecord
record = RunRecord.create(Path(sys.argv[1]), {"topology": "line"})
print("ready", flush=True)
number = 0
while True:
    record.event("tick", number=number)
    record.rounds([{"round": number}])
    record.amend_manifest(ticks=number)
    number += 1
"""


def test_a_killed_run_is_readable_and_known_as_killed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        assert load_run(path).state == "running"
        while "ticks" not in load_run(path).manifest:
            assert writer.poll() is None
        writer.kill()
    run = load_run(path)
    assert run.state == "killed"
    ticks = [row["number"] for row in run.events if row["event"] == "tick"]
    assert ticks == list(range(len(ticks)))
    assert [row["round"] for row in run.rounds] == ticks[: len(run.rounds)]
    assert run.manifest["ticks"] in (len(run.rounds) - 1, len(run.rounds) - 2)


def test_runs_are_listed_oldest_first_with_their_states(tmp_path: Path) -> None:
    with RunRecord.create(tmp_path / "b", {"topology": "x", "started": "2025-01-01"}) as first:
        first.write_summary({"valid": False})
    second = RunRecord.create(tmp_path / "a", {"topology": "y", "started": "2025-01-02"})
    (tmp_path / "no-run").mkdir()
    listed = [(run.run_id, run.state, run.topology, run.valid) for run in list_runs(tmp_path)]
    assert listed == [("b", "complete", "x", False), ("a", "running", "y", None)]
    second.end()


@pytest.mark.parametrize("manifest", ["{", "[]", '{"started": 1} x'])
def test_one_damaged_record_does_not_hide_the_others(tmp_path: Path, manifest: str) -> None:
    RunRecord.create(tmp_path / "sound", {"topology": "nine_city", "started": "2027"}).end()
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "manifest.json").write_text(manifest)
    assert [(run.run_id, run.state) for run in list_runs(tmp_path)] == [
        ("spoilt", "damaged"),
        ("sound", "complete"),
    ]


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "runs") == []


def test_a_run_is_found_by_name_by_path_and_as_the_latest(tmp_path: Path) -> None:
    for name in ("first", "second"):
        _create(tmp_path, name).end()
    assert find_run("first", tmp_path) == tmp_path / "first"
    assert find_run(str(tmp_path / "first"), Path("/nonexistent")) == tmp_path / "first"
    assert find_run(None, tmp_path) == find_run("latest", tmp_path) == tmp_path / "second"


def test_an_unknown_run_is_a_users_mistake_that_names_what_there_is(tmp_path: Path) -> None:
    _create(tmp_path, "first").end()
    with pytest.raises(UserError, match=r"no run 'third' in .*; the latest are: first"):
        find_run("third", tmp_path)
    with pytest.raises(UserError, match="none yet"):
        find_run(None, tmp_path / "empty")


def test_a_folder_without_a_manifest_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not the record of a run: it has no manifest.json"):
        load_run(tmp_path)


def test_hidden_files_of_an_unfinished_write_are_no_workers(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        record.worker_rows("NYC", [{"event": "start"}])
        (record.path / "workers" / ".LON.jsonl").write_text('{"event"')
    assert list(load_run(record.path).workers) == ["NYC"]


def test_a_run_that_captures_nothing_has_no_capture_folder(tmp_path: Path) -> None:
    with _create(tmp_path) as record:
        assert not record.capture_directory.exists()
