"""A WAN that stands: network built, links shaped, controller ready. Nothing here runs on it yet.

The order matters and is always the same. Links are joined before the switches start, so that no
frame ever crosses an unshaped link; the controller listens before the switches dial; and the
network counts as ready only when every switch has confirmed its rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.fabric import Fabric
from testbed.accelerator.process import Limits
from testbed.emulation.accelerators import Accelerators
from testbed.emulation.controller_process import (
    ControllerProcess,
    controller_command,
    foreign_command,
)
from testbed.emulation.network import Network, NetworkOptions
from testbed.emulation.plan import WirePlan
from testbed.links.backend import LinkBackend, Wire
from testbed.links.linkd_backend import LinkdBackend
from testbed.links.netem_backend import NetemBackend
from testbed.links.spec import LinkSpec
from testbed.measure.reach import asked_round_trips
from testbed.ownership import RuntimeDirectory
from topologies.errors import AtollError, RunError
from topologies.files import dump
from topologies.model import Topology
from topologies.routing import Routes, least_delay_routes

Announce = Callable[[str], None]
CONTROLLER_TIMEOUT_S = 300.0  # under software emulation of a processor imports take minutes
SEED_STRIDE = 2
THROUGHPUT_GRAIN_US = 1000  # what comes to a switch within it comes at once


@dataclass(frozen=True)
class EmulationOptions:
    """Choices of an emulation beside its topology.

    Attributes:
        link_backend: `netem` or `linkd`.
        controller_file: a Ryu application to run instead of our controller.
        seed: of every random draw that links make.
        accelerators: sites that get an accelerator, with its limits.
    """

    network: NetworkOptions
    link_backend: str
    controller_file: Path | None = None
    seed: int = 1
    accelerators: Mapping[str, Limits] = field(default_factory=dict)

    @property
    def realtime(self) -> bool:
        """Whether the data path gets real-time priority."""
        return self.network.realtime

    @property
    def release_grain_us(self) -> int:
        """How long links let frames wait for one another; netem lets each go at its own time."""
        grouped = self.network.throughput and self.link_backend == "linkd"
        return THROUGHPUT_GRAIN_US if grouped else 0


@dataclass(frozen=True)
class Emulation:
    """A standing WAN and what is known of it.

    Attributes:
        topology: as emulated, rates scaled.
        bring_up_s: seconds from the start of building until every switch had confirmed.
        realtime: whether the data path has real-time priority.
        release_grain_us: links let what is due within this time leave together; 0 for each at once.
    """

    topology: Topology
    routes: Routes
    fabric: Fabric
    network: Network
    links: LinkBackend
    controller: ControllerProcess
    accelerators: Accelerators
    bring_up_s: float
    realtime: bool
    release_grain_us: int = 0

    def island_prefix(self, site: str) -> list[str]:
        """Return the command prefix that enters an island's namespaces."""
        return ["mnexec", "-a", str(self.network.island(site).pid)]

    def failure(self) -> str | None:
        """Return which part of the WAN has ended by itself, or None while all of it lives."""
        parts = [self.controller.exited, self.links.failure, self.accelerators.failure]
        parts += [switch.exited for switch in self.network.switches()]
        return next((reason for part in parts if (reason := part()) is not None), None)


@contextmanager
def emulation(
    topology: Topology, options: EmulationOptions, runtime: RuntimeDirectory, announce: Announce
) -> Iterator[Emulation]:
    """Build `topology` inside the current namespaces and take it down afterwards.

    Raises:
        MachineError: something is missing on this machine.
        RunError: a part did not come up, or died under the body; the text names it.
    """
    started = time.monotonic()
    routes = least_delay_routes(topology)
    fabric = Fabric.of(topology, options.accelerators)
    network = Network(topology, routes, fabric, options.network, runtime.path / "ovs")
    with ExitStack() as stack:
        stack.callback(network.stop)
        announce("Building nodes and cables")
        network.build()
        runtime.write_nodes(network.owned_nodes())
        announce("Shaping links")
        links = join_links(network, routes, options, runtime.path)
        stack.callback(links.close)
        announce("Starting controller and switches")
        controller = start_controller(topology, options, runtime.path)
        stack.callback(controller.close)
        network.start_switches()
        accelerators = Accelerators.start(network, fabric, options.accelerators, runtime.path)
        stack.callback(accelerators.close)
        announce("Installing routes")
        if options.controller_file is None:
            controller.client.wait_ready(CONTROLLER_TIMEOUT_S)
        bring_up_s = time.monotonic() - started
        wan = Emulation(
            topology=topology,
            routes=routes,
            fabric=fabric,
            network=network,
            links=links,
            controller=controller,
            accelerators=accelerators,
            bring_up_s=bring_up_s,
            realtime=options.realtime,
            release_grain_us=options.release_grain_us,
        )
        with _dead_parts_named(wan):
            yield wan


@contextmanager
def _dead_parts_named(wan: Emulation) -> Iterator[None]:
    """Let a failure in the body name the part that died: whoever misses it can only guess."""
    try:
        yield
    except (AtollError, OSError) as error:
        reason = wan.failure()
        if reason is None or str(error) == reason:
            raise
        raise RunError(reason) from error


def start_controller(
    topology: Topology, options: EmulationOptions, directory: Path
) -> ControllerProcess:
    """Start our controller, or the application that the options name, and wait for its port."""
    topology_file, log = directory / "topology.yaml", directory / "controller.log"
    topology_file.write_text(dump(topology))
    if options.controller_file is None:
        command = controller_command(topology_file, log, options.accelerators)
    else:
        command = foreign_command(options.controller_file, log)
    controller = ControllerProcess(command, log)
    try:
        controller.wait_listening(CONTROLLER_TIMEOUT_S)
    except BaseException:
        controller.close()
        raise
    return controller


def join_links(
    network: Network, routes: Routes, options: EmulationOptions, directory: Path
) -> LinkBackend:
    """Start the link back-end and let it join and shape every wire of the network."""
    backend: LinkBackend
    if options.link_backend == "netem":
        backend = NetemBackend()
    else:
        backend = LinkdBackend.start(
            directory, realtime=options.realtime, grain_us=options.release_grain_us
        )
    queue_ms = max(asked_round_trips(routes).values(), default=0.0)
    try:
        for wire in network.wires:
            _join(backend, network.topology, wire, options.seed, queue_ms)
    except BaseException:
        backend.close()
        raise
    return backend


def with_queue(spec: LinkSpec, queue_ms: float) -> LinkSpec:
    """Return `spec` with a queue of at least one longest round trip, where none is asked for.

    A queue that holds less than one bandwidth-delay product of the flows through it starves TCP
    (Villamizar and Song, "High performance TCP in ANSNET", CCR 1994), and a link's own delay says
    nothing of how long those flows' ways are.
    """
    if spec.queue_ms is not None:
        return spec
    return replace(spec, queue_ms=max(spec.effective_queue_ms, queue_ms))


def _join(
    backend: LinkBackend, topology: Topology, wire: WirePlan, seed: int, queue_ms: float
) -> None:
    specs, mtu_bytes = topology.directions(), topology.mtu_bytes
    first = seed * SEED_STRIDE * len(specs) + SEED_STRIDE * wire.index
    forward = LinkSpec.from_direction(specs[wire.forward], mtu_bytes, first)
    backward = LinkSpec.from_direction(specs[wire.forward.reverse], mtu_bytes, first + 1)
    ends = Wire(wire.index, wire.end_a, wire.end_b, wire.forward)
    backend.join(ends, with_queue(forward, queue_ms), with_queue(backward, queue_ms))
