"""The link back-end for kernels without netem: one `linkd` process for all links of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from testbed.links.backend import DirectionCounters, Wire
from testbed.links.linkd.build import ensure_built
from testbed.links.linkd.protocol import difference, parse_counters, text_of, words_of
from testbed.links.registry import Lane, Registry
from testbed.links.spec import LinkSpec
from testbed.links.wire_ends import silence
from testbed.native.client import RequestRefusedError
from testbed.native.daemon import Daemon
from topologies.errors import MachineError, UserError
from topologies.model import Direction

SOCKET_NAME = "linkd.sock"
LOG_NAME = "linkd.log"


class LinkdBackend:
    """Joins wires through a `linkd` that it started in the current network namespace.

    The control socket is `linkd.sock` and the daemon's complaints are in `linkd.log`, both in the
    run's directory. The daemon ends with the process that started it, however that ends.
    """

    name: ClassVar[str] = "linkd"

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._registry = Registry()
        self._closed = False

    @classmethod
    def start(
        cls,
        run_directory: Path,
        realtime: bool = True,
        program: Path | None = None,
        grain_us: int = 0,
    ) -> LinkdBackend:
        """Start the daemon in the current network namespace.

        Args:
            run_directory: where its socket and its log go; must exist.
            realtime: ask for real-time priority; without permission it runs on without, and
                `realtime` of this object tells.
            program: another build of the daemon, such as one with sanitizers.
            grain_us: frames due within this time leave together, each up to half of it too early
                or too late. Whoever is behind a link then wakes for several at once.

        Raises:
            MachineError: when it cannot be built or started.
        """
        command = [str(program or ensure_built()), *(["--realtime"] if realtime else [])]
        command += ["--grain-us", str(grain_us)] if grain_us else []
        socket, log = run_directory / SOCKET_NAME, run_directory / LOG_NAME
        return cls(Daemon("linkd", command, socket, log))

    @property
    def process_id(self) -> int:
        """The daemon's process id, for whoever watches its CPU."""
        return self._daemon.process_id

    @property
    def realtime(self) -> bool:
        """Whether the daemon runs with real-time priority."""
        return os.sched_getscheduler(self.process_id) == os.SCHED_FIFO

    def join(self, wire: Wire, forward: LinkSpec, backward: LinkSpec) -> None:
        """Let frames pass between the ends of a wire (see `LinkBackend.join`)."""
        self._registry.refuse_known(wire)
        for end in (wire.end_a, wire.end_b):
            silence(end)
        ways = f"{text_of(words_of(forward))} / {text_of(words_of(backward))}"
        try:
            self._daemon.ask(f"join {wire.index} {wire.end_a} {wire.end_b} {ways}")
        except RequestRefusedError as refusal:
            raise MachineError(f"link {wire.direction} cannot be shaped: {refusal}") from refusal
        self._registry.add(wire, forward, backward)

    def spec(self, direction: Direction) -> LinkSpec:
        """Return what is in force; raises UserError for a direction that is not joined."""
        return self._registry.lane(direction).spec

    def change(self, direction: Direction, **named: object) -> LinkSpec:
        """Change the named fields of a live direction (see `LinkBackend.change`)."""
        lane = self._registry.lane(direction)
        try:
            spec = lane.spec.changed(**named)
            self._apply(lane, spec)
        except (UserError, RequestRefusedError) as refusal:
            raise UserError(f"link {direction}: {refusal}") from refusal
        self._registry.replace(lane, spec)
        return spec

    def _apply(self, lane: Lane, spec: LinkSpec) -> None:
        words = difference(lane.spec, spec)
        if words:
            way = "forward" if lane.forward else "backward"
            self._daemon.ask(f"set {lane.wire.index} {way} {text_of(words)}")

    def counters(self) -> Mapping[Direction, DirectionCounters]:
        """Return the counters of every direction; raises RunError when the daemon is gone."""
        found = [parse_counters(line) for line in self._daemon.ask("counters")]
        by_way = {(index, forward): counters for index, forward, counters in found}
        return {lane.direction: by_way[lane.wire.index, lane.forward] for lane in self._registry}

    def failure(self) -> str | None:
        """Return how the daemon ended, or None while it runs."""
        ended = self._daemon.ended()
        return None if ended is None or self._closed else f"linkd {ended}"

    def close(self) -> None:
        """End the daemon and remove its socket; a second call does nothing."""
        self._closed = True
        self._daemon.close()
