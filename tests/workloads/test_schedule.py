"""The schedule file: what it says, and what is told of one that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workloads.collectives.roster import Roster
from workloads.errors import UsageError
from workloads.training.rotation import combined
from workloads.training.schedule import Schedule, ScheduledClique, load_schedule

SITES = ("AMS", "FRA", "LON", "NYC")
ROSTER = Roster(4, SITES)


def document() -> dict[str, Any]:
    return {
        "format": 1,
        "sites": list(SITES),
        "rounds": [
            {
                "cliques": [
                    {"ranks": [3, 0], "kind": "ring"},
                    {"ranks": [1, 2], "kind": "exchange"},
                ],
                "predicted_s": 1.5,
            },
            {"cliques": [{"ranks": [0, 1, 2], "kind": "multicast"}]},
        ],
        "cycle": [0, 1, 1],
        "exact_mean": False,
    }


def load(folder: Path, written: Any) -> Schedule:
    path = folder / "schedule.json"
    path.write_text(written if isinstance(written, str) else json.dumps(written))
    return load_schedule(path, ROSTER)


def test_rounds_follow_the_cycle_for_ever(tmp_path: Path) -> None:
    schedule = load(tmp_path, document())
    assert [schedule.plan_round(number) for number in range(7)] == [0, 1, 1, 0, 1, 1, 0]


def test_a_worker_is_in_one_clique_or_idle(tmp_path: Path) -> None:
    first, second = load(tmp_path, document()).rounds
    assert first.clique_of(0) == first.clique_of(3) == ScheduledClique("ring", (3, 0))
    assert second.clique_of(3) is None
    assert (first.predicted_s, second.predicted_s) == (1.5, None)
    assert load(tmp_path, document()).longest_s == 1.5
    assert Schedule.of_all("ring", 3).longest_s == 0


def test_cliques_are_opened_once_and_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    assert load(tmp_path, document()).distinct == (
        ScheduledClique("ring", (3, 0)),
        ScheduledClique("exchange", (1, 2)),
        ScheduledClique("multicast", (0, 1, 2)),
        ScheduledClique("exchange", (0, 1, 2, 3)),
    )


def test_a_clique_with_two_paces_is_one_clique(tmp_path: Path) -> None:
    paced = document()
    paced["rounds"][1]["cliques"] = [{"ranks": [1, 2], "kind": "exchange", "pace_mbps": 5.5}]
    schedule = load(tmp_path, paced)
    assert len(schedule.distinct) == 3
    assert schedule.rounds[1].cliques[0].pace_mbps == 5.5


def test_the_last_mean_takes_the_plans_own_clique_of_everyone(tmp_path: Path) -> None:
    whole = document()
    whole["rounds"][1]["cliques"][0] = {"ranks": [2, 0, 3, 1], "kind": "ring"}
    schedule = load(tmp_path, whole)
    assert schedule.final == ScheduledClique("ring", (2, 0, 3, 1))
    assert [schedule.meets_all(number) for number in range(3)] == [False, True, True]


def test_the_last_mean_is_taken_as_asked_for(tmp_path: Path) -> None:
    asked = {**document(), "final": {"ranks": [3, 1, 0, 2], "kind": "ring"}}
    schedule = load(tmp_path, asked)
    assert schedule.final == schedule.distinct[-1] == ScheduledClique("ring", (3, 1, 0, 2))
    assert schedule.words != load(tmp_path, document()).words


def test_without_a_file_all_meet_in_every_round_and_each_sends_to_the_rank_below() -> None:
    schedule = Schedule.of_all("ring", 3)
    assert schedule.distinct == (ScheduledClique("ring", (2, 1, 0)),)
    assert schedule.meets_all(17)
    assert not schedule.ends_in_mean


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what puts a value into a document at a path such as "rounds.0.cliques"."""

    def apply(whole: Any) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in steps:
            whole = whole[step]
        whole[last] = value

    return apply


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (change("format", 2), "format: 2; this version reads 1"),
        (change("sites", ["AMS", "FRA"]), "sites: 2 for 4 workers; give one a rank"),
        (change("sites.1", "NYC"), "sites[1]: NYC, but rank 1 is FRA"),
        (
            change("final", {"ranks": [0, 1, 2], "kind": "exchange"}),
            "final.ranks: [0, 1, 2]; give all 4 ranks",
        ),
        (change("cycle", []), "cycle: empty; give the numbers of rounds"),
        (change("cycle", [0, 2]), "cycle[1]: 2; give 0 to 1"),
        (change("cycle", [True]), "cycle[0]: True; give 0 to 1"),
        (change("exact_mean", "no"), "the file: exact_mean is 'no'; give true or false"),
        (change("rounds", {}), "the file: rounds is {}; give a list"),
        (change("rounds.0", 7), "rounds[0]: 7; give an object"),
        (change("rounds.0", {}), 'rounds[0]: has no field "cliques"'),
        (change("rounds.1.predicted_s", "1"), "rounds[1].predicted_s: '1'; give seconds or null"),
        (
            change("rounds.0.cliques.1.pace_mbps", 0),
            "rounds[0].cliques[1].pace_mbps: 0; give a number above 0, or null",
        ),
        (change("rounds.0.cliques.0.ranks", [1, 0]), "rounds[0]: rank 1 is in two cliques"),
        (
            change("rounds.0.cliques.0.kind", "gossip"),
            "rounds[0].cliques[0].kind: gossip; one of ring, exchange, multicast",
        ),
        (
            change("rounds.0.cliques.1.ranks", [2, 1]),
            "rounds[0].cliques[1].ranks: [2, 1]; give those of exchange in ascending order",
        ),
        (
            change("rounds.0.cliques.1.ranks", [1, 4]),
            "rounds[0].cliques[1].ranks: [1, 4]; give ranks from 0 to 3",
        ),
        (
            change("rounds.0.cliques.1.ranks", [1]),
            "rounds[0].cliques[1].ranks: [1]; give two distinct ranks or more",
        ),
    ],
)
def test_a_wrong_field_is_named_with_what_is_right(
    changed: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    wrong = document()
    changed(wrong)
    with pytest.raises(UsageError) as failure:
        load(tmp_path, wrong)
    assert str(failure.value).startswith(f"{tmp_path}/schedule.json: {message}")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"', "null"])
def test_what_is_no_schedule_at_all_is_told_in_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"schedule\.json: "):
        load(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.json: No such file"):
        load_schedule(tmp_path / "nowhere.json", ROSTER)


def test_counters_of_several_cliques_add_up_and_rates_and_times_are_the_furthest() -> None:
    one = {"sent": 3, "rate_kbps": 10, "least_rate_kbps": 5, "failed_over": 1}
    two = {"sent": 4, "rate_kbps": 30, "least_rate_kbps": 2, "failed_over": 1, "calls": 6}
    assert combined([one, two, {}]) == {
        "sent": 7,
        "rate_kbps": 30,
        "least_rate_kbps": 2,
        "failed_over": 1,
        "calls": 6,
    }
