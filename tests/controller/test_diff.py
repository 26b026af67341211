"""Differences applied message by message, in any order a switch may choose between barriers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.diff import Change, Phase, phases
from controller.messages import change_message
from controller.rules import Action, Group, Meter, Output, Rule, SwitchState, ToGroup, match
from tests.controller.pipeline import PipelineSwitch, datapath, wire

MATCHES = [match(eth_type=0x0800, ipv4_dst=f"10.0.0.{n}") for n in range(1, 5)]
BUCKETS = st.lists(st.integers(1, 4).map(lambda port: (Output(port),)), max_size=3).map(tuple)
GROUPS = st.dictionaries(st.integers(1, 4), BUCKETS, max_size=4)
METERS = st.dictionaries(st.integers(1, 2), st.integers(1, 3), max_size=2)


@st.composite
def switch_states(draw: st.DrawFn) -> SwitchState:
    groups, meters = draw(GROUPS), draw(METERS)
    actions: list[tuple[Action, ...]] = [(), (Output(1),), (Output(2), Output(3))]
    actions += [(ToGroup(number),) for number in groups]
    meter_ids = [None, *meters]
    rules = [
        Rule(
            draw(st.sampled_from([10, 20])),
            wanted,
            draw(st.sampled_from(actions)),
            draw(st.integers(0, 1)),
            draw(st.sampled_from(meter_ids)),
        )
        for wanted in draw(st.lists(st.sampled_from(MATCHES), unique=True))
    ]
    return SwitchState(
        frozenset(rules),
        frozenset(Group(number, buckets) for number, buckets in groups.items()),
        frozenset(Meter(number, rate, 5) for number, rate in meters.items()),
    )


def _obey(switch: PipelineSwitch, changes: Iterable[Change]) -> None:
    for change in changes:
        switch.handle(wire(change_message(datapath(), change)))


def _holding(state: SwitchState) -> PipelineSwitch:
    switch = PipelineSwitch()
    for phase in phases(SwitchState(), state):
        _obey(switch, phase)
    return switch


def _contents(switch: PipelineSwitch) -> object:
    flows = {key: (mod.cookie, str(mod.instructions)) for key, mod in switch.flows.items()}
    groups = {number: str(group) for number, group in switch.groups.items()}
    return flows, groups, switch.meters


@settings(max_examples=80, deadline=None)
@given(switch_states(), switch_states(), st.randoms(use_true_random=False))
def test_a_difference_leads_to_what_is_wanted_and_is_never_refused(
    installed: SwitchState, wanted: SwitchState, order: object
) -> None:
    switch = _holding(installed)
    for phase in phases(installed, wanted):
        shuffled = list(phase)
        order.shuffle(shuffled)  # type: ignore[attr-defined]
        _obey(switch, shuffled)
    assert _contents(switch) == _contents(_holding(wanted))


@settings(max_examples=50, deadline=None)
@given(switch_states())
def test_nothing_is_sent_when_nothing_differs(state: SwitchState) -> None:
    assert phases(state, state) == ()


@settings(max_examples=60, deadline=None)
@given(switch_states(), switch_states())
def test_a_rule_that_stays_is_there_at_every_moment(
    installed: SwitchState, wanted: SwitchState
) -> None:
    switch = _holding(installed)
    staying = {rule.key for rule in installed.rules} & {rule.key for rule in wanted.rules}
    for change in (change for phase in phases(installed, wanted) for change in phase):
        _obey(switch, [change])
        assert staying <= set(switch.flows)


def _verbs(phase: Phase) -> list[tuple[str, str]]:
    return [(change.verb, type(change.entry).__name__) for change in phase]


def test_a_new_tree_comes_as_group_then_flow() -> None:
    group = Group(1, ((Output(2),), (Output(3),)))
    rule = Rule(10, MATCHES[0], (ToGroup(1),), 0)
    steps = phases(SwitchState(), SwitchState(frozenset({rule}), frozenset({group})))
    assert [_verbs(step) for step in steps] == [[("add", "Group")], [("add", "Rule")]]


def test_a_tree_that_goes_takes_its_group_along_in_the_first_phase() -> None:
    group = Group(1, ((Output(2),), (Output(3),)))
    rule = Rule(10, MATCHES[0], (ToGroup(1),), 0)
    steps = phases(SwitchState(frozenset({rule}), frozenset({group})), SwitchState())
    assert [set(_verbs(step)) for step in steps] == [{("delete", "Group"), ("delete", "Rule")}]


def test_a_tree_that_moves_is_made_before_the_old_one_is_broken() -> None:
    old, new = Group(1, ((Output(2),), (Output(3),))), Group(2, ((Output(3),), (Output(4),)))
    before = SwitchState(frozenset({Rule(10, MATCHES[0], (ToGroup(1),), 0)}), frozenset({old}))
    after = SwitchState(frozenset({Rule(10, MATCHES[0], (ToGroup(2),), 0)}), frozenset({new}))
    steps = phases(before, after)
    assert [_verbs(step) for step in steps] == [
        [("add", "Group")],
        [("add", "Rule")],
        [("delete", "Group")],
    ]
    switch, packet = _holding(before), {"eth_type": 0x0800, "ipv4_dst": "10.0.0.1"}
    seen = []
    for step in steps:
        _obey(switch, step)
        seen.append(switch.outputs(1, packet))
    assert seen == [[2, 3], [3, 4], [3, 4]]


def test_a_member_that_joins_changes_the_group_and_no_flow() -> None:
    rule = Rule(10, MATCHES[0], (ToGroup(1),), 0)
    before = SwitchState(frozenset({rule}), frozenset({Group(1, ((Output(2),), (Output(3),)))}))
    after = SwitchState(
        frozenset({rule}), frozenset({Group(1, ((Output(2),), (Output(3),), (Output(4),)))})
    )
    assert [_verbs(step) for step in phases(before, after)] == [[("modify", "Group")]]


def test_a_rule_for_a_group_nobody_defines_is_refused_before_anything_is_sent() -> None:
    wanted = SwitchState(frozenset({Rule(10, MATCHES[0], (ToGroup(8),), 0)}))
    with pytest.raises(ValueError, match="group 8"):
        phases(SwitchState(), wanted)
