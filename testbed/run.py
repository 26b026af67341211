"""One run from its order to its record: build, prove, use, measure, and say what came of it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from controller.fabric import Fabric
from testbed.accelerator.process import Limits
from testbed.benching.run import measure_collectives
from testbed.calibration import calibrate, calibration_table, plot, verdict
from testbed.deploy.island import Islands, start_islands
from testbed.deploy.island_files import IslandSeat
from testbed.emulation.emulation import Emulation, EmulationOptions, emulation
from testbed.emulation.network import NetworkOptions
from testbed.emulation.settings import TcpSettings
from testbed.experiment.conduct import conduct
from testbed.experiment.file import from_data
from testbed.experiment.reporting import report_on
from testbed.measure.reach import Probing, Reachability, asked_round_trips, measure
from testbed.order import Order
from testbed.ownership import RuntimeDirectory
from testbed.progress import Stages
from testbed.record.manifest import RunDescription, collect_manifest
from testbed.record.tables import reach_table
from testbed.record.writer import RunRecord
from topologies.errors import RunError
from topologies.files import dump, load
from topologies.model import Topology

POLL_S = 0.5


def carry_out(order: Order, runtime: RuntimeDirectory, console: Console) -> int:
    """Carry out an order inside the run's own namespaces; returns the exit code.

    Raises:
        AtollError: the run could not be carried through. Its record says so too.
    """
    real = load(order.topology)
    topology = real.scaled(order.rate_scale)
    record = RunRecord.create(Path(order.record_directory), _manifest(order, topology))
    record.write_topology(dump(real))
    with record, Stages(console) as stages:
        code = _on_a_wan(order, topology, runtime, record, stages)
    if order.experiment is not None:
        report_on(record.path, from_data(order.experiment), order, console)
    return code


def _on_a_wan(
    order: Order,
    topology: Topology,
    runtime: RuntimeDirectory,
    record: RunRecord,
    stages: Stages,
) -> int:
    """Build the WAN, prove it, use it as the order says, and take it down again."""
    options = emulation_options(order)
    with emulation(topology, options, runtime, stages.announce) as wan:
        record.amend_manifest(
            interfaces=interface_names(wan), queues_ms=queues_ms(wan), bring_up_s=wan.bring_up_s
        )
        if order.controller_file is not None:
            return _hold_foreign(wan, runtime, record, stages)
        reach = prove_reachability(wan, stages)
        if order.action == "calibrate":
            return calibrate_alone(wan, order, record, stages)
        if order.calibrate:
            calibrate_links(wan, record, stages)
        with start_islands(runtime.path, seats(wan)) as islands:
            if order.action == "up":
                return _hold(wan, islands, record, stages)
            if order.action == "bench":
                return measure_collectives(order, wan, islands, record, stages)
            return conduct(order, wan, islands, reach, record, stages)


def emulation_options(order: Order) -> EmulationOptions:
    """Return how the order wants its WAN built."""
    network = NetworkOptions(
        order.datapath,
        order.congestion_control,
        order.realtime,
        throughput=order.throughput or order.action == "bench",
    )
    foreign = Path(order.controller_file) if order.controller_file else None
    limits = Limits(**order.accelerator_limits)
    accelerators = dict.fromkeys(order.accelerators, limits)
    return EmulationOptions(network, order.link_backend, foreign, order.seed, accelerators)


def _manifest(order: Order, topology: Topology) -> dict[str, object]:
    manifest = collect_manifest(
        RunDescription(
            run_id=order.run_id,
            topology=topology.name,
            rate_scale=order.rate_scale,
            seeds={"run": order.seed},
            datapath=order.datapath,
            link_backend=order.link_backend,
            congestion_control=order.congestion_control,
            command=order.command,
            settings={
                "realtime": order.realtime,
                "switch_priority": emulation_options(order).network.switch_priority,
                "mtu_bytes": topology.mtu_bytes,
                "tcp": asdict(TcpSettings()),
                "capture": order.capture,
                "calibrate": order.calibrate,
            },
        )
    )
    return {**manifest, **_of_experiment(order)}


def _of_experiment(order: Order) -> dict[str, object]:
    """Return what a manifest says of an experiment: all of it, and of a plain one its variant."""
    if order.experiment is None:
        return {}
    experiment = from_data(order.experiment)
    found: dict[str, object] = {"experiment": dict(order.experiment)}
    if experiment.is_plain:
        only = experiment.variants[0]
        found |= {"variant": only.name, "repetition": 1, "capability": only.capability}
    return found


def interface_names(wan: Emulation) -> dict[str, dict[str, str]]:
    """Return the map from directions back to interfaces: at the node and at the wire end."""
    names = {}
    for wire in wan.network.wires:
        names[str(wire.forward)] = {"node": wire.a.interface, "wire_end": wire.end_a}
        names[str(wire.forward.reverse)] = {"node": wire.b.interface, "wire_end": wire.end_b}
    return names


def queues_ms(wan: Emulation) -> dict[str, float]:
    """Return the queue bound in force in every direction, in ms, defaults included."""
    specs = {way: wan.links.spec(way) for way in wan.topology.directions()}
    return {str(way): spec.effective_queue_ms for way, spec in specs.items()}


def prove_reachability(wan: Emulation, stages: Stages) -> Reachability:
    """Probe every ordered pair of islands; raises `UnreachableError` if one is not reached."""
    codes = wan.topology.codes
    stages.announce(f"Probing {len(codes) * (len(codes) - 1) // 2} pairs both ways")
    asked_ms = asked_round_trips(wan.routes)
    reach = measure(
        {code: wan.island_prefix(code) for code in codes},
        {code: wan.fabric.island_ip(code) for code in codes},
        asked_ms,
        Probing.paced(len(codes), max(asked_ms.values()), realtime=wan.realtime),
    ).require_all()
    stages.advance(1, f"all reached, worst error {reach.worst_error_ms or 0.0:+.2f} ms")
    stages.finish()
    stages.console.print(reach_table(reach))
    return reach


def calibrate_links(wan: Emulation, record: RunRecord, stages: Stages) -> None:
    """Measure every link before the run relies on it; one that is off is a `CalibrationError`."""
    stages.announce(f"Calibrating {2 * len(wan.network.wires)} link directions")
    calibration = calibrate(wan)
    record.write_calibration(calibration.to_json())
    stages.advance(1, verdict(calibration))
    stages.finish()
    if calibration.off:
        stages.console.print(calibration_table(calibration))
    calibration.require_all()


def calibrate_alone(wan: Emulation, order: Order, record: RunRecord, stages: Stages) -> int:
    """Measure every link thoroughly; the exit code says whether all are what was asked for."""
    stages.announce(f"Calibrating {2 * len(wan.network.wires)} link directions")
    calibration = calibrate(wan, thorough=True)
    stages.finish()
    record.write_calibration(calibration.to_json())
    pictures = plot(calibration, record.path)
    stages.console.print(calibration_table(calibration))
    stages.console.print(verdict(calibration), highlight=False)
    names = ", ".join(picture.name for picture in pictures)
    stages.console.print(f"Record: {record.path}, pictures: {names}", highlight=False)
    if order.as_json:
        print(json.dumps(calibration.to_json(), indent=1))
    return 1 if calibration.off else 0


def seats(wan: Emulation) -> list[IslandSeat]:
    """Return where each island sits, for the deployment room."""
    fabric: Fabric = wan.fabric
    return [
        IslandSeat(
            code,
            wan.network.island(code).pid,
            fabric.island_management_ip(code),
            fabric.island_ip(code),
        )
        for code in fabric.codes
    ]


def _hold(wan: Emulation, islands: Islands, record: RunRecord, stages: Stages) -> int:
    stages.finish()
    stages.console.print(
        f"{wan.topology.name} is up: {len(islands.seats)} islands, "
        f"{len(wan.topology.links)} links. In another terminal:\n"
        f"  atoll exec {islands.seats[0].site} -- ping -c 3 {islands.seats[-1].host_name}\n"
        f"  atoll shell {islands.seats[0].site}\n"
        "  atoll controller get /health\n"
        "Ctrl-C ends it."
    )
    _watch(wan, record)
    return 0


def _hold_foreign(
    wan: Emulation, runtime: RuntimeDirectory, record: RunRecord, stages: Stages
) -> int:
    """Hold a WAN whose controller is somebody else's: nothing is known of what it installs."""
    with start_islands(runtime.path, seats(wan)) as islands:
        stages.finish()
        stages.console.print(
            f"{wan.topology.name} is up with your controller; its log is "
            f"{runtime.path / 'controller.log'}. Try `atoll exec {islands.seats[0].site} -- "
            f"ping -c 3 {islands.seats[-1].host_name}`. Ctrl-C ends it."
        )
        _watch(wan, record)
    return 0


def _watch(wan: Emulation, record: RunRecord) -> None:
    """Wait until the run is told to end, which completes it; a part that dies is a `RunError`."""
    try:
        while (reason := wan.failure()) is None:
            time.sleep(POLL_S)
            for mishap in wan.accelerators.revive():
                record.event("accelerator_revived", reason=mishap)
    except KeyboardInterrupt:
        record.end()
        raise
    raise RunError(reason)
