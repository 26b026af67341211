"""What a controller was asked for, in a file, so that the next one goes on where it ended.

Routes follow from the topology, but trees, groups and what hosts joined do not: without this file a
controller that starts again would take the rules of its predecessor's trees for a stranger's and
remove them. With it, it finds every switch holding what it wants and sends nothing. The versions of
trees are in it too, because rules carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from controller.fabric import Fabric
from controller.groups import MulticastGroup
from controller.membership import Memberships, SourceFilter
from controller.requests import Ground, TreeRequest, add_trees, read, request_of
from controller.view import NetworkView, plan
from topologies.errors import UserError
from topologies.model import Topology


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Group(_Row):
    group_ip: str
    slot: int
    members: tuple[str, ...]
    senders: tuple[str, ...] | None
    requested: bool


class _Membership(_Row):
    site: str
    group_ip: str
    exclude: bool
    sources: tuple[str, ...]


class _File(_Row):
    topology: str
    trees: tuple[TreeRequest, ...]
    groups: tuple[_Group, ...]
    memberships: tuple[_Membership, ...]
    versions: dict[int, int]


@dataclass(frozen=True)
class Kept:
    """A view to start from, and the versions under which its trees are laid out."""

    view: NetworkView
    versions: Mapping[int, int] = field(default_factory=dict)


def to_json(view: NetworkView, versions: Mapping[int, int]) -> str:
    """The text to keep of a view and the versions of its trees."""
    memberships = sorted(view.memberships.filters.items())
    return _File(
        topology=view.topology.name,
        trees=tuple(request_of(tree) for tree in view.trees),
        groups=tuple(
            _Group(
                group_ip=group.group_ip,
                slot=group.slot,
                members=group.members,
                senders=group.senders,
                requested=group.requested,
            )
            for group in view.groups
        ),
        memberships=tuple(
            _Membership(
                site=site,
                group_ip=group,
                exclude=wish.exclude,
                sources=tuple(sorted(wish.sources)),
            )
            for (site, group), wish in memberships
        ),
        versions=dict(sorted(versions.items())),
    ).model_dump_json(indent=1)


def from_json(text: bytes, fabric: Fabric, topology: Topology) -> Kept:
    """What `to_json` kept.

    Raises:
        UserError: it is of another topology, or not such a text.
    """
    kept = read(_File, text)
    if kept.topology != topology.name:
        raise UserError(f"it is of topology {kept.topology}, not {topology.name}")
    empty = NetworkView(topology)
    ground = Ground(fabric, plan(fabric, empty).routes, empty)
    view = add_trees(ground, kept.trees)[0] if kept.trees else empty
    wishes = {
        (row.site, row.group_ip): SourceFilter(row.exclude, frozenset(row.sources))
        for row in kept.memberships
    }
    groups = [MulticastGroup(**row.model_dump()) for row in kept.groups]
    return Kept(view.with_groups(groups).with_memberships(Memberships(wishes)), kept.versions)


def load(file: Path | None, fabric: Fabric, topology: Topology) -> Kept:
    """What a file keeps; a file that is not there, or None, keeps nothing.

    Raises:
        UserError: the file cannot be read or is not of this topology.
    """
    if file is None or not file.exists():
        return Kept(NetworkView(topology))
    try:
        return from_json(file.read_bytes(), fabric, topology)
    except (OSError, UserError) as error:
        raise UserError(f"{file}: {error}") from None


def save(file: Path, text: str) -> None:
    """Replace a file's contents as a whole: a crash leaves the old ones or the new."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text)
    beside.replace(file)
