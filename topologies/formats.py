"""Other people's topologies: networkx graphs and GraphML, in and out.

The Internet Topology Zoo (Knight et al., 2011; data under CC BY 4.0) gives some 260 networks as
GraphML: cities with positions, links often without a rate and always without a delay. What such a
file does not say is taken from what its user states: the rate from `rate_mbps`, the delay from the
great circle at 204 km/ms, the site code from the city's name. A graph that this module wrote says
everything and is read back as it was.

    python -m topologies.formats Abilene.graphml --rate-mbps 10000 > mine.yaml
    python -m topologies.formats nine_city --graphml > nine_city.graphml
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import networkx as nx

from topologies.document import Document
from topologies.errors import AtollError, UserError
from topologies.files import dump, load, read_file, topology_of
from topologies.geography import fibre_delay_ms, great_circle_km
from topologies.model import DirectionSpec, Topology

Attributes = Mapping[str, Any]

CODE = re.compile(r"[A-Z][A-Z0-9]{1,7}")
ACCESS_PREFIX = "access_"
SPEC_FIELDS = tuple(each.name for each in fields(DirectionSpec))


def to_networkx(topology: Topology) -> nx.DiGraph[str]:
    """Return the WAN as a directed graph: an edge each direction, every field as an attribute."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for fact in ("name", "source", "licence", "mtu_bytes"):
        graph.graph[fact] = getattr(topology, fact)
    for site in topology.sites:
        access = _given(topology.access[site.code])
        graph.add_node(
            site.code,
            city=site.city,
            latitude=site.latitude,
            longitude=site.longitude,
            **{ACCESS_PREFIX + key: value for key, value in access.items()},
        )
    for way, spec in topology.wan_directions().items():
        graph.add_edge(way.source, way.target, **_given(spec))
    return graph


def _given(spec: DirectionSpec) -> dict[str, float]:
    return {key: value for key, value in asdict(spec).items() if value is not None}


def write_graphml(topology: Topology) -> str:
    """Return the topology as GraphML text."""
    return "\n".join(nx.generate_graphml(to_networkx(topology)))


def read_graphml(
    path: str, rate_mbps: float | None = None, access_rate_mbps: float | None = None
) -> Topology:
    """Read a GraphML file; see `from_networkx`. Raises UserError for a bad file."""
    text = read_file(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError(f"{path}: XML entities are not part of GraphML; take the DOCTYPE out")
    try:
        graph = nx.parse_graphml(text)
    except Exception as error:  # networkx lets through whatever its parser meets
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: not GraphML that networkx can read: {reason}") from None
    return from_networkx(graph, path, rate_mbps, access_rate_mbps)


def from_networkx(
    graph: nx.Graph[Any],
    file: str = "graph",
    rate_mbps: float | None = None,
    access_rate_mbps: float | None = None,
) -> Topology:
    """Return the topology that a graph with positions describes.

    An undirected edge, or a directed one without its reverse, holds both ways. Parallel edges
    become one link that has the sum of their rates and the least of their delays.

    Args:
        graph: nodes with `latitude`, `longitude` and `city` or `label` in any case of letters;
            edges with `rate_mbps`, or the Zoo's `LinkSpeedRaw` in bit/s, or neither.
        file: what errors call the graph.
        rate_mbps: the rate of edges that have none.
        access_rate_mbps: the rate of access ports that have none; else `rate_mbps`.

    Raises:
        UserError: a node has no position, an edge no rate, or the result is no valid topology.
    """
    nodes = {node: _lower(data) for node, data in graph.nodes(data=True)}
    _check_positions(nodes, file)
    codes = _codes(nodes)
    data = {
        **_head(_lower(graph.graph), file),
        "sites": [
            _site_row(codes[node], node, nodes[node], access_rate_mbps or rate_mbps)
            for node in nodes
        ],
        "links": list(_link_rows(graph, codes, nodes, rate_mbps)),
    }
    return topology_of(Document(file, data))


def _lower(data: Attributes) -> dict[str, Any]:
    return {str(key).lower(): value for key, value in data.items()}


def _check_positions(nodes: Mapping[Any, Attributes], file: str) -> None:
    lost = [str(n) for n, data in nodes.items() if not {"latitude", "longitude"} <= set(data)]
    if lost:
        raise UserError(
            f"{file}: node {lost[0]}: no position ({len(lost)} such nodes); "
            "give each node a Latitude and a Longitude, or take it out"
        )


def _head(facts: Attributes, file: str) -> dict[str, Any]:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", str(facts.get("name") or facts.get("network", "")))
    name = plain if re.match("[A-Za-z]", plain) else f"imported{'_' * bool(plain)}{plain}"
    origin = str(facts.get("source") or f"imported from {Path(file).name}")
    unknown = "not stated in the imported file"
    zoo = "CC BY 4.0 (The Internet Topology Zoo)" if facts.get("creator") else unknown
    head = {"name": name[:64], "source": origin, "licence": str(facts.get("licence") or zoo)}
    return head | ({"mtu_bytes": facts["mtu_bytes"]} if "mtu_bytes" in facts else {})


def _codes(nodes: Mapping[Any, Attributes]) -> dict[Any, str]:
    """Give each node a code: its own name if that is one, else from the city, numbered on."""
    codes = {node: node for node in nodes if isinstance(node, str) and CODE.fullmatch(node)}
    taken = set(codes.values())
    for node in sorted(set(nodes) - set(codes), key=lambda n: (_city(n, nodes[n]), str(n))):
        codes[node] = next(
            code for code in _candidates(_city(node, nodes[node])) if code not in taken
        )
        taken.add(codes[node])
    return codes


def _candidates(city: str) -> Iterator[str]:
    ascii_city = unicodedata.normalize("NFKD", city).encode("ascii", "ignore").decode()
    letters = re.sub(r"[^A-Z0-9]", "", ascii_city.upper()).lstrip("0123456789")
    stem = letters[:3] if len(letters) >= 2 else f"S{letters}"
    if CODE.fullmatch(stem):
        yield stem
    yield from (f"{stem}{number}" for number in range(2, 10_000))


def _city(node: Any, data: Attributes) -> str:
    return str(data.get("city") or data.get("label") or node)


def _site_row(code: str, node: Any, data: Attributes, rate_mbps: float | None) -> dict[str, Any]:
    access = {key: data[ACCESS_PREFIX + key] for key in SPEC_FIELDS if ACCESS_PREFIX + key in data}
    if rate_mbps is not None:
        access.setdefault("rate_mbps", rate_mbps)
    place = {key: data[key] for key in ("latitude", "longitude")}
    return {"code": code, "city": _city(node, data), **place, "access": access}


def _link_rows(
    graph: nx.Graph[Any],
    codes: Mapping[Any, str],
    nodes: Mapping[Any, Attributes],
    rate_mbps: float | None,
) -> Iterator[dict[str, Any]]:
    ways: dict[tuple[str, str], dict[str, Any]] = {}
    for u, v, data in graph.edges(data=True):
        fields = _edge_fields(_lower(data), nodes[u], nodes[v], rate_mbps)
        pair = (codes[u], codes[v])
        if not graph.is_directed():
            pair = min(pair, pair[::-1])
        ways[pair] = _parallel(ways[pair], fields) if pair in ways else fields
    for a, b in sorted({min(pair, pair[::-1]) for pair in ways}):
        forward, backward = ways.get((a, b)), ways.get((b, a))
        yield {"a": a, "b": b, "forward": forward or backward, "backward": backward or forward}


def _edge_fields(
    edge: Attributes, u: Attributes, v: Attributes, rate_mbps: float | None
) -> dict[str, Any]:
    fields = {key: edge[key] for key in SPEC_FIELDS if key in edge}
    if "linkspeedraw" in edge:
        fields.setdefault("rate_mbps", float(edge["linkspeedraw"]) / 1e6)
    if rate_mbps is not None:
        fields.setdefault("rate_mbps", rate_mbps)
    if "one_way_delay_ms" not in fields:
        places = (u["latitude"], u["longitude"], v["latitude"], v["longitude"])
        fields["one_way_delay_ms"] = fibre_delay_ms(great_circle_km(*map(float, places)))
    return fields


def _parallel(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    sums = {key: one[key] + other[key] for key in ("rate_mbps",) if key in one and key in other}
    least = min(one["one_way_delay_ms"], other["one_way_delay_ms"])
    return one | sums | {"one_way_delay_ms": least}


def main(arguments: list[str] | None = None) -> int:
    """Convert between GraphML and topology files, from and to standard streams."""
    parser = argparse.ArgumentParser(prog="topologies.formats", description=__doc__.split("\n")[0])
    parser.add_argument("file", help="a GraphML file, or a topology with --graphml")
    parser.add_argument(
        "--graphml", action="store_true", help="write GraphML instead of reading it"
    )
    parser.add_argument("--rate-mbps", type=float, help="rate of links that have none")
    parser.add_argument("--access-rate-mbps", type=float, help="rate of the islands' access ports")
    options = parser.parse_args(arguments)
    try:
        if options.graphml:
            print(write_graphml(load(options.file)))
        else:
            rates = options.rate_mbps, options.access_rate_mbps
            print(dump(read_graphml(options.file, *rates)), end="")
    except AtollError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
