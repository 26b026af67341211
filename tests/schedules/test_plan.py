"""The plan as JSON: what is written is read again, keeps to the schema, and odd ones are told."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.bounds import Bound
from schedules.capabilities import Accelerator, Capabilities
from schedules.constraints import Constraints
from schedules.plan import (
    Plan,
    PlannedCapabilities,
    PlannedRound,
    PlannedTree,
    Predicted,
    RingReference,
)
from schedules.schema import SCHEMA_FILE, json_schema
from topologies.errors import UserError

CODES = st.sampled_from(["AMS", "BAR", "FRA", "NYC", "X1"])
AMOUNTS = st.floats(0, 1e12)
SHARES = st.floats(1e-6, 1)


def several(elements: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(elements, min_size=least, max_size=3).map(tuple)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


trees = st.builds(
    PlannedTree,
    kind=st.sampled_from(["multicast", "aggregation"]),
    clique=st.just(0),
    root=CODES,
    at_island=st.booleans(),
    members=several(CODES),
    hops=several(st.tuples(CODES, CODES)),
    sums_at=several(CODES),
    share=SHARES,
)
predictions = st.builds(
    Predicted,
    transfer_s=AMOUNTS,
    latency_s=AMOUNTS,
    compute_s=AMOUNTS,
    round_s=AMOUNTS,
    transfer_units=AMOUNTS,
    fractional_units=maybe(AMOUNTS),
    traversals=AMOUNTS,
    pairs=st.integers(0, 10**6),
    groups=st.integers(0, 10**6),
    busiest=st.just("AMS>FRA"),
    load=st.dictionaries(st.sampled_from(["AMS>FRA", "NYC>NYC.island"]), AMOUNTS),
)
rounds = st.builds(
    PlannedRound,
    cliques=several(several(CODES, 2), 1),
    collective=st.sampled_from(["exchange", "ring", "multicast", "aggregation", "innetwork"]),
    trees=several(trees),
    predicted=predictions,
    share=SHARES,
)
capabilities = st.builds(
    Capabilities,
    multicast=st.booleans(),
    aggregation=st.booleans(),
    accelerators=maybe(
        st.dictionaries(
            CODES,
            st.builds(
                Accelerator,
                rate_mbps=st.floats(0.1, 1e6) | st.just(float("inf")),
                fan_in=maybe(st.integers(2, 9)),
            ),
        )
    ),
    max_groups=maybe(st.integers(0, 99)),
    multicast_links=maybe(st.frozensets(st.tuples(CODES, CODES), min_size=1)),
)
plans = st.builds(
    Plan,
    topology=st.text(),
    capabilities=capabilities.map(PlannedCapabilities.of),
    objective=st.sampled_from(["exchange", "fair", "mean", "consensus"]),
    unit=st.text(),
    collective=maybe(st.sampled_from(["exchange", "ring"])),
    message_bytes=st.floats(1, 1e15),
    unit_s=st.floats(1e-9, 1e9),
    latency_counted=st.booleans(),
    constraints=st.builds(
        Constraints,
        min_clique=st.integers(2, 9),
        max_clique=maybe(st.integers(2, 9)),
        max_round_s=maybe(AMOUNTS),
        compute_s=AMOUNTS,
        compute_factor=st.dictionaries(CODES, AMOUNTS),
    ),
    rounds=several(rounds, 1),
    cycle=several(st.just(0), 1),
    value=AMOUNTS,
    cycle_value=AMOUNTS,
    bound=AMOUNTS,
    optimal=st.booleans(),
    gap_pct=st.floats(0, 100),
    stopped_early=st.booleans(),
    solved_by=st.text(),
    bounds=several(
        st.builds(
            Bound,
            name=st.text(),
            seconds=AMOUNTS,
            units=maybe(AMOUNTS),
            source=st.text(),
            limited_by=st.text(),
        )
    ),
    ring=st.builds(
        RingReference,
        order=several(CODES),
        transfer_s=AMOUNTS,
        transfer_units=AMOUNTS,
        latency_s=AMOUNTS,
        round_s=AMOUNTS,
        traversals=AMOUNTS,
        value=AMOUNTS,
    ),
    search_s=AMOUNTS,
)


@given(plans)
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read_again(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan


@given(plans)
@settings(max_examples=8, deadline=None)
def test_what_is_written_keeps_to_the_published_schema(plan: Plan) -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(plan.to_json()), schema, jsonschema.Draft202012Validator)


@given(capabilities)
@settings(max_examples=40, deadline=None)
def test_capabilities_are_the_same_after_a_plan_held_them(offered: Capabilities) -> None:
    read = PlannedCapabilities.of(offered).read()
    assert read == offered
    assert read.accelerators == offered.accelerators


def test_the_published_schema_is_the_one_the_code_has() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == json_schema()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    from schedules.planner import plan
    from topologies.files import load

    written: dict[str, Any] = json.loads(plan(load("three_city"), "multicast").to_json())
    return written


def changed(document: dict[str, Any], **fields: Any) -> str:
    return json.dumps(document | fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"objective": "beauty"}, "objective"),
        ({"message_bytes": "a lot"}, "message_bytes"),
        ({"message_bytes": 0}, "message_bytes"),
        ({"colour": "red"}, "colour"),
        ({"rounds": []}, "rounds"),
        ({"cycle": [7]}, "no round 7"),
        ({"ring": {}}, "ring.order"),
    ],
)
def test_a_wrong_field_is_named_in_one_line(
    document: dict[str, Any], fields: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told) as caught:
        Plan.from_json(changed(document, **fields))
    assert "\n" not in str(caught.value)


def test_a_tree_of_a_clique_that_is_not_there_is_refused(document: dict[str, Any]) -> None:
    planned = json.loads(json.dumps(document["rounds"][0]))
    tree = {"kind": "multicast", "clique": 5, "root": "AMS", "at_island": True, "members": []}
    planned["trees"] = [tree | {"hops": [], "sums_at": [], "share": 1.0}]
    with pytest.raises(UserError, match="no clique 5"):
        Plan.from_json(changed(document, rounds=[planned]))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"rounds": 1}', b"\xff"])
def test_what_is_no_plan_is_told_in_one_line(text: str | bytes) -> None:
    with pytest.raises(UserError, match="plan: ") as caught:
        Plan.from_json(text)
    assert "\n" not in str(caught.value)
