"""Rounds in time, from what workers say of themselves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure.windows import (
    RoundWindow,
    clique_times,
    complete_rounds,
    round_times,
    round_windows,
)


def _row(
    number: int, start: float, local: float, sync: float, lag: float = 0.0
) -> dict[str, object]:
    """A round that begins at `start`, computes, waits for `lag`, and synchronizes."""
    return {
        "event": "round",
        "round": number,
        "local_start": start,
        "local_end": start + local,
        "sync_start": start + local + lag,
        "sync_end": start + local + lag + sync,
    }


WORKERS: dict[str, list[dict[str, object]]] = {
    "LON": [{"event": "start"}, _row(0, 100, 4, 2), _row(1, 106, 4, 2), {"event": "end"}],
    "NYC": [{"event": "start"}, _row(0, 101, 4, 1.5), _row(1, 106.5, 2, 3)],
}


def test_a_round_lasts_from_the_first_island_to_the_last() -> None:
    first, second = round_times(WORKERS)
    assert (first.local_start, first.first_sync_start) == (100, 104)
    assert (first.last_sync_start, first.sync_end) == (105, 106.5)
    assert (first.sync_s, first.wait_s, first.round_s) == (1.5, 1.0, 6.5)
    assert first.longest_local_s == 4
    assert (second.number, second.first_sync_start) == (1, 108.5)


def test_the_border_lies_in_the_middle_of_the_quiet_phase() -> None:
    # The first window begins in the silence before the first local step, at 100.
    # Quiet from 106.5, the last end of round 0, to 108.5, the first exchange of round 1.
    assert round_windows(WORKERS, tail_s=0.5) == [
        RoundWindow(0, 99.75, 107.5),
        RoundWindow(1, 107.5, 112.5),
    ]


def test_a_round_that_one_island_did_not_finish_does_not_count() -> None:
    workers = {**WORKERS, "NYC": WORKERS["NYC"][:2]}
    assert complete_rounds(workers) == [0]
    assert [window.number for window in round_windows(workers)] == [0]


@pytest.mark.parametrize("workers", [{}, {"LON": []}, {"LON": WORKERS["LON"], "NYC": []}])
def test_without_a_whole_round_there_is_no_window(
    workers: dict[str, list[dict[str, object]]],
) -> None:
    assert round_windows(workers) == []


_LENGTHS = st.tuples(*[st.floats(0.01, 5)] * 3)


@given(st.lists(_LENGTHS, min_size=1, max_size=6), st.floats(0, 0.9))
def test_windows_follow_one_another_and_hold_their_synchronization(
    lengths: list[tuple[float, float, float]], skew: float
) -> None:
    start, early, late = 1000.0, [], []
    for number, (local, sync, pause) in enumerate(lengths):
        early.append(_row(number, start, local, sync))
        late.append(_row(number, start, local, sync * (1 - skew), lag=sync * skew))
        start += local + sync + pause
    windows = round_windows({"A": early, "B": late})
    for before, after in pairwise(windows):
        assert before.end_s == after.start_s
    for window, times in zip(windows, round_times({"A": early, "B": late}), strict=True):
        assert window.start_s <= times.first_sync_start <= times.sync_end <= window.end_s


def test_a_clique_lasts_from_its_last_member_ready_to_its_last_one_done() -> None:
    rows = {
        "A": {"sync_start": 10.0, "sync_end": 13.0},
        "B": {"sync_start": 11.0, "sync_end": 12.5},
        "C": {"sync_start": 50.0, "sync_end": 51.0},
    }
    (one,) = clique_times([("A", "B")], rows)
    assert (one.wait_s, one.sync_s) == (1.0, 2.0)


def test_the_mean_that_closes_a_training_belongs_to_no_round() -> None:
    workers = {site: [*rows, {"event": "final", "start": 112.2}] for site, rows in WORKERS.items()}
    assert round_windows(workers, tail_s=0.5)[-1].end_s == 112.2


def test_windows_of_rotating_cliques_never_run_backwards() -> None:
    # A is far ahead of B and C: its second exchange begins before their first has ended.
    early = [_idle(0, 0.0), _idle(1, 1.0), _idle(2, 2.0)]
    late = [_idle(0, 30.0), _idle(1, 31.0), _idle(2, 32.0)]
    windows = round_windows({"A": early, "B": late})
    borders = [window.start_s for window in windows] + [windows[-1].end_s]
    assert borders == sorted(borders)


def _idle(number: int, at: float) -> dict[str, Any]:
    moments = {"local_start": at, "local_end": at, "sync_start": at, "sync_end": at}
    return {"event": "round", "round": number, **moments}
