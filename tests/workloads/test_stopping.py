"""An early end: after the round that the file names, or an error where that is past."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.errors import UsageError, WorkloadError
from workloads.training.stopping import numbers_until_stopped, read_stop


def test_without_a_file_all_rounds_are_done(tmp_path: Path) -> None:
    assert list(numbers_until_stopped(3, None)) == [0, 1, 2]
    assert list(numbers_until_stopped(3, tmp_path / "stop.json")) == [0, 1, 2]


def test_the_round_named_is_the_last_one(tmp_path: Path) -> None:
    path, done = tmp_path / "stop.json", []
    for number in numbers_until_stopped(100, path):
        done.append(number)
        if number == 1:
            path.write_text('{"after_round": 3}')
    assert done == [0, 1, 2, 3]


def test_a_round_beyond_the_last_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stop.json"
    path.write_text('{"after_round": 9}')
    assert list(numbers_until_stopped(2, path)) == [0, 1]


def test_a_worker_that_is_past_the_round_says_so(tmp_path: Path) -> None:
    path = tmp_path / "stop.json"
    numbers = numbers_until_stopped(100, path)
    assert [next(numbers) for _ in range(4)] == [0, 1, 2, 3]
    path.write_text('{"after_round": 1}')
    with pytest.raises(WorkloadError, match="after round 1, but round 3 is done"):
        next(numbers)


@pytest.mark.parametrize("text", ["", '{"after_ro'])
def test_half_a_file_is_read_again_later(text: str, tmp_path: Path) -> None:
    path = tmp_path / "stop.json"
    path.write_text(text)
    assert read_stop(path) is None


@pytest.mark.parametrize(
    "text", ["7", '{"after": 7}', '{"after_round": "7"}', '{"after_round":-1}']
)
def test_what_names_no_round_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "stop.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r'give \{"after_round": K\}, K from 0'):
        read_stop(path)
