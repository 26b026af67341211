"""The description of a group: read as it was written, and mistakes named with what is right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workloads.collectives.kinds import Choice
from workloads.errors import UsageError
from workloads.innetwork.job import (
    GroupJob,
    MemberPlace,
    Place,
    TreeJob,
    dump_groups,
    groups_for,
    load_groups,
    window_for,
)

GROUP = GroupJob(
    kind="innetwork",
    job=2**64 - 1,
    key=5,
    window=357,
    area_bytes=8904,
    rate_mbps=100.0,
    round_trip_ms=204.36,
    members=(
        MemberPlace(0, "NYC", Place("10.0.0.1", 7100)),
        MemberPlace(2, "LON", Place("10.0.0.2", 7100)),
    ),
    trees=(
        TreeJob(
            number=3,
            leaves=(0, 1),
            children=(1, 0),
            entry=Place("10.2.0.1", 7000),
            root=Place("10.1.0.1", 7000),
            group=Place("239.1.0.1", 7100),
        ),
    ),
)
ASKED = ("innetwork", (0, 2))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(dump_groups([GROUP]))
    assert load_groups(path) == (GROUP,)
    assert groups_for([GROUP], "innetwork", (0, 2)) == (GROUP,)


def test_groups_of_one_clique_are_the_parts_of_its_messages_in_their_order() -> None:
    parts = [replace(GROUP, job=job, share=share) for job, share in ((1, 0.6), (2, 0.4))]
    assert groups_for([parts[0], replace(GROUP, kind="multicast"), parts[1]], *ASKED) == (*parts,)
    with pytest.raises(
        UsageError, match=r"innetwork of ranks \[0, 2\]: their shares add up to 1.2"
    ):
        groups_for([parts[0], parts[0]], *ASKED)


def test_a_process_group_of_some_ranks_takes_the_group_of_these(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(dump_groups([GROUP]))
    choice = Choice("innetwork", path, ranks=(0, 2))
    assert choice.groups((0, 1)) == (GROUP,)
    with pytest.raises(UsageError, match=r"no group for innetwork of ranks \[1, 2\]"):
        replace(choice, ranks=(1, 2)).groups((0, 1))


def test_the_pace_of_an_exchange_is_read_from_the_environment() -> None:
    assert Choice.from_environment({"ATOLL_PACE_MBPS": "12.5"}).pace_mbps == 12.5
    assert Choice.from_environment({"ATOLL_PACE_MBPS": ""}).pace_mbps is None
    for wrong in ("0", "-1", "fast", "nan", "inf"):
        with pytest.raises(UsageError, match=f"ATOLL_PACE_MBPS={wrong}: give Mbit/s above 0"):
            Choice.from_environment({"ATOLL_PACE_MBPS": wrong})


def test_the_window_covers_rate_times_round_trip_and_a_quarter_more() -> None:
    # 100 Mbit/s x 0.2 s / (8 x 9,010 bits) = 277.5 packets; 1.25 x 277.5 = 346.8; and 16
    assert window_for(100.0, 200.0, 8904) == 555 + 16
    assert window_for(1.0, 0.1, 8904) == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "ring"}, "kind is one of multicast, aggregation, innetwork"),
        ({"window": 0}, "window is 1 to"),
        ({"area_bytes": 8905}, "area_bytes"),
        ({"rate_mbps": 0}, "rate_mbps is above 0"),
        ({"members": []}, "at least two members"),
        ({"trees": []}, "give a tree"),
        ({"share": 0}, "share is above 0"),
        ({"colour": "red"}, "unknown field colour"),
    ],
)
def test_a_field_that_is_wrong_is_named(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    row = {**json.loads(dump_groups([GROUP]))["groups"][0], **change}
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"groups": [row]}))
    with pytest.raises(UsageError, match="group 0: ") as failure:
        load_groups(path)
    assert message in str(failure.value)


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    row = json.loads(dump_groups([GROUP]))["groups"][0]
    del row["members"]
    path.write_text(json.dumps({"groups": [row]}))
    with pytest.raises(UsageError, match="group 0 has no field 'members'"):
        load_groups(path)


def test_a_file_that_is_not_there_or_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    with pytest.raises(UsageError, match=r"job\.json: No such file"):
        load_groups(path)
    path.write_text("[1")
    with pytest.raises(UsageError, match=r'job\.json: not a JSON object with a list "groups"'):
        load_groups(path)


def test_a_clique_without_a_group_is_told_which_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"ranks \[0, 1\] in the job: it has innetwork of \[0, 2\]"
    ):
        groups_for([GROUP], "innetwork", (0, 1))


def test_variables_choose_the_collective() -> None:
    assert Choice.from_environment({}) == Choice("exchange", None, False)
    chosen = Choice.from_environment(
        {"ATOLL_COLLECTIVE": "multicast", "ATOLL_JOB": "a.json", "ATOLL_ACCUMULATION": "int64"}
    )
    assert chosen == Choice("multicast", Path("a.json"), True)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ATOLL_COLLECTIVE": "ring2"}, "one of exchange, multicast, aggregation, innetwork"),
        ({"ATOLL_COLLECTIVE": "innetwork"}, "name the job's file in ATOLL_JOB"),
        ({"ATOLL_ACCUMULATION": "int16"}, "int32 or int64"),
    ],
)
def test_a_wrong_variable_is_told(environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Choice.from_environment(environ)
