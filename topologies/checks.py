"""What is wrong with a topology file, in words: where, what, and what is right.

Two kinds of mistake: a value that its field does not allow (found by the pydantic models of
`topologies.schema`, worded here), and rows that do not fit each other (found here). All functions
are pure; the first mistake in the file's order becomes the user's one line.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
from pydantic import ValidationError

from topologies.document import Document, Path
from topologies.geography import fibre_delay_ms
from topologies.model import frame_ms, shortest_burst_packets
from topologies.schema import DirectionRow, LinkRow, TopologyFile, schema_at

NAMES_SHOWN = 12


@dataclass(frozen=True)
class Mistake:
    """One mistake: the place in the file, what was wrong there and what is right."""

    path: Path
    wrong: str
    right: str


def checked(document: Document) -> TopologyFile:
    """Return the file's contents; raises UserError for the first mistake, counting the others."""
    if not isinstance(document.data, dict):
        raise document.mistake(
            (), f"holds {_kind(document.data)}", "its top is 'name: ...', 'sites: ...' and so on"
        )
    try:
        rows = TopologyFile.model_validate(document.data)
    except ValidationError as error:
        _raise_first(document, [_worded(e["loc"], e["type"], e["input"]) for e in error.errors()])
        raise
    _raise_first(document, list(misfits(rows, document)))
    return rows


def _raise_first(document: Document, mistakes: list[Mistake]) -> None:
    if not mistakes:
        return
    first = min(mistakes, key=lambda mistake: document.line(mistake.path) or 0)
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    raise document.mistake(first.path, first.wrong, first.right + more)


# --- values that their field does not allow -------------------------------------------------------


def _worded(path: Path, kind: str, value: Any) -> Mistake:
    """Word one pydantic error."""
    if kind == "extra_forbidden":
        return _unknown_key(path)
    rule = schema_at(path)
    right = rule["description"]
    if "properties" in rule:
        right = f"keys among {listed(rule['properties'])}"
    if kind == "missing":
        return Mistake(path, "missing", f"give {right}")
    suggestion = suggested_number(str(path[-1]), value)
    if suggestion is not None and rule["minimum"] <= suggestion <= rule["maximum"]:
        return Mistake(path, _unfit(kind, value), f"write {suggestion:.12g} ({right})")
    if kind == "string_pattern_mismatch" and path[-1] in ("code", "a", "b"):
        right += _capitals(str(value))
    return Mistake(path, _unfit(kind, value), f"give {right}")


def _unknown_key(path: Path) -> Mistake:
    known = list(schema_at(path[:-1]).get("properties", {}))
    guess = closest(str(path[-1]), known)
    right = f"did you mean {guess!r}?" if guess else f"known here are {listed(known)}"
    return Mistake(path, "unknown key", right)


def _unfit(kind: str, value: Any) -> str:
    if kind == "too_short":
        return f"{len(value)} is too few"
    if isinstance(value, (dict, list)):
        return f"{_kind(value)} does not belong here"
    if isinstance(value, str) and kind in ("float_type", "int_type"):
        return f"{shown(value)} is text, not a number"
    reasons = {
        "less_than_equal": "too large",
        "greater_than_equal": "too small",
        "greater_than": "too small",
        "finite_number": "not a number",
        "float_type": "not a number",
        "int_type": "not a whole number",
        "string_type": "not text (in quotes it would be)",
    }
    return f"{shown(value)} is {reasons.get(kind, 'not allowed')}"


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else shown(value)


def _capitals(code: str) -> str:
    fitting = re.fullmatch(r"[A-Z][A-Z0-9]{1,7}", code.upper())
    return f"; did you mean {code.upper()}?" if fitting else ""


# --- numbers in another unit ----------------------------------------------------------------------

UNITS: Mapping[str, Mapping[str, float]] = {
    "rate_mbps": {"": 1, "bit": 1e-6, "k": 1e-3, "m": 1, "g": 1e3, "t": 1e6},
    "one_way_delay_ms": {"": 1, "ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1e3},
    "distance_km": {"": 1, "m": 1e-3, "km": 1, "mi": 1.609344, "miles": 1.609344},
    "loss_pct": {"": 1, "%": 1, "pct": 1, "percent": 1},
    "loss_burst_packets": {"": 1, "packets": 1, "frames": 1},
    "mtu_bytes": {"": 1, "b": 1, "bytes": 1},
    "latitude": {"": 1, "n": 1, "s": -1, "°": 1},
    "longitude": {"": 1, "e": 1, "w": -1, "°": 1},
}
SAME_UNITS = {
    "jitter_ms": "one_way_delay_ms",
    "queue_ms": "one_way_delay_ms",
    "duplicate_pct": "loss_pct",
    "corrupt_pct": "loss_pct",
}
RATE_UNIT = re.compile(r"([kmgt]?)i?(?:b|bit|bits)(?:ps|/s|/sec)?|([kmgt])", re.IGNORECASE)


def suggested_number(field: str, value: Any) -> float | None:
    """Return the number a user most likely meant: `10Gbps` in `rate_mbps` is 10000."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([-+]?[0-9][0-9_,]*(?:\.[0-9]+)?)\s*([^\s0-9]*)\s*", value)
        factor = _factor(field, match[2]) if match else None
        digits = re.sub(r"[_,]", "", match[1]) if match else "0"
        return None if factor is None else float(digits) * factor
    if field == "rate_mbps" and isinstance(value, (int, float)) and 1e6 < value <= 1e12:
        return value / 1e6
    return None


def _factor(field: str, unit: str) -> float | None:
    if field == "rate_mbps" and unit:
        match = RATE_UNIT.fullmatch(unit)
        if match is None:
            return None
        factor = UNITS[field][(match[1] or match[2] or "bit").lower()]
        return factor * 8 if "B" in unit else factor
    return UNITS.get(SAME_UNITS.get(field, field), {}).get(unit.lower())


# --- rows that do not fit each other --------------------------------------------------------------


def misfits(rows: TopologyFile, document: Document) -> Iterator[Mistake]:
    """Yield what is wrong between rows that are each well formed."""
    ends = list(_wrong_ends(rows))
    yield from _repeated_sites(rows, document)
    yield from ends
    yield from _repeated_links(rows, document)
    yield from _wrong_directions(rows)
    if not ends:
        yield from _unconnected(rows)


def _repeated_sites(rows: TopologyFile, document: Document) -> Iterator[Mistake]:
    first: dict[str, int] = {}
    for index, site in enumerate(rows.sites):
        at = first.setdefault(site.code, index)
        if at != index:
            wrong = f"site {site.code} is given already{_on_line(document, ('sites', at))}"
            yield Mistake(("sites", index, "code"), wrong, "each site has a code of its own")


def _repeated_links(rows: TopologyFile, document: Document) -> Iterator[Mistake]:
    first: dict[frozenset[str], int] = {}
    for index, link in enumerate(rows.links):
        at = first.setdefault(frozenset((link.a, link.b)), index)
        if at != index:
            wrong = f"{link.a}-{link.b} is given already{_on_line(document, ('links', at))}"
            right = "one link a pair; 'forward' and 'backward' hold what differs by direction"
            yield Mistake(("links", index), wrong, right)


def _on_line(document: Document, path: Path) -> str:
    line = document.line(path)
    return "" if line is None else f" on line {line}"


def _wrong_ends(rows: TopologyFile) -> Iterator[Mistake]:
    codes = [site.code for site in rows.sites]
    for index, link in enumerate(rows.links):
        for end in ("a", "b"):
            code = getattr(link, end)
            if code not in codes:
                guess = closest(code, codes)
                right = f"did you mean {guess}?" if guess else f"sites are {listed(codes)}"
                yield Mistake(("links", index, end), f"{code} is not among the sites", right)
        if link.a == link.b:
            wrong = f"the link joins {link.a} to itself"
            yield Mistake(("links", index, "b"), wrong, "name another site")


def link_layers(rows: TopologyFile, link: LinkRow, way: str) -> list[DirectionRow]:
    """Return what describes one way of a link, the weakest first."""
    return [rows.defaults.link, link, link.forward if way == "forward" else link.backward]


def merged(layers: Iterable[DirectionRow]) -> dict[str, float]:
    """Lay rows over each other; a distance becomes a delay and replaces one below it."""
    fields: dict[str, float] = {}
    for layer in layers:
        given = {
            name: value
            for name in DirectionRow.model_fields
            if (value := getattr(layer, name)) is not None
        }
        if "distance_km" in given:
            given["one_way_delay_ms"] = fibre_delay_ms(given.pop("distance_km"))
        fields |= given
    return fields


def _wrong_directions(rows: TopologyFile) -> Iterator[Mistake]:
    for place in ("link", "access"):
        yield from _two_delays(("defaults", place), getattr(rows.defaults, place))
    for index, site in enumerate(rows.sites):
        path: Path = ("sites", index, "access")
        yield from _two_delays(path, site.access)
        fields = access_layers_fields(rows, site.access)
        yield from _incomplete(path, fields, "defaults.access")
        yield from _impossible(path, fields, rows.mtu_bytes)
    for index, link in enumerate(rows.links):
        yield from _two_delays(("links", index), link)
        for way in ("forward", "backward"):
            path = ("links", index, way)
            yield from _two_delays(path, getattr(link, way))
        yield from _wrong_link(("links", index), rows, link)


def _wrong_link(path: Path, rows: TopologyFile, link: LinkRow) -> Iterator[Mistake]:
    found = {}
    for way in ("forward", "backward"):
        fields = merged(link_layers(rows, link, way))
        found[way] = [
            *_incomplete(path, fields, "defaults.link"),
            *_impossible(path, fields, rows.mtu_bytes),
        ]
    yield from found["forward"] or found["backward"]


def access_layers_fields(rows: TopologyFile, access: DirectionRow) -> dict[str, float]:
    """Return an access port's fields; its delay is 0 where nothing says otherwise."""
    return {"one_way_delay_ms": 0.0} | merged([rows.defaults.access, access])


def _two_delays(path: Path, row: DirectionRow) -> Iterator[Mistake]:
    if row.one_way_delay_ms is not None and row.distance_km is not None:
        yield Mistake((*path, "distance_km"), "one_way_delay_ms is given too", "keep one of them")


def _incomplete(path: Path, fields: Mapping[str, float], defaults: str) -> Iterator[Mistake]:
    for name in ("rate_mbps", "one_way_delay_ms"):
        if name not in fields:
            right = f"give it here or in {defaults}: {schema_at(('links', 0, name))['description']}"
            yield Mistake((*path, name), "missing", right)
    if "loss_burst_packets" in fields and "loss_pct" not in fields:
        right = f"give {schema_at(('links', 0, 'loss_pct'))['description']}"
        yield Mistake((*path, "loss_pct"), "missing beside loss_burst_packets", right)


def _impossible(path: Path, fields: Mapping[str, float], mtu_bytes: int) -> Iterator[Mistake]:
    """Yield what no direction can do, its fields laid over each other."""
    delay, jitter = fields.get("one_way_delay_ms", 0.0), fields.get("jitter_ms", 0.0)
    if jitter > delay:
        wrong = f"{jitter:g} ms is more than the delay of {delay:g} ms"
        yield Mistake((*path, "jitter_ms"), wrong, "packets cannot arrive before they are sent")
    frame = frame_ms(mtu_bytes, fields.get("rate_mbps", math.inf))
    if fields.get("queue_ms", math.inf) < frame:
        wrong = f"{fields['queue_ms']:g} ms is shorter than one packet of {mtu_bytes} bytes"
        right = f"give at least {math.ceil(frame * 1e6) / 1e6:g}, or leave it out"
        yield Mistake((*path, "queue_ms"), wrong, right)
    yield from _impossible_bursts(path, fields)


def _impossible_bursts(path: Path, fields: Mapping[str, float]) -> Iterator[Mistake]:
    loss, burst = fields.get("loss_pct", 0.0), fields.get("loss_burst_packets", math.inf)
    if burst < (shortest := shortest_burst_packets(loss)):
        wrong = f"{burst:g} is too short for a loss of {loss:g} %"
        right = (
            "leave it out: everything is lost"
            if shortest == math.inf
            else f"give at least {math.ceil(shortest * 1e3) / 1e3:g}, or leave it out"
        )
        yield Mistake((*path, "loss_burst_packets"), wrong, right)


def _unconnected(rows: TopologyFile) -> Iterator[Mistake]:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(site.code for site in rows.sites)
    graph.add_edges_from((link.a, link.b) for link in rows.links)
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda p: p[0])
    if len(parts) > 1:
        near, far = listed(parts[0]), listed(parts[1])
        wrong = f"no link leads from {near} to {far}"
        yield Mistake(("links",), wrong, "add a link between the two sides")


# --- wording --------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """Return a value as it may stand in one line: booleans as in YAML, long text cut."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def listed(names: Iterable[str]) -> str:
    """Return names in a row, the first dozen of many."""
    names = list(names)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` most likely meant, if any is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return near[0] if near else None
