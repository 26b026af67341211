"""From what a switch holds to what it should hold, in steps that are safe in between.

A switch may work off messages between two barriers in any order, and it refuses a flow that uses a
group it does not have (OpenFlow 1.3.5, section 6.4). So the changes come in phases with a barrier
after each:

    1. deletes      flows that go, and the groups and meters that only they used
    2. groups       groups and meters, new and changed
    3. flows        flows, new and changed; a changed flow is overwritten, never deleted first
    4. released     groups and meters that the overwritten flows used before

Phase 4 makes a moving tree make-before-break: deleting such a group in phase 1 would take the flow
along with it, and its packets would be lost until phase 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from controller.rules import Entry, Group, Meter, Rule, SwitchState, groups_used


@dataclass(frozen=True)
class Change:
    """One thing to do to a switch: `add` (or overwrite), `modify` or `delete` an entry."""

    verb: str
    entry: Entry


Phase = tuple[Change, ...]


def phases(installed: SwitchState, wanted: SwitchState) -> tuple[Phase, ...]:
    """Ordered phases of changes, each to be closed with a barrier; empty ones are left out.

    Raises:
        ValueError: `wanted` uses a group or meter that it does not define.
    """
    missing = wanted.missing_references()
    if missing:
        raise ValueError(f"rules use {', '.join(missing)}, which nothing defines")
    kept_keys = {rule.key for rule in wanted.rules}
    overwritten = [rule for rule in installed.rules if rule.key in kept_keys]
    gone_rules = [rule for rule in installed.rules if rule.key not in kept_keys]
    gone_tables = _gone(installed, wanted)
    released = [entry for entry in gone_tables if _used_by(entry, overwritten)]
    unused = [entry for entry in gone_tables if entry not in released]
    steps = (
        _changes("delete", [*gone_rules, *unused]),
        _table_changes(installed, wanted),
        _changes("add", wanted.rules - installed.rules),
        _changes("delete", released),
    )
    return tuple(step for step in steps if step)


def _number(entry: Entry) -> tuple[object, ...]:
    if isinstance(entry, Group):
        return ("group", entry.group_id)
    if isinstance(entry, Meter):
        return ("meter", entry.meter_id)
    return ("rule", *entry.key)


def _changes(verb: str, entries: Iterable[Entry]) -> Phase:
    return tuple(Change(verb, entry) for entry in sorted(entries, key=lambda e: repr(_number(e))))


def _tables(state: SwitchState) -> dict[tuple[object, ...], Group | Meter]:
    entries: list[Group | Meter] = [*state.groups, *state.meters]
    return {_number(entry): entry for entry in entries}


def _gone(installed: SwitchState, wanted: SwitchState) -> list[Group | Meter]:
    kept = _tables(wanted)
    return [entry for number, entry in _tables(installed).items() if number not in kept]


def _used_by(entry: Group | Meter, rules: Collection[Rule]) -> bool:
    if isinstance(entry, Group):
        return any(entry.group_id in groups_used(rule) for rule in rules)
    return any(entry.meter_id == rule.meter_id for rule in rules)


def _table_changes(installed: SwitchState, wanted: SwitchState) -> Phase:
    before, after = _tables(installed), _tables(wanted)
    new = [entry for number, entry in after.items() if number not in before]
    changed = [entry for number, entry in after.items() if before.get(number, entry) != entry]
    return _changes("add", new) + _changes("modify", changed)
