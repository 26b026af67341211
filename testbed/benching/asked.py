"""What a benchmark that somebody asks for needs, found before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from schedules.capabilities import EXCHANGE, MULTICAST
from testbed.benching.cliques import needs_accelerators, to_data
from testbed.benching.drawing import plan_on_paper
from testbed.benching.options import BenchOptions
from testbed.doctor import Report
from testbed.experiment.memory import check_memory
from testbed.innetwork.limits import alike
from testbed.launch import accelerator_sites
from topologies.errors import UserError
from topologies.model import Topology

MESSAGES_OF_CHECKING = 8.0  # what is sent, its integers, and the exact mean in double precision


def order_fields(
    options: BenchOptions,
    topology: Topology,
    accelerators: str | None,
    limits: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of an order that say what is measured, with which plans, by what.

    Args:
        options: what to measure.
        topology: as emulated, rates scaled.
        accelerators: sites as `AMS,NYC`, or `all`.
        limits: of each accelerator; see `testbed.accelerator.process.Limits`.

    Raises:
        UserError: the network cannot do a kind; one line says why.
    """
    needed = needs_accelerators(options.collectives)
    sites = accelerator_sites(accelerators, topology) if needed else ()
    if needed and not sites:
        raise UserError("--accelerators: aggregation and innetwork need one at some site")
    drawn = plan_on_paper(topology, options.collectives, alike(sites, limits))
    return {
        "bench": {"options": asdict(options), "planned": to_data(drawn.planned)},
        "accelerators": sites,
        "accelerator_limits": limits,
    }


def check_memory_of(options: BenchOptions, islands: int, report: Report) -> None:
    """Refuse messages of which workers could not hold what they receive."""
    received = islands - 1 if {EXCHANGE, MULTICAST} & set(options.collectives) else 1
    available_mib = report.facts.resources.memory_available_mib
    largest = max(options.sizes_bytes)
    check_memory(islands, largest, available_mib, MESSAGES_OF_CHECKING + received)
