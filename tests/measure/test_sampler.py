"""The sampling thread: what it keeps, what it writes, how it fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from testbed.measure.counters import DirectionCounters
from testbed.measure.sampler import Sampler
from testbed.measure.series import load_links_csv
from topologies.errors import RunError
from topologies.model import Direction

UP = Direction.parse("NYC>LON")


class _Link:
    """A counter that grows by 1000 bytes and ten packets each time it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> dict[Direction, DirectionCounters]:
        self.reads += 1
        return {UP: DirectionCounters(1000 * self.reads, 10 * self.reads, 0, 0, drops=3)}


def test_the_file_and_the_memory_hold_the_same_series(tmp_path: Path) -> None:
    link = _Link()
    sampler = Sampler(link, tmp_path / "links.csv", interval_s=0.01).start()
    while link.reads < 5:
        time.sleep(0.01)
    sampler.close()
    series = sampler.series()[UP]
    assert len(series.times) == link.reads >= 5
    assert series.bytes[-1] == 1000 * link.reads
    written = load_links_csv(tmp_path / "links.csv")[UP]
    assert list(written.bytes) == list(series.bytes)
    assert list(written.times) == pytest.approx(list(series.times), abs=1e-6)


def test_samples_are_on_disk_before_the_sampler_is_closed(tmp_path: Path) -> None:
    with Sampler(_Link(), tmp_path / "links.csv", interval_s=60):
        assert list(load_links_csv(tmp_path / "links.csv")[UP].bytes) == [1000]


def test_drops_of_the_link_back_end_are_added_to_those_of_interfaces(tmp_path: Path) -> None:
    with Sampler(_Link(), tmp_path / "links.csv", 60, link_drops=lambda: {UP: 4}) as sampler:
        assert list(sampler.series()[UP].drops) == [3 + 4]


def test_a_second_sampler_goes_on_in_the_same_file(tmp_path: Path) -> None:
    link = _Link()
    for _ in range(2):
        Sampler(link, tmp_path / "links.csv", interval_s=60).start().close()
    assert list(load_links_csv(tmp_path / "links.csv")[UP].bytes) == [1000, 2000, 3000, 4000]


def test_a_clock_that_is_set_back_does_not_break_the_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sampler(_Link(), tmp_path / "links.csv", interval_s=60) as sampler:
        monkeypatch.setattr("testbed.measure.sampler.time.time", lambda: 1.0)
        sampler.sample()
        times = list(sampler.series()[UP].times)
    assert times == sorted(times)


def test_counters_that_vanish_are_reported_to_the_owner(tmp_path: Path) -> None:
    link = _Link()

    def source() -> dict[Direction, DirectionCounters]:
        if link.reads >= 2:
            raise RunError("wire ends are gone: w0a")
        return link()

    sampler = Sampler(source, tmp_path / "links.csv", interval_s=0.01).start()
    with pytest.raises(RunError, match="link counters stopped: wire ends are gone: w0a"):
        for _ in range(1000):
            sampler.series()
            time.sleep(0.01)
    with pytest.raises(RunError, match="wire ends are gone"):
        sampler.close()
    assert list(load_links_csv(tmp_path / "links.csv")[UP].bytes) == [1000, 2000]


def test_counters_missing_from_the_start_are_reported_at_once(tmp_path: Path) -> None:
    def source() -> dict[Direction, DirectionCounters]:
        raise RunError("wire ends are gone: w0a")

    with pytest.raises(RunError, match="wire ends are gone"):
        Sampler(source, tmp_path / "links.csv").start()
