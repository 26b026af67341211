"""The worker's record: whole lines, never another's file, means that weigh right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workloads.errors import UsageError
from workloads.training.records import (
    Stopwatch,
    WorkerRecord,
    mean_over_workers,
    read_events,
)
from workloads.training.worker import peak_rss_bytes


def test_an_event_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    with WorkerRecord(tmp_path / "new" / "folder") as record:
        record.append("start", rank=3)
        assert read_events(tmp_path / "new" / "folder" / "worker.jsonl") == [
            {"event": "start", "rank": 3}
        ]


def test_a_record_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    with WorkerRecord(tmp_path) as record:
        record.append("start")
    with pytest.raises(UsageError, match=r"worker\.jsonl exists"):
        WorkerRecord(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        WorkerRecord(tmp_path / "file" / "folder")


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with WorkerRecord(None) as record:
        record.append("start")
    assert list(tmp_path.iterdir()) == []


def test_events_are_echoed_for_whoever_follows(capsys: Any) -> None:
    with WorkerRecord(None, echo=True) as record:
        record.append("round", round=2)
    assert capsys.readouterr().out == '{"event": "round", "round": 2}\n'


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "worker.jsonl").write_text('{"event": "start"}\n{"event": "rou')
    assert read_events(tmp_path / "worker.jsonl") == [{"event": "start"}]


def test_both_clocks_of_a_stopwatch_go_forward() -> None:
    watch = Stopwatch()
    watch.mark("local_start")
    watch.mark("local_end")
    fields = watch.fields()
    assert fields["local_start"] <= fields["local_end"]
    assert fields["monotonic"]["local_start"] <= fields["monotonic"]["local_end"]


def round_event(number: int, loss: float, windows: int, distance: float | None) -> dict[str, Any]:
    return {
        "event": "round",
        "round": number,
        "local_start": 10.0 + loss,
        "sync_start": 20.0 + loss,
        "sync_end": 30.0 + loss,
        "train_loss": loss,
        "held_out_loss": loss if windows else None,
        "held_out_windows": windows,
        "consensus_distance": distance,
    }


def test_means_run_from_the_first_start_to_the_last_end_and_weigh_by_windows() -> None:
    workers = [
        [{"event": "start"}, round_event(0, 1.0, 3, 0.5), round_event(1, 9.0, 3, 0.5)],
        [{"event": "start"}, round_event(0, 2.0, 1, 1.5)],
        [round_event(0, 6.0, 0, 4.0)],
    ]
    (only,) = mean_over_workers(workers)
    assert (only.started, only.sync_started, only.ended) == (11.0, 26.0, 36.0)
    assert only.train_loss == 3.0
    assert only.held_out_loss == 1.25
    assert only.consensus_distance == 2.0


def test_parameters_that_never_part_have_no_distance() -> None:
    (only,) = mean_over_workers([[round_event(0, 1.0, 1, None)], [round_event(0, 1.0, 1, None)]])
    assert only.consensus_distance is None


def test_a_replay_has_times_and_no_losses() -> None:
    replayed = {**round_event(0, 1.0, 0, None), "train_loss": None}
    (only,) = mean_over_workers([[replayed], [replayed]])
    assert (only.train_loss, only.held_out_loss, only.ended) == (None, None, 31.0)


def test_the_peak_memory_is_that_of_this_program() -> None:
    assert peak_rss_bytes("VmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t 200 kB\n") == 307_200
