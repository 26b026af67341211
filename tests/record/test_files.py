"""Files that stay readable, and names of runs."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.record import new_run_id
from testbed.record.files import (
    finite,
    json_line,
    parse_json_lines,
    point_symlink,
    read_json,
    read_json_lines,
    write_json,
)
from testbed.record.identity import format_run_id
from topologies.errors import RunError

_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(-1e6, 1e6)
_ROWS = st.lists(st.dictionaries(st.text(max_size=4), _VALUES, max_size=3), max_size=5)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(_ROWS)
def test_rows_come_back_as_they_were_written(rows: list[dict[str, Any]]) -> None:
    assert parse_json_lines("".join(map(json_line, rows)), "x.jsonl") == rows


@given(_ROWS, st.data())
def test_lines_cut_anywhere_give_the_whole_rows_before_the_cut(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    text = "".join(map(json_line, rows))
    cut = text[: data.draw(st.integers(0, len(text)))]
    read = parse_json_lines(cut, "x.jsonl")
    assert read == rows[: len(read)]
    assert len(read) in (cut.count("\n"), cut.count("\n") + 1)  # one that lacks only its line end


def test_a_bad_line_in_the_middle_is_told_by_file_and_line() -> None:
    with pytest.raises(RunError, match=r"^runs/x/events.jsonl:2: "):
        parse_json_lines('{"a":1}\n{"a":\n{"a":3}\n', "runs/x/events.jsonl")


def test_a_line_that_is_no_object_is_refused() -> None:
    with pytest.raises(RunError, match=r"x.jsonl:1: not a JSON object"):
        parse_json_lines("[1]\n", "x.jsonl")


def test_a_file_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    assert read_json_lines(tmp_path / "none.jsonl") == []
    assert read_json(tmp_path / "none.json") is None


def test_a_loss_that_diverged_becomes_null_and_does_not_break_the_record(tmp_path: Path) -> None:
    write_json(
        tmp_path / "x.json", {"loss": math.nan, "all": [1.5, math.inf], "in": {"a": -math.inf}}
    )
    assert read_json(tmp_path / "x.json") == {"loss": None, "all": [1.5, None], "in": {"a": None}}
    assert json_line({"loss": math.nan}) == '{"loss":null}\n'


@given(_ROWS)
def test_finite_values_stay_as_they_are(rows: list[dict[str, Any]]) -> None:
    assert finite(rows) == rows


def test_a_reader_never_sees_half_of_a_json_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"state": "old"})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {"state": "new"})
    assert read_json(path) == {"state": "old"}
    assert _names(tmp_path) == ["x.json"]


def test_a_damaged_json_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a"')
    with pytest.raises(RunError, match=r"x.json: "):
        read_json(tmp_path / "x.json")


def test_a_symlink_is_moved_to_its_new_target(tmp_path: Path) -> None:
    for name in ("one", "two"):
        point_symlink(tmp_path / "latest", name)
    assert (tmp_path / "latest").readlink() == Path("two")
    assert _names(tmp_path) == ["latest"]


def test_a_symlink_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    with pytest.raises(RunError, match="latest cannot point to one"):
        point_symlink(tmp_path / "latest", "one")
    assert _names(tmp_path) == ["latest"]


def test_a_run_is_named_by_utc_time_topology_and_digits() -> None:
    moment = datetime(2025, 3, 1, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    assert format_run_id(moment, "nine_city", "3fa2") == "20250228T230203Z-nine_city-3fa2"


def test_a_topology_name_cannot_lead_out_of_the_folder() -> None:
    moment = datetime(2025, 3, 1, tzinfo=timezone.utc)
    assert format_run_id(moment, "../a b", "3fa2") == "20250301T000000Z-_a_b-3fa2"


def test_runs_of_one_second_have_different_names(tmp_path: Path) -> None:
    # Of 200 names with four random digits some would be equal in every fourth attempt or so.
    names = set()
    for _ in range(200):
        name = new_run_id("x", tmp_path)
        (tmp_path / name).mkdir()
        names.add(name)
    assert len(names) == 200
