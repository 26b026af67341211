"""From what a user chose to an order that a supervisor can carry out.

Everything that can be known before anything is built is checked here: the topology, the machine,
the scale. What the user left open is decided here too, by the doctor's findings.
"""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from testbed.doctor import Report, carrying_capacity, diagnose, print_report
from testbed.doctor.checks import Datapath, LinkBackend
from testbed.links.backend import BACKEND_NAMES
from testbed.links.spec import LinkSpec
from testbed.order import Order
from testbed.record import new_run_id
from testbed.supervisor import supervise
from topologies.errors import MachineError, UserError
from topologies.files import load
from topologies.model import Topology

COMFORTABLE_RATE_MBPS = 200.0
DATAPATHS = ("kernel", "userspace")
AVAILABLE_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class RunChoices:
    """What the user chose; None leaves it to the machine or the topology."""

    action: str
    topology: str
    rate_scale: float | None
    datapath: str | None
    links: str | None
    congestion_control: str
    realtime: bool
    runs: Path
    seed: int


def default_rate_scale(topology: Topology) -> float:
    """Return the largest power of ten, at most 1, that brings every WAN link under 200 Mbit/s.

    Links of 10 Gbit/s so run at 100 Mbit/s, which two cores carry on every link at once.
    """
    fastest = max(spec.rate_mbps for spec in topology.wan_directions().values())
    return min(1.0, 10.0 ** math.floor(math.log10(COMFORTABLE_RATE_MBPS / fastest)))


def checked_scale(rate_scale: float | None, topology: Topology) -> float:
    """Return the scale to use; raises `UserError` for one that is no positive number."""
    if rate_scale is None:
        return default_rate_scale(topology)
    if not (math.isfinite(rate_scale) and 0 < rate_scale <= 1000):
        raise UserError(f"--rate-scale: {rate_scale} is not a number above 0, such as 0.01")
    return rate_scale


def _chosen(option: str, value: str | None, found: str | None) -> str:
    """Return the user's choice, or what the doctor found where the user left it open."""
    chosen = value or found
    if chosen is None:
        raise MachineError(f"{option}: nothing that works was found here; see `atoll doctor`")
    return chosen


def check_congestion_control(name: str) -> None:
    """Refuse a congestion control that this kernel does not have, after asking for its module."""
    if name not in available_congestion_controls():
        subprocess.run(["modprobe", "-q", f"tcp_{name}"], capture_output=True, check=False)
    available = available_congestion_controls()
    if name not in available:
        raise UserError(
            f"--congestion-control: this kernel has no {name!r}; it has {', '.join(available)}"
        )


def available_congestion_controls() -> list[str]:
    """Return the congestion controls this kernel has loaded."""
    return AVAILABLE_CONGESTION_CONTROL.read_text().split()


def check_available(choices: RunChoices, report: Report) -> None:
    """Refuse a datapath or link back-end that the doctor found not to work here."""
    for option, wanted, needs, found in (
        ("--datapath", choices.datapath, "kernel", report.datapath),
        ("--links", choices.links, "netem", report.link_backend),
    ):
        if wanted == needs != found:
            raise MachineError(
                f"{option} {needs}: this kernel has no such thing; see `atoll doctor`"
            )


def check_records(runs: Path) -> None:
    """Refuse a place where no record can be written."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=runs):
            pass
    except OSError as error:
        raise UserError(f"--runs {runs}: {error.strerror}; name a folder to write to") from error


def accelerator_sites(text: str | None, topology: Topology) -> tuple[str, ...]:
    """Read `AMS,NYC`, or `all`; raises `UserError` for a site that the topology lacks."""
    if text is None:
        return ()
    if text == "all":
        return topology.codes
    sites = tuple(sorted({part.strip() for part in text.split(",")}))
    for site in sites:
        if site not in topology.codes:
            known = ", ".join(topology.codes)
            raise UserError(
                f"--accelerators: no site {site!r} in {topology.name}; sites are {known}"
            )
    return sites


def accelerator_limits(
    rate_mbps: float | None, slots: int | None, fan_in: int | None
) -> dict[str, float | int]:
    """Return the limits that were given, by the names of `testbed.accelerator.process.Limits`."""
    given = {"rate_mbps": rate_mbps, "slots": slots, "fan_in": fan_in}
    return {name: value for name, value in given.items() if value is not None}


def check_links(topology: Topology) -> None:
    """Refuse a topology, rates scaled, of which a link cannot be shaped as asked."""
    for way, spec in topology.directions().items():
        try:
            LinkSpec.from_direction(spec, topology.mtu_bytes)
        except UserError as error:
            raise UserError(f"{topology.name}: {way}, rates scaled: {error}") from error


def check_choices(choices: RunChoices, topology: Topology) -> None:
    """Refuse what the user chose wrongly, before the machine is even looked at."""
    check_links(topology.scaled(checked_scale(choices.rate_scale, topology)))
    for option, value, allowed in (
        ("--datapath", choices.datapath, DATAPATHS),
        ("--links", choices.links, BACKEND_NAMES),
    ):
        if value is not None and value not in allowed:
            raise UserError(f"{option}: {value!r} is none of {', '.join(allowed)}")
    check_congestion_control(choices.congestion_control)
    check_records(choices.runs)


def make_order(
    choices: RunChoices, more: Mapping[str, Any], topology: Topology, report: Report
) -> Order:
    """Return the order for what was chosen on the machine that `report` describes."""
    file = Path(choices.topology)
    run_id = new_run_id(topology.name)
    return Order(
        action=choices.action,
        run_id=run_id,
        topology=str(file.resolve()) if file.is_file() else choices.topology,
        record_directory=str(choices.runs.resolve() / run_id),
        rate_scale=checked_scale(choices.rate_scale, topology),
        datapath=_chosen("--datapath", choices.datapath, report.datapath),
        link_backend=_chosen("--links", choices.links, report.link_backend),
        congestion_control=choices.congestion_control,
        realtime=choices.realtime,
        seed=choices.seed,
        command=shlex.join(["atoll", *sys.argv[1:]]),
        **more,
    )


def launch(
    choices: RunChoices,
    more: Mapping[str, Any],
    console: Console,
    check: Callable[[Report], None] | None = None,
) -> int:
    """Examine the machine, then carry out what was chosen; returns the exit code.

    Args:
        choices: what the user chose.
        more: further fields of the order.
        console: for people.
        check: refuses a machine that cannot do what is asked, such as one with too little memory.
    """
    topology = load(choices.topology)
    check_choices(choices, topology)
    report = diagnose()
    print_report(report, console)
    if not report.can_emulate:
        raise MachineError("this machine cannot emulate; the lines marked missing above say why")
    check_available(choices, report)
    if check is not None:
        check(report)
    order = make_order(choices, more, topology, report)
    warn_of_load(order, topology, report, console)
    return supervise(order)


def warn_of_load(order: Order, topology: Topology, report: Report, console: Console) -> None:
    """Say so when the machine cannot carry every link at its rate at once."""
    capacity = carrying_capacity(
        topology.scaled(order.rate_scale),
        report.facts.resources.cores,
        cast(Datapath, order.datapath),
        cast(LinkBackend, order.link_backend),
    )
    if (warning := capacity.warning(order.rate_scale)) is not None:
        console.print(f"warning: {warning}", style="yellow", markup=False)
