"""From plans to the rounds that workers are told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schedules.capabilities import Capabilities
from schedules.cost import FEWEST_LINKS, LEAST_DELAY, cost_of_round
from schedules.plan import PlannedRound, Predicted
from schedules.planner import default_watch, plan_problem
from testbed.experiment import schedule as schedules
from testbed.experiment.model import Accelerators, PlanChoice, RoundChoice, Variant
from testbed.experiment.planning import problem_of, schedule_of
from testbed.experiment.rounds import as_run
from testbed.experiment.schedule import Schedule, clique_ranks, worker_file
from testbed.experiment.trees import groups_of, lay_out_groups
from testbed.innetwork.layout import DrawnWan, Numbering
from topologies.errors import UserError
from topologies.files import load
from topologies.model import Access, DirectionSpec, Link, Site, Topology
from workloads.collectives.roster import Roster
from workloads.training.schedule import load_schedule

NINE = load("nine_city").scaled(0.01)
MESSAGE_BYTES = 1_250_000  # 0.1 s at 100 Mbit/s
NOTHING = Predicted(0.0, 0.0, 0.0, 0.0, 1.0, None, 0.0, 0, 0, "A>B", {})


def a_round(*cliques: tuple[str, ...], kind: str = "exchange") -> PlannedRound:
    return PlannedRound(cliques, kind, (), NOTHING, 1.0)  # type: ignore[arg-type]


def schedule(*rounds: PlannedRound, order: tuple[str, ...] = ("A", "B", "C", "D")) -> Schedule:
    return Schedule(rounds, tuple(range(len(rounds))), order, {})


PAIRS = (a_round(("A", "B"), ("C", "D")), a_round(("A", "C"), ("B", "D")))


def test_two_rounds_of_pairs_bring_four_islands_to_their_mean() -> None:
    assert schedule(*PAIRS).exact_mean
    assert not schedule(PAIRS[0]).exact_mean
    assert not schedule(PAIRS[0], PAIRS[0]).exact_mean


def test_one_clique_of_all_is_the_mean_at_once() -> None:
    assert schedule(a_round(("A", "B", "C", "D"))).exact_mean
    assert not schedule(a_round(("A", "B", "C"))).exact_mean  # D is left out


def test_rounds_repeat_in_the_order_of_the_cycle() -> None:
    repeated = replace(schedule(*PAIRS), cycle=(0, 1, 1))
    assert [repeated.plan_round(number) for number in range(7)] == [0, 1, 1, 0, 1, 1, 0]


def test_ranks_of_a_ring_stand_as_data_flow_and_others_ascend() -> None:
    order = ("A", "B", "C", "D")
    assert clique_ranks("ring", ("C", "A", "B"), order) == [2, 0, 1]
    assert clique_ranks("exchange", ("C", "A", "B"), order) == [0, 1, 2]


def test_workers_read_what_is_written_for_them(tmp_path: Path) -> None:
    rounds = (a_round(("C", "A", "B"), kind="ring"), a_round(("A", "D"), ("B", "C")))
    written = replace(schedule(*rounds), cycle=(1, 0))
    file = tmp_path / "schedule.json"
    file.write_text(worker_file(written, [1.5, 0.5], [None, 7.5]))
    read = load_schedule(file, Roster(4, ("A", "B", "C", "D")))
    assert [[(c.kind, c.ranks) for c in one.cliques] for one in read.rounds] == [
        [("ring", (2, 0, 1))],
        [("exchange", (0, 3)), ("exchange", (1, 2))],
    ]
    assert [[c.pace_mbps for c in one.cliques] for one in read.rounds] == [[None], [7.5, 7.5]]
    assert read.cycle == (1, 0)


def test_where_no_round_is_one_clique_the_best_ring_takes_the_last_mean(tmp_path: Path) -> None:
    roster = Roster(4, ("A", "B", "C", "D"))

    def final_of(*rounds: PlannedRound) -> tuple[str, tuple[int, ...]]:
        file = tmp_path / "schedule.json"
        file.write_text(worker_file(schedule(*rounds), [1.0] * len(rounds), [None] * len(rounds)))
        final = load_schedule(file, roster).final
        return final.kind, final.ranks

    assert final_of(*PAIRS) == ("ring", (3, 2, 1, 0))
    assert final_of(PAIRS[0], a_round(("A", "B", "C", "D"))) == ("exchange", (0, 1, 2, 3))


def test_a_schedule_survives_its_way_into_a_run() -> None:
    made = schedule_of(RING, Accelerators(), NINE, MESSAGE_BYTES)
    assert schedules.from_data(json.loads(json.dumps(schedules.to_data(made)))) == made


# --- plans ----------------------------------------------------------------------------------------

RING = Variant(collective="ring", plan=PlanChoice(full_clique=True))


def given(*cliques: tuple[str, ...], **fields: str) -> Variant:
    return Variant(plan=PlanChoice(rounds=(RoundChoice(cliques),)), **fields)  # type: ignore[arg-type]


def test_the_ring_of_all_is_the_best_ring_and_ranks_run_against_it() -> None:
    made = schedule_of(RING, Accelerators(), NINE, MESSAGE_BYTES)
    ring = ("AMS", "FRA", "SIN", "SEO", "TYO", "LAX", "BAR", "NYC", "LON")
    assert made.rounds[0].cliques == (ring,)
    assert made.rank_order == tuple(reversed(ring))
    # 16/9 of 0.1 s
    assert made.rounds[0].predicted.transfer_s == pytest.approx(0.1 * 16 / 9)


@pytest.mark.parametrize("kind", ["exchange", "multicast", "aggregation", "innetwork"])
def test_a_round_that_is_given_costs_what_the_cost_model_says(kind: str) -> None:
    cliques = (("LON", "NYC", "AMS"), ("SEO", "TYO"))
    variant = given(*cliques, capability="multicast+aggregation", collective=kind)
    made = schedule_of(variant, Accelerators(), NINE, MESSAGE_BYTES).rounds[0]
    offered = Capabilities.parse("multicast+aggregation")
    costs = [
        cost_of_round(NINE, cliques, kind, offered, style) for style in (FEWEST_LINKS, LEAST_DELAY)
    ]
    seconds = min(0.1 * cost.transfer_units + 1e-9 * cost.latency_ns for cost in costs)
    assert made.predicted.round_s == pytest.approx(seconds)
    assert made.collective == kind


def test_the_quickest_permitted_kind_is_taken_where_none_is_named() -> None:
    offers = given(NINE.codes, capability="multicast+aggregation")
    made = schedule_of(offers, Accelerators(), NINE, MESSAGE_BYTES)
    assert made.kinds == ("innetwork",)


def test_a_clique_that_nothing_can_sum_is_refused() -> None:
    variant = given(NINE.codes, capability="multicast+aggregation", collective="innetwork")
    with pytest.raises(UserError, match="no accelerator or link can do innetwork"):
        schedule_of(variant, Accelerators(fan_in=2, sites=("SEO",)), NINE, MESSAGE_BYTES)


def test_a_plan_from_a_file_is_run_as_it_is(tmp_path: Path) -> None:
    from schedules.planner import plan

    three = load("three_city")
    file = tmp_path / "plan.json"
    found = plan(three, "multicast+aggregation", objective="mean", collective="innetwork")
    file.write_text(found.to_json())
    variant = Variant(capability="multicast+aggregation", plan=PlanChoice(file=str(file)))
    made = schedule_of(variant, Accelerators(), three.scaled(0.01), MESSAGE_BYTES)
    assert [one.cliques for one in made.rounds] == [one.cliques for one in found.rounds]
    assert made.cycle == found.cycle


# --- groups of trees ------------------------------------------------------------------------------


def test_a_clique_of_several_rounds_is_one_group_paced_for_the_fullest() -> None:
    three = load("three_city").scaled(0.01)
    variant = Variant(
        capability="multicast+aggregation",
        plan=PlanChoice(full_clique=True),
        collective="innetwork",
    )
    (once,) = schedule_of(variant, Accelerators(), three, MESSAGE_BYTES).rounds
    fuller = replace(once, predicted=replace(once.predicted, transfer_units=3.0))
    (group,) = groups_of([once, fuller, once])
    assert (group.kind, group.members) == ("innetwork", ("AMS", "FRA", "LON"))
    assert group.transfer_units == 3.0
    assert group.trees == once.trees


def test_kinds_over_tcp_have_no_groups() -> None:
    assert groups_of([*PAIRS, a_round(("A", "B", "C"), kind="ring")]) == []


# Four cities in a square, with fast access ports: a tree has three of the four links, so that one
# loads each of its links with a message, and the four of them in turn with three quarters.
CODES = ("A", "B", "C", "D")
SIDE = DirectionSpec(100.0, 5.0)
SQUARE = Topology(
    "square",
    tuple(Site(code, code, 0.0, 0.0) for code in CODES),
    tuple(Link(a, b, SIDE, SIDE) for a, b in ("AB", "AD", "BC", "CD")),
    {code: Access(1000.0) for code in CODES},
    "hand",
    "none",
)
SPLIT = Variant(
    capability="multicast+aggregation",
    collective="innetwork",
    plan=PlanChoice(objective="exchange", full_clique=True),
)


def test_a_plan_that_splits_messages_over_trees_runs_part_by_part_as_planned() -> None:
    made = schedule_of(SPLIT, Accelerators(), SQUARE, MESSAGE_BYTES)
    (run,) = made.rounds
    assert made.written["unsplit_rounds"] == []
    assert run.predicted.transfer_units == pytest.approx(0.75)
    sides = [load for way, load in run.predicted.load.items() if "." not in way]
    assert sides == pytest.approx([0.75] * 8)
    groups = groups_of(made.rounds)
    assert [group.share for group in groups] == pytest.approx([0.25] * 4)
    assert [len(group.trees) for group in groups] == [2] * 4


def test_parts_are_paced_at_their_shares_of_the_pace_of_the_clique() -> None:
    made = schedule_of(SPLIT, Accelerators(), SQUARE, MESSAGE_BYTES)
    wan = DrawnWan.of(SQUARE, CODES)
    groups = groups_of(made.rounds)
    laid = [one.group for one in lay_out_groups(groups, wan, made.rank_order, Numbering())]
    assert [group.share for group in laid] == pytest.approx([0.25] * 4)
    assert [group.rate_mbps for group in laid] == pytest.approx([100 / 0.75 / 4] * 4)
    assert len({group.job for group in laid}) == 4
    assert len({group.members[0].place.port for group in laid}) == 4


def test_switches_with_room_for_fewer_trees_than_parts_need_get_whole_ones() -> None:
    problem = problem_of(SPLIT, Accelerators(), SQUARE, MESSAGE_BYTES)
    (planned,) = plan_problem(problem, default_watch(problem)).rounds
    assert len(as_run(problem, planned, 8).trees) == 8
    whole = as_run(problem, planned, 7)
    assert [tree.share for tree in whole.trees] == [1, 1]
    assert whole.predicted.transfer_units == pytest.approx(1)
