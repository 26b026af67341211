"""What goes on beside a training: flows between sites, jobs of other tenants, a traffic matrix.

    background:
      - {source: NYC, target: LON, protocol: tcp, rate_mbps: 2000}
      - {source: SIN, target: BAR, protocol: udp, rate_mbps: 1000, on_s: 2, off_s: 1}
      - {job: {sites: [FRA, LON, NYC], message_mb: 200, compute_s: 0.5}}
    traffic_matrix: offered.csv        # source,target,rate_mbps[,protocol]

Rates and messages are those of the real network, as in a topology file: an emulation at rate_scale
0.01 carries a hundredth of them, so that times stay real. Times count from the moment when all
workers have met.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from topologies.errors import UserError
from topologies.model import Topology

PROTOCOLS = ("tcp", "udp")
PATTERNS = ("fixed", "exponential")
MATRIX_COLUMNS = ("source", "target", "rate_mbps")


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

    source: str
    target: str
    protocol: str = "tcp"
    rate_mbps: float | None = None
    start_s: float = 0.0
    stop_s: float | None = None
    on_s: float | None = None
    off_s: float | None = None
    pattern: str = "fixed"


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

    sites: tuple[str, ...]
    message_mb: float
    compute_s: float = 0.0
    start_s: float = 0.0
    stop_s: float | None = None


Background = tuple[BackgroundFlow | TenantJob, ...]

_SECONDS = {"type": "number", "minimum": 0, "maximum": 1e6, "description": "seconds"}
_SPAN = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6, "description": "seconds above 0"}
_CODE = {"type": "string", "description": "code of a site"}
_RATE = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": 1e6,
    "description": "Mbit/s above 0, of the real network",
}
FLOW_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["source", "target"],
    "properties": {
        "source": _CODE,
        "target": _CODE,
        "protocol": {"enum": list(PROTOCOLS)},
        "rate_mbps": _RATE,
        "start_s": _SECONDS,
        "stop_s": _SPAN,
        "on_s": _SPAN,
        "off_s": _SPAN,
        "pattern": {"enum": list(PATTERNS)},
    },
}
JOB_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["job"],
    "properties": {
        "job": {
            "type": "object",
            "additionalProperties": False,
            "required": ["sites", "message_mb"],
            "properties": {
                "sites": {"type": "array", "items": _CODE, "minItems": 2, "uniqueItems": True},
                "message_mb": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 1e7,
                    "description": "MB above 0, of the real network",
                },
                "compute_s": _SECONDS,
                "start_s": _SECONDS,
                "stop_s": _SPAN,
            },
        }
    },
}
BACKGROUND_SCHEMA: Mapping[str, Any] = {
    "if": {"type": "object", "required": ["job"]},
    "then": JOB_SCHEMA,
    "else": FLOW_SCHEMA,
}


def read_background(items: Iterable[Mapping[str, Any]]) -> Background:
    """Return the entries of a checked list; see `BACKGROUND_SCHEMA`."""
    return tuple(
        _job(item["job"]) if "job" in item else BackgroundFlow(**_floats(BackgroundFlow, item))
        for item in items
    )


def _job(item: Mapping[str, Any]) -> TenantJob:
    return TenantJob(**{**_floats(TenantJob, item), "sites": tuple(item["sites"])})


def _floats(kind: type, item: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {field.name for field in fields(kind) if "float" in str(field.type)}
    return {k: float(v) if k in numbers and v is not None else v for k, v in item.items()}


def check_background(entries: Sequence[BackgroundFlow | TenantJob], topology: Topology) -> None:
    """Raise UserError for the first entry that this network cannot have, with what is right."""
    for place, entry in enumerate(entries):
        try:
            _check_sites(entry, topology)
            _check_times(entry)
        except UserError as error:
            raise UserError(f"background: item {place + 1}: {error}") from None


def _check_sites(entry: BackgroundFlow | TenantJob, topology: Topology) -> None:
    sites = entry.sites if isinstance(entry, TenantJob) else (entry.source, entry.target)
    for site in sites:
        if site not in topology.codes:
            raise UserError(
                f"no site {site!r} in {topology.name}; sites are {', '.join(topology.codes)}"
            )
    if len(set(sites)) != len(sites) or len(sites) < 2:
        raise UserError(f"{sites[0]} would send to itself; name different sites")


def _check_times(entry: BackgroundFlow | TenantJob) -> None:
    if entry.stop_s is not None and entry.stop_s <= entry.start_s:
        raise UserError(f"stop_s: {entry.stop_s:g} is not after start_s, {entry.start_s:g}")
    if isinstance(entry, TenantJob):
        return
    if (entry.on_s is None) != (entry.off_s is None):
        raise UserError("on_s and off_s go together; give both or none")
    if entry.protocol == "udp" and entry.rate_mbps is None:
        raise UserError("rate_mbps: UDP has no pace of its own, so it needs a rate")


def read_traffic_matrix(path: Path, topology: Topology) -> tuple[BackgroundFlow, ...]:
    """Read a traffic matrix: a flow for each line with a rate above zero.

    Args:
        path: CSV with the columns source, target and rate_mbps, and perhaps protocol.
        topology: the network it is for.

    Raises:
        UserError: the file, a column or a value is wrong; the text names the line.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
            columns = tuple(rows[0]) if rows else MATRIX_COLUMNS
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or 'not text'}") from None
    missing = [name for name in MATRIX_COLUMNS if name not in columns]
    strange = [str(name) for name in columns if name not in (*MATRIX_COLUMNS, "protocol")]
    if missing or strange:
        wrong = f"lacks the column {missing[0]}" if missing else f"has a column {strange[0]!r}"
        raise UserError(f"{path}:1: {wrong}; columns are source,target,rate_mbps[,protocol]")
    flows = [_matrix_flow(row, f"{path}:{line}", topology) for line, row in enumerate(rows, 2)]
    return tuple(flow for flow in flows if flow.rate_mbps)


def _matrix_flow(row: Mapping[str, Any], place: str, topology: Topology) -> BackgroundFlow:
    protocol = row.get("protocol") or "tcp"
    if protocol not in PROTOCOLS:
        raise UserError(f"{place}: protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    try:
        rate_mbps = float(row["rate_mbps"])
    except (TypeError, ValueError):
        rate_mbps = math.nan
    if not 0 <= rate_mbps <= _RATE["maximum"]:  # type: ignore[operator]
        raise UserError(f"{place}: rate_mbps: {row['rate_mbps']!r} is no number of Mbit/s")
    flow = BackgroundFlow(str(row["source"]), str(row["target"]), protocol, rate_mbps)
    try:
        _check_sites(flow, topology)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    return flow
