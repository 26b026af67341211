"""What happens to the network while it is trained over: links that fail or change, dead helpers.

Times count from the moment when all workers had started. Each fault has a beginning and, unless it
lasts, an end; whatever lasts is mended when the training is over, so that the next one on the same
WAN meets a sound network. A link goes down as a cable is pulled: both its ports lose it, the
controller is told by the switches and routes around it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.emulation.emulation import Emulation
from testbed.emulation.network import run_in
from testbed.experiment.model import Fault, LinkChange
from testbed.links.spec import LinkSpec
from testbed.record.writer import RunRecord
from topologies.model import Direction

BEGINS, ENDS, MISSED = "fault", "fault_over", "fault_missed"


@dataclass(frozen=True)
class Happening:
    """The beginning or the end of a fault, seconds after the training began."""

    at_s: float
    fault: Fault
    begins: bool


def happenings(faults: Sequence[Fault]) -> list[Happening]:
    """Return what happens when, in order of time; what lasts has no end here."""
    found = [Happening(fault.at_s, fault, True) for fault in faults]
    found += [Happening(fault.at_s + lasts_s(fault), fault, False) for fault in faults]
    return sorted((one for one in found if math.isfinite(one.at_s)), key=lambda one: one.at_s)


def lasts_s(fault: Fault) -> float:
    """Return how long a fault lasts; infinite for the rest of the training."""
    lengths = (fault.down_s, fault.restore_after_s, fault.restart_after_s)
    return next((length for length in lengths if length is not None), math.inf)


def reroutes(faults: Sequence[Fault], sums_in_network: bool = True) -> str:
    """Return why bytes then follow other ways than the plan's; empty where they do not.

    Args:
        faults: those that happened.
        sums_in_network: whether the training needs accelerators; else none of them is missed.
    """
    causes = [
        f"link {fault.link} was down" if fault.link else f"accelerator {fault.accelerator} was dead"
        for fault in faults
        if fault.down_s is not None or (sums_in_network and fault.accelerator is not None)
    ]
    return "; ".join(dict.fromkeys(causes))


def changed_fields(change: LinkChange, rate_scale: float) -> dict[str, float]:
    """Return the named fields of a link as it is emulated."""
    named = _set_fields(change)
    if "rate_mbps" in named:
        named["rate_mbps"] *= rate_scale
    return named


def directions_of(link: str) -> tuple[Direction, Direction]:
    """Return both directions of a link written `NYC-LON`."""
    a, b = link.split("-")
    return Direction(a, b), Direction(b, a)


@dataclass
class Faults:
    """Lets the faults of an experiment happen; call `check` as often as times are to be kept.

    Attributes:
        ahead: what is still to come.
        under_way: faults that have begun and not ended.
        begun: all that have begun.
        missed: those whose time the training did not live to see.
    """

    wan: Emulation
    record: RunRecord
    rate_scale: float
    ahead: list[Happening]
    origin_s: float | None = None
    under_way: list[Fault] = field(default_factory=list)
    begun: list[Fault] = field(default_factory=list)
    missed: list[Fault] = field(default_factory=list)
    _before: dict[Direction, LinkSpec] = field(default_factory=dict)

    @classmethod
    def of(
        cls, faults: Sequence[Fault], wan: Emulation, record: RunRecord, rate_scale: float
    ) -> Faults:
        """Prepare the faults of one training."""
        return cls(wan, record, rate_scale, happenings(faults))

    def begin(self) -> None:
        """Let times count from now."""
        self.origin_s = time.monotonic()

    def check(self) -> None:
        """Let everything happen that is due."""
        while self.origin_s is not None and self.ahead:
            if time.monotonic() - self.origin_s < self.ahead[0].at_s:
                return
            one = self.ahead.pop(0)
            self._happen(one.fault, one.begins)

    def mend(self) -> None:
        """End whatever is still under way, and write down what never came."""
        self.missed = [one.fault for one in self.ahead if one.begins]
        for fault in self.missed:
            self.record.event(MISSED, **_told(fault))
        self.ahead.clear()
        for fault in list(self.under_way):
            self._happen(fault, begins=False)

    def _happen(self, fault: Fault, begins: bool) -> None:
        if begins:
            self.under_way.append(fault)
            self.begun.append(fault)
        elif fault in self.under_way:
            self.under_way.remove(fault)
        else:
            return
        if fault.accelerator is not None:
            self._power(fault.accelerator, on=not begins)
        elif fault.change is not None:
            self._change(fault, begins)
        else:
            self._plug(fault, up=not begins)
        self.record.event(BEGINS if begins else ENDS, **_told(fault))

    def _power(self, site: str, on: bool) -> None:
        if on:
            self.wan.accelerators.restart(site)
        else:
            self.wan.accelerators.kill(site)

    def _change(self, fault: Fault, begins: bool) -> None:
        assert fault.link is not None and fault.change is not None
        named = changed_fields(fault.change, self.rate_scale)
        for way in directions_of(fault.link):
            if begins:
                self._before[way] = self.wan.links.spec(way)
                self.wan.links.change(way, **named)
            else:
                before = self._before.pop(way)
                self.wan.links.change(way, **{key: getattr(before, key) for key in named})

    def _plug(self, fault: Fault, up: bool) -> None:
        assert fault.link is not None
        ways = directions_of(fault.link)
        wire = next(wire for wire in self.wan.network.wires if wire.forward in ways)
        for end in (wire.a, wire.b):
            command = ["ip", "link", "set", end.interface, "up" if up else "down"]
            run_in(self.wan.network.switch(end.node), [command])


def missed_words(faults: Sequence[Fault], training: str) -> list[str]:
    """Return a line for each fault whose time a training did not live to see."""
    return [
        f"The fault at {fault.at_s:g} s ({fault.link or fault.accelerator}) never came: "
        f"{training} had ended."
        for fault in faults
    ]


def _told(fault: Fault) -> dict[str, Any]:
    """Return the fields of a fault that are set."""
    told = _set_fields(fault)
    return told if fault.change is None else {**told, "change": _set_fields(fault.change)}


def _set_fields(row: Fault | LinkChange) -> dict[str, Any]:
    return {key: value for key, value in asdict(row).items() if value is not None}
