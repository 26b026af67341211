"""The link back-end of kernels that have `netem`: a thin shell around `tc` (see `netem_plan`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from testbed.links.backend import DirectionCounters, Wire
from testbed.links.netem_plan import (
    change_commands,
    counter_commands,
    join_commands,
    part_commands,
    refuse_unable,
)
from testbed.links.registry import Lane, Registry
from testbed.links.spec import LinkSpec
from testbed.links.wire_ends import silence
from topologies.errors import MachineError, RunError, UserError
from topologies.model import ETHERNET_HEADER_BYTES, Direction

Shown = Sequence[Mapping[str, Any]]


class NetemBackend:
    """Joins wires through queueing disciplines, with `tc` in the current network namespace."""

    name: ClassVar[str] = "netem"

    def __init__(self) -> None:
        self._registry = Registry()
        self._pairs: list[tuple[Lane, Lane]] = []

    def join(self, wire: Wire, forward: LinkSpec, backward: LinkSpec) -> None:
        """Let frames pass between the ends of a wire (see `LinkBackend.join`)."""
        self._registry.refuse_known(wire)
        lanes = (Lane(wire, True, forward), Lane(wire, False, backward))
        for lane in lanes:
            refuse_unable(lane.spec)
            silence(lane.source_end)
        try:
            tc_batch(join_commands(lanes))
        except MachineError as error:
            _part(lanes)
            raise MachineError(f"link {wire.direction} cannot be shaped: {error}") from error
        self._pairs.append(self._registry.add(wire, forward, backward))

    def spec(self, direction: Direction) -> LinkSpec:
        """Return what is in force; raises UserError for a direction that is not joined."""
        return self._registry.lane(direction).spec

    def change(self, direction: Direction, **named: object) -> LinkSpec:
        """Change the named fields of a live direction (see `LinkBackend.change`)."""
        lane = self._registry.lane(direction)
        try:
            spec = lane.spec.changed(**named)
            refuse_unable(spec)
        except UserError as refusal:
            raise UserError(f"link {direction}: {refusal}") from refusal
        tc_batch(change_commands(lane, spec))
        self._registry.replace(lane, spec)
        return spec

    def counters(self) -> Mapping[Direction, DirectionCounters]:
        """Return the counters of every direction; raises RunError when `tc` cannot tell."""
        lanes = list(self._registry)
        shown = _show([command for lane in lanes for command in counter_commands(lane)])
        return {
            lane.direction: lane_counters(next(shown), next(shown), next(shown)) for lane in lanes
        }

    def failure(self) -> str | None:
        """Return which direction lost its shaping, or None while all have it."""
        lanes = list(self._registry) if self._pairs else []
        shown = _show([f"qdisc show dev {lane.target_end}" for lane in lanes])
        for lane in lanes:
            missing = {"netem", "clsact"} - {qdisc["kind"] for qdisc in next(shown)}
            if missing:
                what = f"{lane.target_end} has no {', '.join(sorted(missing))}"
                return f"link {lane.direction} is no longer shaped: {what}"
        return None

    def close(self) -> None:
        """Remove every queueing discipline it made; a second call does nothing."""
        while self._pairs:
            _part(self._pairs.pop())


def tc_batch(commands: Sequence[str]) -> None:
    """Have one `tc` carry out all commands; raises MachineError with the first that failed."""
    done = _tc(["tc", "-batch", "-"], commands)
    if done.returncode != 0:
        raise MachineError(f"tc: {complaint(done.stderr, commands)}")


def complaint(stderr: str, commands: Sequence[str]) -> str:
    """Return tc's reason with the command that it names by line (`Command failed -:3`)."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    reason = next((line for line in lines if not line.startswith("Command failed")), "failed")
    for line in lines:
        number = line.rpartition(":")[2]
        if line.startswith("Command failed") and number.isdigit():
            return f"{reason} in 'tc {commands[int(number) - 1]}'"
    return reason


def _tc(words: Sequence[str], commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
    text = "".join(f"{command}\n" for command in commands)
    return subprocess.run(words, input=text, capture_output=True, text=True)


def _show(commands: Sequence[str]) -> Iterator[Shown]:
    done = _tc(["tc", "-s", "-j", "-batch", "-"], commands)
    if done.returncode != 0:
        raise RunError(f"tc cannot tell of links: {complaint(done.stderr, commands)}")
    return iter(json_values(done.stdout))


def json_values(text: str) -> list[Any]:
    """Return the values of a batch's output: one after another, with blanks between them."""
    decoder, values, at = json.JSONDecoder(), [], 0
    text = text.strip()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return values


def lane_counters(at_inlet: Shown, at_root: Shown, at_egress: Shown) -> DirectionCounters:
    """Read a direction's counters from what the three `counter_commands` showed.

    The inlet counts frames without their Ethernet header. What the policer dropped is the queue's;
    what netem dropped is the loss model's.
    """
    inlet, policer = _action(at_inlet, "mirred"), _action(at_egress, "police")
    netem = next((qdisc for qdisc in at_root if qdisc["kind"] == "netem"), {})
    frames_in = inlet.get("packets", 0)
    return DirectionCounters(
        frames_in=frames_in,
        bytes_in=inlet.get("bytes", 0) + frames_in * ETHERNET_HEADER_BYTES,
        frames_out=netem.get("packets", 0),
        bytes_out=netem.get("bytes", 0),
        queued_frames=netem.get("qlen", 0),
        dropped={"queue": policer.get("drops", 0), "loss": netem.get("drops", 0)},
        duplicated=None,
        corrupted=None,
    )


def _action(filters: Shown, kind: str) -> Mapping[str, int]:
    """The statistics of the first action of that kind."""
    for each in filters:
        for action in each.get("options", {}).get("actions", []):
            if action["kind"] == kind:
                return dict(action["stats"])
    return {}


def _part(lanes: tuple[Lane, Lane]) -> None:
    """Remove what is there; what is not, because a join failed half way, does not matter."""
    _tc(["tc", "-force", "-batch", "-"], part_commands(lanes))
