from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.measure.series import Counts, Series
from testbed.report.frames import LEVELS, level, width
from testbed.report.page import json_for_script, strip_path
from testbed.report.traffic import edges_s, extent_s, rates_mbps, utilization_pct
from testbed.report.view import view_run

from .records import write_record


def series(*samples: tuple[float, int]) -> Series:
    made = Series()
    for time, count in samples:
        made.append(time, Counts(count, 0, 0))
    return made


def test_a_rate_is_the_slope_between_samples() -> None:
    # 2,500,000 bytes in a second are 20 Mbit/s, half of that time lies in each stretch.
    counted = series((10.0, 0), (11.0, 2_500_000), (12.0, 2_500_000))
    assert rates_mbps(counted, np.array([9.5, 10.5, 11.5, 12.5])).tolist() == [10.0, 10.0, 0.0]


def test_a_direction_without_samples_carried_nothing() -> None:
    assert rates_mbps(Series(), np.array([0.0, 1.0, 2.0])).tolist() == [0.0, 0.0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(min_value=0, max_value=10**9), min_size=1, max_size=20),
    st.integers(min_value=1, max_value=50),
)
def test_no_stretch_loses_or_invents_bytes(steps: list[int], stretches: int) -> None:
    totals = [0, *np.cumsum(steps).tolist()]
    counted = series(*((float(t), total) for t, total in enumerate(totals)))
    edges = np.linspace(-1, len(totals) + 1, stretches + 1)
    carried = rates_mbps(counted, edges) * np.diff(edges) * 1e6 / 8
    assert carried.sum() == pytest.approx(totals[-1], rel=1e-9, abs=1e-3)


def test_stretches_are_no_shorter_than_samples_are_apart() -> None:
    assert len(edges_s(0, 1, most=240)) == 6
    assert len(edges_s(0, 1000, most=240)) == 241


def test_the_extent_without_rounds_is_that_of_the_counters() -> None:
    links = {"a": series((3.0, 0), (5.0, 1)), "b": series((1.0, 0))}
    assert extent_s(links, []) == (1.0, 5.0)  # type: ignore[arg-type]
    assert extent_s({}, []) == (0.0, 0.0)


def test_utilization_is_bytes_over_what_the_rate_allows() -> None:
    assert utilization_pct(12_500_000, 2.0, 100.0) == 50.0
    assert utilization_pct(12_500_000, 0.0, 100.0) == 0.0
    assert utilization_pct(10**9, 1.0, 1.0) == 100.0


def test_colours_and_widths_follow_utilization() -> None:
    assert [level(pct) for pct in (0, 0.4, 1, 12.4, 12.5, 99, 100)] == [0, 0, 1, 1, 2, 8, LEVELS]
    assert width(0) == 0.0
    assert width(100) == 6.5
    assert width(20) == 2.3  # 1.2 and a fifth of 5.3


def test_frames_of_rounds_and_of_time(tmp_path: Path) -> None:
    frames = view_run(write_record(tmp_path / "run")).frames
    assert [frame.label for frame in frames.rounds[:2]] == [
        "Round 1: exchange",
        "Round 2: exchange",
    ]
    # Round 3: AMS and NYC exchange 5 MB each way by LON, at 100 Mbit/s. From the first of the
    # four members ready to the last one's result it is 2.3 s: 40 Mbit of 230 are 17 %.
    used = dict(zip(frames.directions, frames.rounds[2].utilization_pct, strict=True))
    assert used["AMS.island>AMS"] == used["LON>NYC"] == 17
    assert used["FRA>SIN"] == used["BAR.island>BAR"] == 0
    assert len(frames.stretches) == 240
    assert frames.stretch_s == pytest.approx(60 / 240)
    # At 26 s, half of round 3's traffic has passed within three seconds: 13.3 Mbit/s of 100.
    at_26_s = frames.stretches[104]
    assert at_26_s.start_s == pytest.approx(26.0)
    assert at_26_s.round_place == 2
    assert at_26_s.utilization_pct[frames.directions.index("LON>NYC")] == 13


def test_with_traffic_beside_it_a_round_is_as_long_as_it_takes(tmp_path: Path) -> None:
    record = write_record(tmp_path / "run")
    (record / "traffic.jsonl").write_text("{}\n")
    frames = view_run(record).frames
    # Round 3 takes ten seconds: 40 Mbit of 1,000 are 4 %.
    used = dict(zip(frames.directions, frames.rounds[2].utilization_pct, strict=True))
    assert used["AMS.island>AMS"] == used["LON>NYC"] == 4
    assert frames.whole_rounds


def test_the_strip_is_an_area_as_high_as_the_fullest_stretch(tmp_path: Path) -> None:
    path = strip_path(view_run(write_record(tmp_path / "run")).frames)
    assert path.startswith("M0 40L0 40.0L1 40.0")
    assert "L20 0.0" not in path.split("L20")[0]
    assert " 0.0L" in path
    assert path.endswith("L240 40z")


def test_data_in_a_page_cannot_end_its_script_element() -> None:
    assert "</" not in json_for_script({"name": "</script><b>&"})
