"""Who wants which multicast group from whom: one island per port, so each state is exact.

RFC 3376 lets a host ask for a group from some sources only (include) or from all but some
(exclude). A router on a shared wire has to merge what many hosts say, with timers for what it may
have missed. Here each port has one host, so the host's own state is known: section 6.4 without the
merging. A host that is silent for the group membership interval (section 8.4) is forgotten, so that
a leave that got lost costs bandwidth for minutes and not for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType

from controller.igmp import QUERY_INTERVAL_S, Kind, Record

MEMBERSHIP_INTERVAL_S = 2 * QUERY_INTERVAL_S + 10
MOST_GROUPS_PER_ISLAND = 64
MOST_SOURCES_PER_GROUP = 256
_LINK_LOCAL = IPv4Network("224.0.0.0/24")
_NOTHING: Mapping[tuple[str, str], SourceFilter] = MappingProxyType({})


@dataclass(frozen=True)
class SourceFilter:
    """Senders a host wants a group from: these, or (`exclude`) all but these."""

    exclude: bool = False
    sources: frozenset[str] = frozenset()

    @property
    def wants_nothing(self) -> bool:
        """Whether the host is no member: it includes nobody."""
        return not self.exclude and not self.sources

    def admits(self, source_ip: str) -> bool:
        """Whether packets of this sender are wanted."""
        return (source_ip in self.sources) is not self.exclude

    def after(self, kind: Kind, sources: frozenset[str]) -> SourceFilter:
        """The filter after a record of the host (RFC 3376, section 6.4)."""
        if kind in (Kind.IS_INCLUDE, Kind.TO_INCLUDE):
            return SourceFilter(False, sources)
        if kind in (Kind.IS_EXCLUDE, Kind.TO_EXCLUDE):
            return SourceFilter(True, sources)
        adds = (kind is Kind.ALLOW) is not self.exclude
        return replace(self, sources=self.sources | sources if adds else self.sources - sources)


@dataclass(frozen=True)
class Memberships:
    """What islands asked for by IGMP: a filter by (site, group address)."""

    filters: Mapping[tuple[str, str], SourceFilter] = field(default_factory=lambda: _NOTHING)

    def after(self, site: str, records: Iterable[Record]) -> Memberships:
        """The memberships after a report of a site's island.

        Groups of 224.0.0.0/24 (mDNS, routing protocols) never leave a link (RFC 4541, section
        2.1.2), so wishes for them count for nothing; nor do those beyond an island's share.
        """
        filters = dict(self.filters)
        for record in records:
            key = (site, record.group_ip)
            wish = filters.pop(key, SourceFilter()).after(record.kind, record.sources)
            others = sum(1 for member, _ in filters if member == site)
            if others < MOST_GROUPS_PER_ISLAND and _counts(record.group_ip, wish):
                filters[key] = wish
        return self._changed_to(filters)

    def left_out(self, site: str, records: Iterable[Record]) -> tuple[str, ...]:
        """Groups of a report that these memberships, which came of it, have no room for."""
        wishes = ((r.group_ip, SourceFilter().after(r.kind, r.sources)) for r in records)
        return tuple(
            group_ip
            for group_ip, wish in wishes
            if _counts(group_ip, wish) and (site, group_ip) not in self.filters
        )

    def without(self, gone: Iterable[tuple[str, str]]) -> Memberships:
        """The memberships without these (site, group address)."""
        dropped = set(gone)
        return self._changed_to({k: v for k, v in self.filters.items() if k not in dropped})

    def of_site(self, site: str) -> tuple[tuple[str, str], ...]:
        """Keys of a site's memberships."""
        return tuple(sorted(key for key in self.filters if key[0] == site))

    def groups(self) -> tuple[str, ...]:
        """Every group address that somebody wants, in numeric order."""
        return tuple(sorted({group for _, group in self.filters}, key=IPv4Address))

    def members(self, group_ip: str) -> Mapping[str, SourceFilter]:
        """Filter by site of those who want a group."""
        return {site: wish for (site, group), wish in self.filters.items() if group == group_ip}

    def _changed_to(self, filters: dict[tuple[str, str], SourceFilter]) -> Memberships:
        return self if filters == self.filters else Memberships(MappingProxyType(filters))


def _counts(group_ip: str, wish: SourceFilter) -> bool:
    few = len(wish.sources) <= MOST_SOURCES_PER_GROUP
    return few and not wish.wants_nothing and IPv4Address(group_ip) not in _LINK_LOCAL
