"""Plans of a benchmark on their way from the command into the run."""

import json

from schedules.capabilities import COLLECTIVES
from testbed.benching.cliques import from_data, to_data
from testbed.benching.drawing import draw, plan_on_paper
from testbed.innetwork.layout import DrawnWan
from testbed.innetwork.limits import alike
from topologies.files import load

TOPOLOGY = load("three_city").scaled(0.01)


def test_a_run_finds_the_very_plans_that_were_made_before_it() -> None:
    for limits in ({}, {"rate_mbps": 40.0, "fan_in": 2}):
        made = plan_on_paper(TOPOLOGY, COLLECTIVES, alike(TOPOLOGY.codes, limits))
        assert from_data(json.loads(json.dumps(to_data(made.planned)))) == made.planned


def test_a_run_lays_out_what_was_laid_out_on_paper() -> None:
    limits = alike(TOPOLOGY.codes, {})
    made = plan_on_paper(TOPOLOGY, COLLECTIVES, limits)
    again = draw(DrawnWan.of(TOPOLOGY, limits), from_data(to_data(made.planned)), limits)
    assert again.rank_order == made.rank_order
    for kind, laid in made.layouts.items():
        assert [one.trees for one in again.layouts[kind]] == [one.trees for one in laid]
    assert list(again.layouts) == list(made.layouts)
