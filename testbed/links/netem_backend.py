"""The link back-end of kernels that have `netem`: a thin shell around `tc` (see `netem_plan`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from testbed.links.backend import DirectionCounters, Wire
from testbed.links.netem_plan import change_commands, join_commands, part_commands
from testbed.links.registry import Lane, Registry
from testbed.links.spec import ETHERNET_HEADER_BYTES, LinkSpec
from testbed.links.wire_ends import silence
from topologies.errors import MachineError, RunError, UserError
from topologies.model import Direction


class NetemBackend:
    """Joins wires through queueing disciplines, with `tc` in the current network namespace."""

    name: ClassVar[str] = "netem"

    def __init__(self) -> None:
        self._registry = Registry()
        self._has_tbf: set[Direction] = set()
        self._closed = False

    def join(self, wire: Wire, forward: LinkSpec, backward: LinkSpec) -> None:
        """Let frames pass between the ends of a wire (see `LinkBackend.join`)."""
        self._registry.refuse_known(wire)
        lanes = (Lane(wire, True, forward), Lane(wire, False, backward))
        for end in (wire.end_a, wire.end_b):
            silence(end)
        try:
            tc_batch([command for lane in lanes for command in join_commands(lane)])
        except MachineError as error:
            _part(lanes)
            raise MachineError(f"link {wire.direction} cannot be shaped: {error}") from error
        self._registry.add(wire, forward, backward)
        self._has_tbf |= {lane.direction for lane in lanes if lane.spec.rate_mbps is not None}

    def spec(self, direction: Direction) -> LinkSpec:
        """Return what is in force; raises UserError for a direction that is not joined."""
        return self._registry.lane(direction).spec

    def change(self, direction: Direction, **named: object) -> LinkSpec:
        """Change the named fields of a live direction (see `LinkBackend.change`)."""
        lane = self._registry.lane(direction)
        try:
            spec = lane.spec.changed(**named)
        except UserError as refusal:
            raise UserError(f"link {direction}: {refusal}") from refusal
        tc_batch(change_commands(lane.target_end, spec, direction in self._has_tbf))
        if spec.rate_mbps is not None:
            self._has_tbf.add(direction)
        self._registry.replace(lane, spec)
        return spec

    def counters(self) -> Mapping[Direction, DirectionCounters]:
        """Return the counters of every direction; raises RunError when `tc` cannot tell."""
        shown = self._shown()
        return {
            lane.direction: lane_counters(
                shown.get(lane.source_end, []), shown.get(lane.target_end, [])
            )
            for lane in self._registry
        }

    def failure(self) -> str | None:
        """Return which direction lost its shaping, or None while all have it."""
        if self._closed:
            return None
        shown = self._shown()
        for lane in self._registry:
            kinds = {qdisc["kind"] for qdisc in shown.get(lane.target_end, [])}
            wanted = {"netem", "tbf"} if lane.direction in self._has_tbf else {"netem"}
            if not wanted <= kinds:
                missing = ", ".join(sorted(wanted - kinds))
                return (
                    f"link {lane.direction} is no longer shaped: {lane.target_end} has no {missing}"
                )
        return None

    def _shown(self) -> dict[str, list[dict[str, Any]]]:
        done = subprocess.run(["tc", "-s", "-j", "qdisc", "show"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RunError(f"tc cannot tell the counters of links: {done.stderr.strip()}")
        return by_interface(json.loads(done.stdout))

    def close(self) -> None:
        """Remove every queueing discipline it made; a second call does nothing."""
        if not self._closed:
            self._closed = True
            _part(tuple(self._registry))


def tc_batch(commands: Sequence[str]) -> None:
    """Have one `tc` carry out all commands; raises MachineError with the first that failed."""
    text = "".join(f"{command}\n" for command in commands)
    done = subprocess.run(["tc", "-batch", "-"], input=text, capture_output=True, text=True)
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


def by_interface(qdiscs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group the list of `tc -s -j qdisc show` by interface."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for qdisc in qdiscs:
        grouped.setdefault(qdisc.get("dev", ""), []).append(qdisc)
    return grouped


def lane_counters(
    at_source: Sequence[dict[str, Any]], at_target: Sequence[dict[str, Any]]
) -> DirectionCounters:
    """Read one direction's counters from the disciplines at its two wire ends.

    `netem` counts what leaves the whole direction, and as dropped what it or its child dropped;
    the child's own drops are the queue's. The ingress counts frames without their Ethernet header.
    """
    inlet, netem, tbf = (
        _of_kind(at_source, "ingress"), _of_kind(at_target, "netem"), _of_kind(at_target, "tbf")
    )  # fmt: skip
    queue_drops = tbf.get("drops", 0)
    frames_in = inlet.get("packets", 0)
    return DirectionCounters(
        frames_in=frames_in,
        bytes_in=inlet.get("bytes", 0) + frames_in * ETHERNET_HEADER_BYTES,
        frames_out=netem.get("packets", 0),
        bytes_out=netem.get("bytes", 0),
        queued_frames=max(netem.get("qlen", 0), tbf.get("qlen", 0)),
        dropped={"queue": queue_drops, "loss": max(0, netem.get("drops", 0) - queue_drops)},
        duplicated=None,
        corrupted=None,
    )


def _of_kind(qdiscs: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next((qdisc for qdisc in qdiscs if qdisc.get("kind") == kind), {})


def _part(lanes: Sequence[Lane]) -> None:
    """Remove what is there; what is not, because a join failed half way, does not matter."""
    text = "".join(f"{command}\n" for lane in lanes for command in part_commands(lane))
    subprocess.run(["tc", "-force", "-batch", "-"], input=text, capture_output=True, text=True)
