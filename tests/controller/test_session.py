"""A switch's way from connecting to confirmed, event by event."""

from __future__ import annotations

from controller.rules import Meter, Output, Rule, SwitchState, match
from controller.session import ANSWER_TIMEOUT_S, MOST_ATTEMPTS, Status, SwitchSession

RULE = Rule(100, match(eth_type=0x0800, ipv4_dst="10.0.0.1"), (Output(1),), 0)
METERED = Rule(200, match(eth_type=0x0806), (Output(2),), 0, meter_id=1)
WANTED = SwitchState(frozenset({RULE}))


def _connected(wanted: SwitchState = WANTED) -> SwitchSession:
    session = SwitchSession()
    session.want(wanted, 0.0)
    session.connected(0.0)
    return session


def test_nothing_is_sent_before_the_switch_connects() -> None:
    session = SwitchSession()
    assert session.want(WANTED, 0.0) == ()
    assert session.status is Status.ABSENT


def test_an_empty_switch_is_programmed_and_confirmed_by_its_own_answer() -> None:
    session = _connected()
    assert session.status is Status.READING
    assert session.read_back(SwitchState(), 1.0)
    assert session.status is Status.INSTALLING
    assert session.read_back(WANTED, 2.0) == ()
    assert session.status is Status.CONFIRMED


def test_a_switch_that_kept_its_rules_is_confirmed_without_a_change() -> None:
    session = _connected()
    assert session.read_back(WANTED, 1.0) == ()
    assert session.status is Status.CONFIRMED


def test_rules_of_somebody_else_are_removed() -> None:
    session = _connected()
    foreign = Rule(1, match(), (Output(9),), 0)
    (phase,) = session.read_back(SwitchState(frozenset({RULE, foreign})), 1.0)
    assert [(change.verb, change.entry) for change in phase] == [("delete", foreign)]


def test_a_switch_that_does_not_take_its_rules_fails_after_three_tries_with_its_reason() -> None:
    session = _connected()
    for _ in range(MOST_ATTEMPTS):
        assert session.read_back(SwitchState(), 1.0)
        session.rejected("switch says FLOW_MOD_FAILED TABLE_FULL")
    assert session.read_back(SwitchState(), 2.0) == ()
    assert session.status is Status.FAILED
    assert session.problem == "switch says FLOW_MOD_FAILED TABLE_FULL"


def test_a_failed_switch_is_tried_again_when_something_else_is_wanted() -> None:
    session = _connected()
    for _ in range(MOST_ATTEMPTS + 1):
        session.read_back(SwitchState(), 1.0)
    other = SwitchState(frozenset({METERED}), meters=frozenset({Meter(1, 1, 1)}))
    assert session.want(other, 2.0)
    assert session.status is Status.INSTALLING


def test_a_change_while_installing_waits_for_the_answer() -> None:
    session = _connected()
    session.read_back(SwitchState(), 1.0)
    assert session.want(SwitchState(), 1.5) == ()
    (phase,) = session.read_back(WANTED, 2.0)
    assert [change.verb for change in phase] == ["delete"]


def test_a_confirmed_switch_gets_a_change_at_once() -> None:
    session = _connected()
    session.read_back(WANTED, 1.0)
    assert session.want(SwitchState(), 1.5)
    assert session.status is Status.INSTALLING


def test_wanting_the_same_again_sends_nothing() -> None:
    session = _connected()
    session.read_back(WANTED, 1.0)
    assert session.want(WANTED, 1.5) == ()
    assert session.status is Status.CONFIRMED


def test_a_switch_without_meters_is_confirmed_without_them() -> None:
    session = _connected(SwitchState(frozenset({METERED}), meters=frozenset({Meter(1, 1, 1)})))
    session.has_meters = False
    session.read_back(SwitchState(), 1.0)
    bare = Rule(METERED.priority, METERED.match, METERED.actions, METERED.cookie)
    assert session.read_back(SwitchState(frozenset({bare})), 2.0) == ()
    assert session.status is Status.CONFIRMED


def test_only_a_switch_that_owes_an_answer_is_overdue() -> None:
    session = _connected()
    assert not session.overdue(ANSWER_TIMEOUT_S)
    assert session.overdue(ANSWER_TIMEOUT_S + 0.1)
    session.read_back(WANTED, 1.0)
    assert not session.overdue(1000.0)


def test_after_a_reconnect_the_switch_is_asked_again() -> None:
    session = _connected()
    session.read_back(WANTED, 1.0)
    session.disconnected(2.0)
    assert session.status is Status.ABSENT
    session.connected(3.0)
    assert session.read_back(SwitchState(), 4.0)
