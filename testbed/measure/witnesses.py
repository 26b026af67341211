"""Ask the three witnesses of a standing WAN and compare what they say (see `crosscheck`)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from testbed.emulation.emulation import Emulation
from testbed.measure.counters import WireEnds, read_counters
from testbed.measure.crosscheck import (
    CrossCheckRow,
    allowances,
    counts_at_ends,
    counts_of_backend,
    counts_of_ports,
    cross_check,
)
from topologies.model import Direction


def compare_witnesses(wan: Emulation, ends: Mapping[Direction, WireEnds]) -> list[CrossCheckRow]:
    """Read interfaces, switch ports and the link back-end, in that order, and compare them."""
    started = time.monotonic()
    interfaces = counts_at_ends(read_counters(ends))
    ports = counts_of_ports(wan.controller.client.ports())
    backend = counts_of_backend(wan.links.counters())
    skew_s = time.monotonic() - started
    allowed = allowances(interfaces, wan.topology.directions(), skew_s)
    return cross_check(interfaces, ports, backend, allowed)
