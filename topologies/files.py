"""Topology files: find, read and write them.

A topology is YAML: people write it by hand, comments and all. `load` takes the name of a bundled
file or a path; a mistake in the file is told in one line, `FILE:LINE: field: what was wrong; what
is right`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from stat import S_ISREG
from typing import Any

from topologies.checks import access_layers_fields, checked, closest, link_layers, merged
from topologies.document import MAX_FILE_BYTES, Document, read_yaml, write_yaml
from topologies.errors import UserError
from topologies.model import DirectionSpec, Link, Site, Topology
from topologies.schema import LinkRow, SiteRow, TopologyFile

BUNDLED = Path(__file__).parent


def available() -> tuple[str, ...]:
    """Return the names of the bundled topologies, sorted."""
    return tuple(sorted(path.stem for path in BUNDLED.glob("*.yaml")))


def load(name_or_path: str) -> Topology:
    """Read a bundled topology by its name, or any topology file by its path.

    Raises:
        UserError: the file is not there, cannot be read or is wrong; the text names its line.
    """
    if name_or_path in available():
        return load_text(read_file(str(BUNDLED / f"{name_or_path}.yaml")), name_or_path)
    return load_text(read_file(name_or_path), name_or_path)


def load_text(text: str, file: str = "topology") -> Topology:
    """Read a topology from YAML text; `file` is what errors call it. Raises UserError."""
    return topology_of(read_yaml(text, file))


def topology_of(document: Document) -> Topology:
    """Return the topology that plain data describe; raises UserError for the first mistake."""
    rows = checked(document)
    return Topology(
        name=rows.name,
        sites=tuple(_site(row) for row in rows.sites),
        links=tuple(_link(rows, row) for row in rows.links),
        access={
            row.code: DirectionSpec(**access_layers_fields(rows, row.access)) for row in rows.sites
        },
        source=rows.source.strip(),
        licence=rows.licence.strip(),
        mtu_bytes=rows.mtu_bytes,
    )


def _site(row: SiteRow) -> Site:
    return Site(row.code, row.city, row.latitude, row.longitude)


def _link(rows: TopologyFile, row: LinkRow) -> Link:
    forward, backward = (
        DirectionSpec(**merged(link_layers(rows, row, way))) for way in ("forward", "backward")
    )
    return Link(row.a, row.b, forward, backward)


def read_file(path: str) -> str:
    """Return the text of a topology file of any format; raises UserError if there is none."""
    name = path if path.isprintable() and path else repr(path)
    data = _bytes(Path(path), name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{name}:{line}: file: not UTF-8 text; save it as UTF-8") from None


def _bytes(path: Path, name: str) -> bytes:
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise UserError(f"{name}: not a file; give a topology file")
        if status.st_size > MAX_FILE_BYTES:
            limit = MAX_FILE_BYTES // 1024 // 1024
            raise UserError(
                f"{name}: {status.st_size} bytes; a topology file has up to {limit} MiB"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(_not_found(name)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{name}: cannot be read: {reason}; give a topology file") from None


def _not_found(name: str) -> str:
    guess = closest(Path(name).stem, available())
    hint = f"did you mean {guess!r}? bundled are" if guess else "give a path, or a bundled name:"
    return f"{name}: no such topology; {hint} {', '.join(available())}"


def dump(topology: Topology) -> str:
    """Return the text of a topology file that `load` reads back as the same topology."""
    return write_yaml(to_data(topology))


def to_data(topology: Topology) -> dict[str, Any]:
    """Return a topology as the plain data of its file, in the file's order."""
    specs = set(topology.access.values())
    shared = specs.pop() if len(specs) == 1 else None
    head: dict[str, Any] = {key: getattr(topology, key) for key in ("name", "source", "licence")}
    head["mtu_bytes"] = topology.mtu_bytes
    if shared is not None:
        head["defaults"] = {"access": _fields(shared)}
    own = {} if shared is not None else topology.access
    return head | {
        "sites": [_site_row(site, own) for site in topology.sites],
        "links": [_link_row(link) for link in topology.links],
    }


def _site_row(site: Site, access: Mapping[str, DirectionSpec]) -> dict[str, Any]:
    row: dict[str, Any] = asdict(site)
    return row | {"access": _fields(access[site.code])} if site.code in access else row


def _link_row(link: Link) -> dict[str, Any]:
    ends = {"a": link.a, "b": link.b}
    if link.forward == link.backward:
        return ends | _fields(link.forward)
    return ends | {"forward": _fields(link.forward), "backward": _fields(link.backward)}


def _fields(spec: DirectionSpec) -> dict[str, float]:
    """Return the fields that differ from what a file leaves unsaid."""
    unsaid = {each.name: each.default for each in fields(spec)}
    return {key: value for key, value in asdict(spec).items() if value != unsaid[key]}
