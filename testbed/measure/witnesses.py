"""Ask the three witnesses of a standing WAN and compare what they say (see `crosscheck`)."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.emulation.emulation import Emulation
from testbed.measure.counters import WireEnds, read_counters
from testbed.measure.crosscheck import (
    CrossCheckRow,
    counts_at_ends,
    counts_of_backend,
    counts_of_ports,
    cross_check,
)
from topologies.model import Direction


def compare_witnesses(wan: Emulation, ends: Mapping[Direction, WireEnds]) -> list[CrossCheckRow]:
    """Read switch ports and the link back-end between two readings of the interfaces; compare."""
    before = counts_at_ends(read_counters(ends))
    ports = counts_of_ports(wan.controller.client.ports())
    backend = counts_of_backend(wan.links.counters())
    after = counts_at_ends(read_counters(ends))
    return cross_check(before, ports, backend, after)
