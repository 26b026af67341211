"""One end of a flow, as plain data that is checked field by field, and when the flow is on. Pure.

A flow is on from `start_s` to `stop_s`. With `on_s` and `off_s` it alternates within that time:
`fixed` spans, or `exponential` ones with these means, drawn from the flow's own seed (the on-off
source of Willinger and others, IEEE/ACM Trans. Networking 1997, with light tails).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from workloads.errors import UsageError

TCP, UDP = "tcp", "udp"
SEND, RECEIVE = "send", "receive"
FIXED, EXPONENTIAL = "fixed", "exponential"
FOREVER_S = math.inf
MOST_PORT = 65535


@dataclass(frozen=True)
class FlowEnd:
    """What an island has to do for one flow.

    Attributes:
        flow: name, the same at both ends.
        number: the same at both ends; datagrams carry it.
        role: `send` or `receive`.
        protocol: `tcp` or `udp`.
        address: of the receiver.
        port: at the receiver.
        rate_mbps: payload offered while the flow is on; 0 is as much as TCP takes.
        start_s: after the common beginning.
        stop_s: after the common beginning; infinite by default.
        on_s: how long the flow is on at a time, 0 without a pattern.
        off_s: how long it then is off.
        pattern: `fixed` or `exponential` spans.
        datagram_bytes: payload of a UDP packet.
        seed: of the pattern.
        fed_by: flow that arrives here and sets the pace, for a tenant's ring; empty otherwise.
        step_bytes: what a ring's member sends in a step.
        steps: of one round of the ring.
        compute_s: what a ring's member computes before each round.
    """

    flow: str
    number: int
    role: str
    protocol: str
    address: str
    port: int
    rate_mbps: float = 0.0
    start_s: float = 0.0
    stop_s: float = FOREVER_S
    on_s: float = 0.0
    off_s: float = 0.0
    pattern: str = FIXED
    datagram_bytes: int = 1400
    seed: int = 0
    fed_by: str = ""
    step_bytes: int = 0
    steps: int = 0
    compute_s: float = 0.0

    def plain(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, ready for JSON."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.default is MISSING or getattr(self, field.name) != field.default
        }


def dump_ends(ends: Sequence[FlowEnd]) -> str:
    """Return an island's ends as JSON text."""
    return json.dumps([end.plain() for end in ends], separators=(",", ":"))


def parse_ends(text: str) -> tuple[FlowEnd, ...]:
    """Read what `dump_ends` wrote; raises UsageError for the first field that is wrong."""
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--flows: {error}") from None
    if not isinstance(rows, list):
        raise UsageError("--flows: give a list of flows")
    ends = tuple(_end(row, place) for place, row in enumerate(rows))
    names = [(end.flow, end.role) for end in ends]
    if len(set(names)) != len(names):
        raise UsageError("--flows: two flows have one name")
    return ends


def _end(row: Any, place: int) -> FlowEnd:
    if not isinstance(row, dict):
        raise UsageError(f"--flows: item {place} is no object")
    known = {field.name: field for field in fields(FlowEnd)}
    for name in row:
        if name not in known:
            raise UsageError(f"--flows: item {place} has no field {name!r}")
    missing = [n for n, f in known.items() if f.default is MISSING and n not in row]
    if missing:
        raise UsageError(f"--flows: item {place} lacks {missing[0]}")
    values = {name: _typed(name, str(known[name].type), value) for name, value in row.items()}
    return _checked(FlowEnd(**values))


def _typed(name: str, type_name: str, value: Any) -> Any:
    allowed: tuple[type, ...] = {"str": (str,), "int": (int,)}.get(type_name, (int, float))
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise UsageError(f"--flows: {name}: {value!r} is no {type_name}")
    return value if type_name == "str" else {"int": int, "float": float}[type_name](value)


def _checked(end: FlowEnd) -> FlowEnd:
    for name, allowed in (
        ("role", (SEND, RECEIVE)),
        ("protocol", (TCP, UDP)),
        ("pattern", (FIXED, EXPONENTIAL)),
    ):
        if getattr(end, name) not in allowed:
            raise UsageError(f"--flows: {name}: {getattr(end, name)!r} is none of {allowed}")
    for name in ("rate_mbps", "start_s", "on_s", "off_s", "compute_s", "step_bytes", "steps"):
        if not 0 <= getattr(end, name) < math.inf:
            raise UsageError(f"--flows: {name}: {getattr(end, name)} is not zero or more")
    if not end.start_s <= end.stop_s:
        raise UsageError(f"--flows: stop_s: {end.stop_s} is before start_s")
    if not 0 < end.port <= MOST_PORT:
        raise UsageError(f"--flows: port: {end.port} is none")
    if end.protocol == UDP and not end.rate_mbps:
        raise UsageError("--flows: rate_mbps: UDP has no pace of its own, give one")
    if end.steps and not (end.fed_by and end.step_bytes):
        raise UsageError("--flows: steps: a ring's member needs fed_by and step_bytes")
    return end


def on_spans(end: FlowEnd) -> Iterator[tuple[float, float]]:
    """Return the spans in which a flow is on, in seconds after the common beginning, in order."""
    if not end.on_s or not end.off_s:
        yield end.start_s, end.stop_s
        return
    lengths = _lengths(end)
    begin = end.start_s
    while begin < end.stop_s:
        stop = begin + next(lengths)
        yield begin, min(stop, end.stop_s)
        begin = stop + next(lengths)


def _lengths(end: FlowEnd) -> Iterator[float]:
    """Return lengths on and off by turns."""
    numbers = random.Random(end.seed)
    while True:
        for mean_s in (end.on_s, end.off_s):
            random_s = numbers.expovariate(1 / mean_s)
            yield random_s if end.pattern == EXPONENTIAL else mean_s


def senders(ends: Sequence[FlowEnd]) -> tuple[FlowEnd, ...]:
    """Return the ends that send."""
    return tuple(end for end in ends if end.role == SEND)


def receivers(ends: Sequence[FlowEnd]) -> Mapping[str, FlowEnd]:
    """Return the ends that receive, by the name of the flow."""
    return {end.flow: end for end in ends if end.role == RECEIVE}
