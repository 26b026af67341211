"""Whole jobs of real processes on the loopback interface."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.awaiting import await_round
from workloads.training.records import mean_over_workers, read_events

TRAIN = ["-m", "workloads.training.train", "--preset", "tiny"]
JOB = ["--rounds", "4", "--local-steps", "10", "--seed", "3"]
WORKERS = 3

Events = list[list[dict[str, Any]]]


def events_of(folder: Path) -> Events:
    return [read_events(folder / str(rank) / "worker.jsonl") for rank in range(WORKERS)]


@pytest.fixture(scope="module")
def torchrun(
    bare_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Events]]:
    """A job under torchrun: its output and the events of each worker."""
    folder = tmp_path_factory.mktemp("torchrun")
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(WORKERS), "--standalone"]
    done = subprocess.run(
        [sys.executable, *launcher, *TRAIN, *JOB, "--out", f"{folder}/{{rank}}"],
        env=bare_environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield done.stdout, events_of(folder)


def last_words(events: Events) -> list[dict[str, Any]]:
    return [worker[-1] for worker in events]


def losses(events: Events) -> list[list[tuple[float, float]]]:
    return [
        [(e["train_loss"], e["held_out_loss"]) for e in worker if e["event"] == "round"]
        for worker in events
    ]


def test_all_workers_end_with_the_same_parameters(torchrun: tuple[str, Events]) -> None:
    ends = last_words(torchrun[1])
    assert [end["event"] for end in ends] == ["end"] * WORKERS
    assert len({end["parameters_sha256"] for end in ends}) == 1


def test_training_brings_the_held_out_loss_down(torchrun: tuple[str, Events]) -> None:
    held_out = [one.held_out_loss for one in mean_over_workers(torchrun[1])]
    assert held_out[-1] < held_out[0] - 0.3


def test_islands_part_during_local_steps_and_each_knows_how_far(
    torchrun: tuple[str, Events],
) -> None:
    for one in mean_over_workers(torchrun[1]):
        assert one.consensus_distance is not None
        assert one.consensus_distance > 0


def test_a_round_is_local_work_and_then_a_synchronization(torchrun: tuple[str, Events]) -> None:
    for worker in torchrun[1]:
        for event in worker[1:-1]:
            moments = ["local_start", "local_end", "sync_start", "sync_end"]
            for clock in (event, event["monotonic"]):
                assert [clock[m] for m in moments] == sorted(clock[m] for m in moments)


def test_no_worker_leaves_a_synchronization_before_the_last_has_entered(
    torchrun: tuple[str, Events],
) -> None:
    for one in mean_over_workers(torchrun[1]):
        assert one.ended >= one.sync_started


def test_the_message_is_one_number_a_parameter(torchrun: tuple[str, Events]) -> None:
    start = torchrun[1][0][0]
    assert start["parameters"] == 108_864
    assert start["message_bytes"] == 4 * 108_864
    assert all(e["message_bytes"] == 435_456 for e in torchrun[1][0] if e["event"] == "round")


def test_a_line_of_progress_tells_each_round(torchrun: tuple[str, Events]) -> None:
    lines = [line for line in torchrun[0].splitlines() if "held-out loss" in line]
    assert len(lines) == 4 * WORKERS
    assert all("round " in line and "sync " in line for line in lines)


def test_the_same_seed_without_torchrun_gives_the_same_losses_and_parameters(
    torchrun: tuple[str, Events],
    nursery: Any,
    start_ranks: Callable[..., list[int]],
    tmp_path: Path,
) -> None:
    workers = start_ranks([*TRAIN, *JOB, "--out", f"{tmp_path}/{{rank}}"], WORKERS)
    assert [nursery.finish(worker).stderr for worker in workers] == [""] * WORKERS
    again = events_of(tmp_path)
    assert losses(again) == losses(torchrun[1])
    shas = {end["parameters_sha256"] for end in last_words(again) + last_words(torchrun[1])}
    assert len(shas) == 1


@pytest.mark.parametrize("outer", ["diloco", "none"])
def test_two_workers_agree_under_the_other_outer_optimizers(
    outer: str, nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    job = ["--rounds", "3", "--outer", outer, "--out", f"{tmp_path}/{{rank}}"]
    workers = start_ranks([*TRAIN, *job], 2)
    assert [nursery.finish(worker).stderr for worker in workers] == ["", ""]
    ends = [read_events(tmp_path / str(rank) / "worker.jsonl")[-1] for rank in range(2)]
    assert ends[0]["parameters_sha256"] == ends[1]["parameters_sha256"]


def test_a_worker_alone_needs_no_variable(nursery: Any, tmp_path: Path) -> None:
    worker = nursery.start([*TRAIN, "--rounds", "2", "--out", str(tmp_path)], {})
    outcome = nursery.finish(worker)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    events = read_events(tmp_path / "worker.jsonl")
    assert [e["event"] for e in events] == ["start", "round", "round", "end"]
    assert [e["consensus_distance"] for e in events[1:3]] == [0.0, 0.0]


def test_the_survivors_name_the_site_of_the_worker_that_was_killed(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    endless = ["--rounds", "100000", "--no-progress", "--out", f"{tmp_path}/{{rank}}"]
    workers = start_ranks([*TRAIN, *endless], 4, "NYC,LON,TYO,SIN")
    await_round(tmp_path / "2" / "worker.jsonl")
    os.kill(workers[2], signal.SIGKILL)
    assert nursery.finish(workers[2]).exit_code == -signal.SIGKILL
    survivors = [nursery.finish(workers[rank]) for rank in (0, 1, 3)]
    assert [survivor.exit_code for survivor in survivors] == [1, 1, 1]
    for survivor in survivors:
        assert survivor.stderr.startswith("error: lost TYO (rank 2): no answer from there")
        assert survivor.stderr.count("\n") == 1
    assert read_events(tmp_path / "0" / "worker.jsonl")[-1]["event"] == "error"


FAILS_BY_ITSELF = """
import os
from workloads.training import train, trained

def evaluate(*_):
    raise MemoryError("no room for the windows")

if os.environ["RANK"] == "1":
    trained.evaluate = evaluate
train.main()
"""


def test_a_worker_that_fails_by_itself_is_named_with_its_reason(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    script = tmp_path / "fails.py"
    script.write_text(FAILS_BY_ITSELF)
    workers = start_ranks([str(script), "--preset", "tiny", "--no-progress"], 3, "NYC,LON,TYO")
    outcomes = [nursery.finish(worker) for worker in workers]
    assert [outcome.exit_code for outcome in outcomes] == [1, 1, 1]
    for other in (outcomes[0], outcomes[2]):
        assert other.stderr == "error: LON (rank 1) failed: MemoryError: no room for the windows\n"
