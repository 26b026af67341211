"""What a training came to, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from schedules.plan import PlannedRound, Predicted
from testbed.experiment.closing import clique_words, closing_lines
from testbed.experiment.job import Job
from testbed.experiment.schedule import Schedule

NOTHING = Predicted(0.0, 0.0, 0.0, 0.0, 1.0, None, 0.0, 0, 0, "A>B", {})


def summary(**fields: Any) -> dict[str, Any]:
    return {
        "message_bytes": 3_000_000,
        "held_out_loss": {"first": 4.0, "last": 2.5},
        "loss_unit": "nats a character",
        "peak_memory_bytes": {"A": 2**20 * 300},
        "cycle": {
            "rounds": 1,
            "median_s": 2.2,
            "predicted_s": 2.0,
            "error_pct": 10.0,
            "exact_mean": True,
        },
        "time_to_target": None,
        **fields,
    }


def lines(kind: str, cliques: tuple[tuple[str, ...], ...], **fields: Any) -> list[str]:
    planned = PlannedRound(cliques, kind, (), NOTHING, 1.0)  # type: ignore[arg-type]
    schedule = Schedule((planned,), (0,), ("C", "B", "A"), {})
    job: Any = SimpleNamespace(
        schedule=schedule, rank_order=schedule.rank_order, wan=SimpleNamespace(bring_up_s=3.0)
    )
    return closing_lines(cast(Job, job), summary(**fields))


def test_cliques_are_told_in_the_order_of_a_ring_or_as_sets() -> None:
    assert clique_words([("A", "B", "C")], "ring") == "ring {A>B>C}"
    assert clique_words([("A", "B"), ("C", "D")], "exchange") == "exchange {A,B} {C,D}"
    many = clique_words([(f"A{i}", f"B{i}") for i in range(9)], "exchange")
    assert many.endswith(" and 5 more")


def test_a_ring_of_all_says_what_each_hop_carries() -> None:
    said = lines("ring", (("A", "B", "C"),))
    assert said[0] == (
        "Ring A>B>C: each hop carries 2(N-1)/N x M = 4.000 MB of payload a round (N = 3, "
        "M = 3.000 MB)."
    )
    assert "predicted 2.00 s, +10.0 %" in said[1]
    assert "2.500 after the last (nats a character); a worker took at most 300 MiB" in said[-1]


def test_other_schedules_have_no_hops() -> None:
    said = lines("exchange", (("A", "B"),), time_to_target={"target_loss": 2.0, "seconds": 9.0})
    assert said[0].startswith("Communication of an exact mean of all: 2.20 s")
    assert said[1] == "Target loss 2 reached after 9.0 s."


def test_a_replay_has_no_loss_to_tell() -> None:
    said = lines("exchange", (("A", "B"),), held_out_loss={"first": None, "last": None})
    assert said[-1] == "A worker took at most 300 MiB. Bring-up 3.0 s."
