"""Faults that cannot happen to what they name, found before anything is built. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from testbed.experiment.faults import changed_fields, directions_of, lasts_s
from testbed.experiment.misfit import Found, no_site
from testbed.experiment.model import Experiment, Fault
from testbed.links.spec import LinkSpec
from testbed.measure.cautions import queues_ms
from topologies.checks import closest
from topologies.document import Path as Place
from topologies.errors import UserError
from topologies.model import Direction, Topology
from topologies.routing import least_delay_routes

ONLY_LINKS = {"down_s": "a link goes down", "change": "a link changes"}
ONLY_ACCELERATORS = {"restart_after_s": "an accelerator is started anew"}
ONLY_CHANGES = {"restore_after_s": "a change is restored"}


def fault_misfits(experiment: Experiment, emulated: Topology, scale: float) -> Iterator[Found]:
    """Yield what is wrong with faults, in their order.

    Args:
        experiment: with its faults.
        emulated: its network, rates scaled.
        scale: emulated rate / real rate.
    """
    if not experiment.faults:
        return
    specs = specs_in_force(emulated)
    for number, fault in enumerate(experiment.faults):
        place: Place = ("faults", number)
        yield from _kind(fault, place)
        if fault.accelerator is not None:
            yield from _accelerator(experiment, fault, (*place, "accelerator"), emulated)
        else:
            yield from _link(fault, place, emulated)
            yield from _change(fault, (*place, "change"), specs, scale)
        yield from _overlap(experiment.faults[:number], fault, place)


def specs_in_force(emulated: Topology) -> dict[Direction, LinkSpec]:
    """Return what every direction does in an emulation, default queues included."""
    queues = queues_ms(least_delay_routes(emulated))
    return {
        way: replace(LinkSpec.from_direction(spec, emulated.mtu_bytes), queue_ms=queues[way])
        for way, spec in emulated.directions().items()
    }


def _kind(fault: Fault, place: Place) -> Iterator[Found]:
    """Yield what a fault of its kind cannot say."""
    if (fault.link is None) == (fault.accelerator is None):
        yield place, "neither of one link nor of one accelerator", "give one of them"
    strange = dict(ONLY_LINKS if fault.accelerator is not None else ONLY_ACCELERATORS)
    if fault.change is None:
        strange |= ONLY_CHANGES
    for name, what in strange.items():
        if getattr(fault, name) is not None:
            yield (*place, name), f"only {what}", "leave it out"


def _link(fault: Fault, place: Place, topology: Topology) -> Iterator[Found]:
    links = [f"{link.a}-{link.b}" for link in topology.links]
    if _thing(fault) not in links:
        guess = closest(fault.link or "", links) or links[0]
        wrong = f"no link {fault.link!r} in {topology.name}"
        yield (*place, "link"), wrong, f"give one such as {guess}"
    if (fault.down_s is None) == (fault.change is None):
        yield place, "the link neither goes down nor changes, or both", "give one"


def _change(
    fault: Fault, place: Place, specs: dict[Direction, LinkSpec], scale: float
) -> Iterator[Found]:
    """Yield what a link cannot be changed to, as the back-end would say in the midst of a run."""
    if fault.change is None:
        return
    named = changed_fields(fault.change, scale)
    if not named:
        yield place, "nothing changes", "name a field such as loss_pct"
    for way in directions_of(fault.link or ""):
        try:
            specs[way].changed(**named)
        except UserError as error:
            wrong, _, right = str(error).partition(": ")
            yield place, f"{way}: {wrong}: {right}", "rates and times are those of the link"


def _accelerator(
    experiment: Experiment, fault: Fault, place: Place, topology: Topology
) -> Iterator[Found]:
    site = fault.accelerator or ""
    if site not in topology.codes:
        yield place, *no_site(site, topology)
    if site not in (experiment.accelerators.sites or topology.codes):
        yield place, f"{site} has no accelerator", "see accelerators.sites"
    if not any(variant.uses_aggregation for variant in experiment.variants):
        yield place, "no variant has aggregation", "give a capability that has it"


def _overlap(earlier: Sequence[Fault], fault: Fault, place: Place) -> Iterator[Found]:
    """Yield a fault that begins, or ends, while another one does the same to the same thing."""
    for number, other in enumerate(earlier):
        if (_thing(other), other.change is None) != (_thing(fault), fault.change is None):
            continue
        first, last = sorted((other, fault), key=lambda one: one.at_s)
        ends_s = first.at_s + lasts_s(first)
        if last.at_s < ends_s:
            until = "the end" if math.isinf(ends_s) else f"{ends_s:g} s"
            wrong = f"{_thing(fault)} is still under fault {number} until {until}"
            yield place, wrong, "let one end before the next begins"


def _thing(fault: Fault) -> str:
    """Return what a fault happens to: a site, or a link as a topology has it."""
    return fault.accelerator or "-".join(sorted((fault.link or "").split("-")))
