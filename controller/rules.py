"""What a switch is to hold, as plain data: rules, groups and meters.

This is the middle language of the controller. Intents are compiled to it, a switch's own answer is
read back into it, and the difference of the two is what gets sent. Being frozen and comparable, it
lets all three be tested without a switch and without an OpenFlow library. The words are those of
the OpenFlow 1.3.5 specification (sections 5.2 flow table, 5.6 group table, 5.7 meter table).
"""

from __future__ import annotations

from dataclasses import dataclass

Match = tuple[tuple[str, object], ...]


def match(**fields: int | str) -> Match:
    """A match on OXM fields by their OpenFlow names, in an order that makes equal ones equal."""
    return tuple(sorted(fields.items()))


@dataclass(frozen=True, order=True)
class Output:
    """Send the packet out of a port; OpenFlow drops it if that is the port it came in by."""

    port: int


@dataclass(frozen=True, order=True)
class ToController:
    """Send the first bytes of the packet to the controller."""

    max_length_bytes: int


@dataclass(frozen=True, order=True)
class ToGroup:
    """Hand the packet to a group of the same switch."""

    group_id: int


@dataclass(frozen=True, order=True)
class SetField:
    """Write a header field, by its OXM name; the actions after it see the new value."""

    field: str
    value: str


@dataclass(frozen=True, order=True)
class Foreign:
    """Something installed that Atoll never asks for, so that it never equals what is wanted."""

    text: str


Action = Output | ToController | ToGroup | SetField | Foreign


@dataclass(frozen=True)
class Rule:
    """A flow entry: what matches gets the actions; no actions means drop.

    Attributes:
        cookie: says which intent the rule serves (see `controller.compile`).
        meter_id: meter that limits the matching packets first.
    """

    priority: int
    match: Match
    actions: tuple[Action, ...]
    cookie: int
    meter_id: int | None = None
    table_id: int = 0

    @property
    def key(self) -> tuple[int, int, Match]:
        """What a switch tells flow entries apart by: table, priority and match."""
        return (self.table_id, self.priority, self.match)


@dataclass(frozen=True)
class Group:
    """A group entry; of kind `all`, each bucket gets its own copy of the packet."""

    group_id: int
    buckets: tuple[tuple[Action, ...], ...]
    kind: str = "all"


@dataclass(frozen=True)
class Meter:
    """A meter that drops what comes faster than `rate_packets_per_s`, after a burst."""

    meter_id: int
    rate_packets_per_s: int
    burst_packets: int
    kind: str = "drop packets"


Entry = Rule | Group | Meter


@dataclass(frozen=True)
class SwitchState:
    """Everything one switch holds, or is wanted to hold."""

    rules: frozenset[Rule] = frozenset()
    groups: frozenset[Group] = frozenset()
    meters: frozenset[Meter] = frozenset()

    def __or__(self, other: SwitchState) -> SwitchState:
        """What both hold."""
        return SwitchState(
            self.rules | other.rules, self.groups | other.groups, self.meters | other.meters
        )

    def without_meters(self) -> SwitchState:
        """The same without meters, for a switch that has none."""
        rules = frozenset(
            Rule(rule.priority, rule.match, rule.actions, rule.cookie, None, rule.table_id)
            for rule in self.rules
        )
        return SwitchState(rules, self.groups)

    def missing_references(self) -> tuple[str, ...]:
        """Groups and meters that rules use and nothing defines, as text; empty when sound."""
        groups = {group.group_id for group in self.groups}
        meters = {meter.meter_id for meter in self.meters}
        used_groups = {number for rule in self.rules for number in groups_used(rule)}
        used_meters = {rule.meter_id for rule in self.rules if rule.meter_id is not None}
        return (
            *(f"group {number}" for number in sorted(used_groups - groups)),
            *(f"meter {number}" for number in sorted(used_meters - meters)),
        )


def groups_used(rule: Rule) -> tuple[int, ...]:
    """Groups a rule hands packets to."""
    return tuple(action.group_id for action in rule.actions if isinstance(action, ToGroup))
