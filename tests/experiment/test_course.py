"""What happens in the course of a training: targets, faults, memory."""

from __future__ import annotations

import json
import math

import pytest

from testbed.experiment.conduct import without_success
from testbed.experiment.faults import (
    changed_fields,
    directions_of,
    happenings,
    lasts_s,
    missed_words,
    reroutes,
)
from testbed.experiment.memory import batch_mb, check_memory, needed_mb
from testbed.experiment.model import Fault, LinkChange
from testbed.experiment.target import is_reached, last_round, not_reached, stop_file
from topologies.errors import MachineError
from topologies.model import Direction

# --- the target loss ------------------------------------------------------------------------------


def test_a_target_is_reached_by_any_round_at_it_or_below() -> None:
    rounds = [{"held_out_loss": loss} for loss in (None, 3.0, 2.0, 2.5)]
    assert is_reached(rounds, 2.0)
    assert not is_reached(rounds, 1.9)
    assert not is_reached([], 1.9)


def test_the_last_round_is_far_enough_for_the_word_to_arrive() -> None:
    # rounds of 0.5 s: two seconds are four rounds, and one more that is under way
    assert last_round(7, [{"round_s": 0.5}] * 3, arrival_s=2.0) == 7 + 5
    assert last_round(7, [{"round_s": 60.0}], arrival_s=2.0) == 7 + 2


def test_workers_are_told_the_round_after_which_to_end() -> None:
    assert json.loads(stop_file(12)) == {"after_round": 12}


def test_a_target_that_was_missed_is_told_in_one_line() -> None:
    summary = {"held_out_loss": {"first": 4.0, "last": 2.71828}, "rounds": [{}, {}]}
    assert not_reached(2.0, summary, "nats a character") == (
        "the target loss of 2 was not reached in 2 rounds: the held-out loss is 2.718 nats a "
        "character; give more rounds or a higher target"
    )


# --- faults ---------------------------------------------------------------------------------------

DOWN = Fault(5.0, link="NYC-LON", down_s=3.0)
LOSSY = Fault(2.0, link="LON-AMS", change=LinkChange(loss_pct=1.0, rate_mbps=5000.0))
DEAD = Fault(6.0, accelerator="NYC", restart_after_s=0.5)


def test_faults_begin_and_end_in_order_of_time() -> None:
    found = [(one.at_s, one.fault, one.begins) for one in happenings([DOWN, LOSSY, DEAD])]
    assert found == [
        (2.0, LOSSY, True),
        (5.0, DOWN, True),
        (6.0, DEAD, True),
        (6.5, DEAD, False),
        (8.0, DOWN, False),
    ]


def test_a_fault_without_an_end_lasts_for_the_training() -> None:
    assert lasts_s(LOSSY) == math.inf
    assert (lasts_s(DOWN), lasts_s(DEAD)) == (3.0, 0.5)


def test_rates_of_a_change_are_scaled_and_times_are_not() -> None:
    change = LinkChange(rate_mbps=5000.0, one_way_delay_ms=30.0)
    assert changed_fields(change, 0.01) == {"rate_mbps": 50.0, "one_way_delay_ms": 30.0}


def test_bytes_follow_other_ways_only_where_something_was_gone() -> None:
    assert reroutes([LOSSY]) == ""
    assert reroutes([DOWN, LOSSY, DEAD, DOWN]) == (
        "link NYC-LON was down; accelerator NYC was dead"
    )


def test_a_dead_accelerator_reroutes_nothing_that_does_not_need_it() -> None:
    assert reroutes([DOWN, DEAD], sums_in_network=False) == "link NYC-LON was down"


def test_a_fault_that_came_too_late_is_told() -> None:
    assert missed_words([DEAD], "ring-1") == [
        "The fault at 6 s (NYC) never came: ring-1 had ended."
    ]


def test_a_link_has_two_directions() -> None:
    assert directions_of("NYC-LON") == (Direction("NYC", "LON"), Direction("LON", "NYC"))


# --- memory ---------------------------------------------------------------------------------------


def test_nine_default_workers_need_less_than_four_gigabytes() -> None:
    # nine times 370 MB and eight messages of 3.24 MB, and 30 MB a site
    assert needed_mb(9, 3_243_520) == pytest.approx(9 * (370 + 8 * 3.24352 + 30))
    check_memory(9, 3_243_520, available_mib=4096)


def test_a_large_batch_needs_memory_too() -> None:
    assert batch_mb("characters", None, None) == batch_mb("characters", None, 8) == 0
    assert batch_mb("characters", None, 256) == pytest.approx(2.6 * 248)
    assert batch_mb("digits", None, 1008) == pytest.approx(0.06 * 1000)
    with pytest.raises(MachineError, match="take a smaller topology or batch"):
        check_memory(3, 153_128, 20_000, step_mb=batch_mb("characters", "small", 100_000))


def test_too_little_memory_is_one_line_with_both_figures() -> None:
    with pytest.raises(MachineError) as caught:
        check_memory(9, 3_243_520, available_mib=2000)
    assert str(caught.value) == (
        "9 workers with messages of 3.2 MB need about 3.8 GB of memory, and 2.1 GB are available: "
        "take a smaller topology or message"
    )


def test_a_variant_has_failed_when_none_of_its_repetitions_did_what_was_asked() -> None:
    trainings = [("ring", True), ("exchange", False), ("ring", False), ("exchange", False)]
    assert without_success(trainings) == {"exchange"}
    assert without_success([("ring", False), ("ring", True)]) == set()
