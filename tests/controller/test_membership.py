"""What an island wants, record by record, by the tables of RFC 3376, section 6.4."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.igmp import Kind, Record
from controller.membership import MOST_GROUPS_PER_ISLAND, Memberships, SourceFilter

GROUP = "239.1.2.3"
SOURCES = [f"10.0.0.{n}" for n in range(1, 5)]
SETS = st.frozensets(st.sampled_from(SOURCES))


def _after(*records: Record) -> SourceFilter | None:
    memberships = Memberships()
    for record in records:
        memberships = memberships.after("AMS", [record])
    return memberships.members(GROUP).get("AMS")


@pytest.mark.parametrize(
    ("exclude", "kind", "expected"),
    [
        (False, Kind.ALLOW, (False, {"A", "B", "C"})),
        (False, Kind.BLOCK, (False, {"A"})),
        (True, Kind.ALLOW, (True, {"A"})),
        (True, Kind.BLOCK, (True, {"A", "B", "C"})),
        (False, Kind.TO_EXCLUDE, (True, {"B", "C"})),
        (True, Kind.TO_INCLUDE, (False, {"B", "C"})),
        (False, Kind.IS_EXCLUDE, (True, {"B", "C"})),
        (True, Kind.IS_INCLUDE, (False, {"B", "C"})),
    ],
)
def test_a_record_changes_the_filter(
    exclude: bool, kind: Kind, expected: tuple[bool, set[str]]
) -> None:
    before = SourceFilter(exclude, frozenset("AB"))
    assert before.after(kind, frozenset("BC")) == SourceFilter(expected[0], frozenset(expected[1]))


@settings(max_examples=60, deadline=None)
@given(st.booleans(), SETS, st.sampled_from(Kind), SETS)
def test_who_is_admitted_follows_from_set_arithmetic(
    exclude: bool, held: frozenset[str], kind: Kind, named: frozenset[str]
) -> None:
    everybody = set(SOURCES)
    wanted = everybody - held if exclude else set(held)
    if kind in (Kind.IS_INCLUDE, Kind.TO_INCLUDE):
        wanted = set(named)
    elif kind in (Kind.IS_EXCLUDE, Kind.TO_EXCLUDE):
        wanted = everybody - named
    else:
        wanted = wanted | named if kind is Kind.ALLOW else wanted - named
    after = SourceFilter(exclude, held).after(kind, named)
    assert {source for source in SOURCES if after.admits(source)} == wanted


def test_joining_and_leaving() -> None:
    join, leave = Record(Kind.TO_EXCLUDE, GROUP), Record(Kind.TO_INCLUDE, GROUP)
    assert _after(join) == SourceFilter(exclude=True)
    assert _after(join, leave) is None


def test_the_same_report_again_changes_nothing() -> None:
    report = [Record(Kind.IS_EXCLUDE, GROUP)]
    memberships = Memberships().after("AMS", report)
    assert memberships.after("AMS", report) is memberships


def test_link_local_groups_such_as_mdns_count_for_nothing() -> None:
    assert Memberships().after("AMS", [Record(Kind.TO_EXCLUDE, "224.0.0.251")]).groups() == ()


def test_an_island_can_want_only_so_many_groups() -> None:
    greedy = [Record(Kind.TO_EXCLUDE, f"239.1.{n // 250}.{n % 250}") for n in range(500)]
    memberships = Memberships().after("AMS", greedy).after("LON", greedy[:1])
    assert len(memberships.of_site("AMS")) == MOST_GROUPS_PER_ISLAND
    assert len(memberships.of_site("LON")) == 1


def test_a_filter_of_more_sources_than_can_be_held_is_no_membership() -> None:
    many = frozenset(f"10.9.{n // 250}.{n % 250}" for n in range(300))
    assert _after(Record(Kind.TO_EXCLUDE, GROUP, many)) is None
