"""Counters over time: interpolation, thinning and the file they are kept in."""

from __future__ import annotations

import csv
import io
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure.series import (
    CSV_HEADER,
    Counts,
    Sample,
    Series,
    Thinner,
    bytes_between,
    csv_row,
    parse_links_csv,
    traffic_between,
)
from topologies.errors import RunError
from topologies.model import Direction

UP, DOWN = Direction.parse("NYC>LON"), Direction.parse("LON>NYC")


def _series(*points: tuple[float, int]) -> Series:
    series = Series()
    for time_s, count in points:
        series.append(time_s, Counts(count, count // 100, 0))
    return series


def test_what_passed_between_two_readings_around_a_moment_is_not_known_better() -> None:
    one = _series((10.0, 1000), (12.0, 3000), (13.0, 3000))
    assert one.step_at(11.0) == (2.0, 2000)
    assert one.step_at(12.5) == (1.0, 0)
    assert one.step_at(9.0) == one.step_at(14.0) == (0.0, 0)


def test_counts_grow_linearly_between_samples() -> None:
    series = {UP: _series((10.0, 1000), (12.0, 3000), (13.0, 3000))}
    assert bytes_between(series, 10.0, 11.0) == {UP: 1000}
    assert bytes_between(series, 11.5, 12.5) == {UP: 500}


def test_outside_its_samples_a_direction_stands_still() -> None:
    series = {UP: _series((10.0, 1000), (11.0, 3000))}
    assert bytes_between(series, 0.0, 100.0) == {UP: 2000}
    assert bytes_between(series, 0.0, 10.0) == bytes_between(series, 11.0, 100.0) == {UP: 0}


def test_a_direction_without_samples_carried_nothing() -> None:
    assert traffic_between({UP: Series()}, 0.0, 1.0) == {UP: Counts(0, 0, 0)}


def test_counts_that_fall_are_refused() -> None:
    with pytest.raises(ValueError, match="goes back"):
        _series((10.0, 1000), (11.0, 999))


_STEPS = st.lists(
    st.tuples(st.integers(1, 2000), st.sampled_from((0, 0, 0, 1, 1500, 9000))), max_size=30
)


def _samples(steps: list[tuple[int, int]], direction: Direction = UP) -> list[Sample]:
    times = accumulate(step[0] for step in steps)
    counts = accumulate(step[1] for step in steps)
    return [
        Sample(t / 1000, direction, Counts(n, n // 64, 0))
        for t, n in zip(times, counts, strict=True)
    ]


@given(_STEPS, st.floats(-1, 70), st.floats(-1, 70), st.floats(-1, 70))
def test_windows_side_by_side_add_up(
    steps: list[tuple[int, int]], a: float, b: float, c: float
) -> None:
    start, middle, end = sorted((a, b, c))
    series = Series()
    for sample in _samples(steps):
        series.append(sample.time_s, sample.counts)
    parts = series.between(start, middle).bytes + series.between(middle, end).bytes
    assert abs(parts - series.between(start, end).bytes) <= 1  # each is rounded to a byte


@given(_STEPS, st.floats(-1, 70), st.floats(-1, 70))
def test_thinning_changes_no_reading(steps: list[tuple[int, int]], a: float, b: float) -> None:
    thinner, full, thinned = Thinner(), Series(), Series()
    for sample in _samples(steps):
        full.append(sample.time_s, sample.counts)
        for kept in thinner.offer([sample]):
            thinned.append(kept.time_s, kept.counts)
    assert thinned.between(min(a, b), max(a, b)) == full.between(min(a, b), max(a, b))


def test_a_quiet_direction_keeps_two_samples_of_many() -> None:
    thinner = Thinner()
    quiet = [Sample(float(t), UP, Counts(5, 1, 0)) for t in range(100)]
    kept = thinner.offer(quiet) + thinner.rest()
    assert [sample.time_s for sample in kept] == [0.0, 99.0]


def _file(samples: list[Sample]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([CSV_HEADER, *map(csv_row, samples)])
    return file.getvalue()


def test_the_file_has_the_published_columns() -> None:
    text = _file([Sample(1700000000.25, UP, Counts(100, 2, 1))])
    assert text == "time,direction,bytes,packets,drops\n1700000000.250000,NYC>LON,100,2,1\n"


@given(_STEPS, _STEPS)
def test_the_file_gives_back_what_was_sampled(
    up: list[tuple[int, int]], down: list[tuple[int, int]]
) -> None:
    samples = sorted(_samples(up) + _samples(down, DOWN))
    expected: dict[Direction, Series] = {}
    for sample in samples:
        expected.setdefault(sample.direction, Series()).append(sample.time_s, sample.counts)
    assert parse_links_csv(_file(samples)) == expected


@given(_STEPS, st.data())
def test_a_file_cut_anywhere_gives_the_whole_lines_before_the_cut(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    text = _file(_samples(steps))
    cut = text[: data.draw(st.integers(0, len(text)))]
    read = parse_links_csv(cut).get(UP, Series())
    assert len(read.times) == max(0, cut.count("\n") - 1)


def test_a_bad_row_is_told_by_file_and_line() -> None:
    text = "time,direction,bytes,packets,drops\n1.0,NYC>LON,1,1,0\n2.0,NYC-LON,1,1,0\n"
    with pytest.raises(RunError, match=r"runs/x/links.csv:3: 'NYC-LON' is not a direction"):
        parse_links_csv(text, "runs/x/links.csv")


def test_another_file_is_not_taken_for_links() -> None:
    with pytest.raises(RunError, match=r"links.csv:1: the header is not time,direction"):
        parse_links_csv("a,b\n1,2\n")
