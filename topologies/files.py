"""Topology files: find, read, check and write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from topologies.errors import UserError
from topologies.model import DirectionSpec, Link, Site, Topology

BUNDLED = Path(__file__).parent


def available() -> tuple[str, ...]:
    """Return the names of the bundled topologies, sorted."""
    return tuple(sorted(path.stem for path in BUNDLED.glob("*.yaml")))


def load(name_or_path: str) -> Topology:
    """Read a bundled topology by name, or a file by path; raises UserError for a bad one."""
    bundled = BUNDLED / f"{name_or_path}.yaml"
    path = bundled if name_or_path in available() else Path(name_or_path)
    if not path.is_file():
        names = ", ".join(available())
        raise UserError(f"{name_or_path}: no such topology file; bundled are {names}")
    return _topology(yaml.safe_load(path.read_text(encoding="utf-8")))


def _topology(data: dict[str, Any]) -> Topology:
    defaults = data.get("defaults", {})
    keys = ("code", "city", "latitude", "longitude")
    sites = tuple(Site(**{key: row[key] for key in keys}) for row in data["sites"])
    access = {
        row["code"]: DirectionSpec(**(defaults.get("access", {}) | row.get("access", {})))
        for row in data["sites"]
    }
    links = tuple(_link(row, defaults.get("link", {})) for row in data["links"])
    texts = {key: data[key] for key in ("name", "source", "licence")}
    return Topology(
        sites=sites, links=links, access=access, mtu_bytes=data.get("mtu_bytes", 9000), **texts
    )


def _link(row: dict[str, Any], defaults: dict[str, Any]) -> Link:
    ends = ("a", "b", "forward", "backward")
    shared = defaults | {key: value for key, value in row.items() if key not in ends}
    forward = DirectionSpec(**(shared | row.get("forward", {})))
    backward = DirectionSpec(**(shared | row.get("backward", {})))
    return Link(row["a"], row["b"], forward, backward)


def dump(topology: Topology) -> str:
    """Return the text of a topology file that `load` reads back as the same topology."""
    data = {
        "name": topology.name,
        "source": topology.source,
        "licence": topology.licence,
        "mtu_bytes": topology.mtu_bytes,
        "sites": [
            vars(site) | {"access": _given(topology.access[site.code])} for site in topology.sites
        ],
        "links": [
            {
                "a": link.a,
                "b": link.b,
                "forward": _given(link.forward),
                "backward": _given(link.backward),
            }
            for link in topology.links
        ],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _given(spec: DirectionSpec) -> dict[str, float]:
    return {key: value for key, value in vars(spec).items() if value is not None}
