"""What goes on beside a training: flows between sites, jobs of other tenants, a traffic matrix.

    background:
      - {source: NYC, target: LON, protocol: tcp, rate_mbps: 2000}
      - {source: SIN, target: BAR, protocol: udp, rate_mbps: 1000, on_s: 2, off_s: 1}
    traffic_matrix: offered.csv        # source,target,rate_mbps[,protocol]
    tenants:
      - {sites: [FRA, LON, NYC], message_mb: 200, compute_s: 0.5}

Rates and messages are those of the real network, as in a topology file: an emulation at rate_scale
0.01 carries a hundredth of them, so that times stay real. Times count from the moment when all
workers have met.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from topologies.errors import UserError
from topologies.model import Topology
from workloads.errors import UsageError
from workloads.table import read_table

PROTOCOLS = ("tcp", "udp")
LEAST_MBPS, MOST_MBPS = 0.001, 1e6
MOST_MB = 1e7
MATRIX_COLUMNS = ("source", "target", "rate_mbps")

Code = Annotated[str, Field(min_length=1, max_length=8, description="a site's code, such as NYC")]
RateMbps = Annotated[
    float,
    Field(
        ge=LEAST_MBPS,
        le=MOST_MBPS,
        description="Mbit/s of the real network, before rate_scale: "
        f"from {LEAST_MBPS:g} to {MOST_MBPS:.0f}",
    ),
]
MessageMb = Annotated[
    float,
    Field(
        gt=0,
        le=MOST_MB,
        description=f"MB of the real network, before rate_scale: above 0, up to {MOST_MB:.0f}",
    ),
]
Seconds = Annotated[
    float, Field(ge=0, le=1e6, allow_inf_nan=False, description="seconds, 0 or more")
]
Pulse = Annotated[
    float, Field(ge=0.01, le=1e6, allow_inf_nan=False, description="seconds, 0.01 or more")
]
Span = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, description="seconds above 0")]

_NO_OTHER_FIELDS = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class BackgroundFlow:
    """Packets from one site to another.

    Attributes:
        source: code of the sending site.
        target: code of the receiving site.
        protocol: `tcp`, which gives way, or `udp`, which does not.
        rate_mbps: payload offered, of the real network; None lets TCP take what it gets.
        start_s: when it begins.
        stop_s: when it ends; None with the training.
        on_s: how long it is on at a time; None without a pattern.
        off_s: how long it is off in between.
        pattern: `fixed` spans, or `exponential` ones with these means.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    source: Code
    target: Code
    protocol: Literal["tcp", "udp"] = "tcp"
    rate_mbps: RateMbps | None = None
    start_s: Seconds = 0.0
    stop_s: Span | None = None
    on_s: Pulse | None = None
    off_s: Pulse | None = None
    pattern: Literal["fixed", "exponential"] = "fixed"


@dataclass(frozen=True)
class TenantJob:
    """Another tenant's training: a ring all-reduce over and over, as far as the network sees it.

    Attributes:
        sites: in the order of the ring.
        message_mb: MB of 10^6 that each site contributes to a round, of the real network.
        compute_s: pause before each round.
        start_s: when it begins.
        stop_s: when it ends; None with the training.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    sites: Annotated[
        tuple[Code, ...],
        Field(min_length=2, description="a list of two sites or more, such as [NYC, LON]"),
    ]
    message_mb: MessageMb
    compute_s: Seconds = 0.0
    start_s: Seconds = 0.0
    stop_s: Span | None = None


Entry = BackgroundFlow | TenantJob


def check_entry(entry: Entry, topology: Topology) -> None:
    """Raise UserError for what this network cannot have beside a training, with what is right."""
    sites = entry.sites if isinstance(entry, TenantJob) else (entry.source, entry.target)
    _check_sites(sites, topology)
    if len(set(sites)) != len(sites):
        raise UserError(f"{_twice(sites)} would send to itself; name different sites")
    if entry.stop_s is not None and entry.stop_s <= entry.start_s:
        wrong = f"stop_s: {entry.stop_s:g} is not after start_s, {entry.start_s:g}"
        raise UserError(f"{wrong}; give a later one, or leave it out")
    if isinstance(entry, BackgroundFlow):
        _check_flow(entry, topology)


def _check_sites(sites: Sequence[str], topology: Topology) -> None:
    for site in sites:
        if site not in topology.codes:
            known = ", ".join(topology.codes)
            raise UserError(f"no site {site!r} in {topology.name}; sites are {known}")


def _twice(sites: Sequence[str]) -> str:
    return next(site for site in sites if sites.count(site) > 1)


def _check_flow(flow: BackgroundFlow, topology: Topology) -> None:
    if (flow.on_s is None) != (flow.off_s is None):
        raise UserError("on_s and off_s go together; give both or none")
    if flow.pattern != "fixed" and flow.on_s is None:
        raise UserError(f"pattern: {flow.pattern} without on_s and off_s; give both")
    if flow.protocol != "udp":
        return
    if flow.rate_mbps is None:
        raise UserError("rate_mbps: missing; UDP has no pace of its own, so it needs a rate")
    port_mbps = topology.access[flow.source].rate_mbps
    if flow.rate_mbps > port_mbps:
        wrong = f"rate_mbps: {flow.rate_mbps:g} is more than {flow.source}'s port carries"
        raise UserError(f"{wrong}; give at most {port_mbps:g}")


def read_traffic_matrix(path: Path, topology: Topology) -> tuple[BackgroundFlow, ...]:
    """Read a traffic matrix: a flow for each line with a rate above zero.

    Args:
        path: CSV with the columns source, target and rate_mbps, and perhaps protocol.
        topology: the network it is for.

    Raises:
        UserError: the file, a column or a value is wrong; the text names the line.
    """
    try:
        lines = read_table(path, MATRIX_COLUMNS, ("protocol",))
    except UsageError as error:
        raise UserError(str(error)) from None
    flows = [_matrix_flow(cells, place, topology) for place, cells in lines]
    return tuple(flow for flow in flows if flow.rate_mbps)


def _matrix_flow(cells: Mapping[str, str], place: str, topology: Topology) -> BackgroundFlow:
    rate_mbps = _matrix_rate(cells["rate_mbps"], place)
    protocol = cells.get("protocol") or "tcp"
    if protocol not in PROTOCOLS:
        raise UserError(f"{place}: protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    spoken: Literal["tcp", "udp"] = "udp" if protocol == "udp" else "tcp"
    flow = BackgroundFlow(cells["source"], cells["target"], spoken, rate_mbps)
    try:
        _check_sites((flow.source, flow.target), topology)
        if rate_mbps:
            check_entry(flow, topology)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    return flow


def _matrix_rate(text: str, place: str) -> float:
    try:
        rate_mbps = float(text)
    except ValueError:
        rate_mbps = math.nan
    if not 0 <= rate_mbps <= MOST_MBPS or 0 < rate_mbps < LEAST_MBPS:
        right = f"give Mbit/s, 0 or from {LEAST_MBPS:g} to {MOST_MBPS:.0f}"
        raise UserError(f"{place}: rate_mbps: {text[:30]!r} is no rate; {right}")
    return rate_mbps
