"""Trees and groups as they are asked for over HTTP: checked, and turned into another view.

Validation has two steps. The shape of the JSON is checked here, field by field. Whether a tree is
one, and whether its sites, links and accelerators exist, is known to `controller.trees` and the
compiler; their complaint is passed on. Each mistake is one line, and a list of trees is taken as a
whole or not at all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.fabric import Fabric
from controller.groups import FIRST_ID_OF_GROUPS, MulticastGroup, free_group_ip, free_slot
from controller.intents import hops_from, hops_towards
from controller.trees import AggregationTree, MulticastTree, Tree
from controller.view import NetworkView
from topologies.errors import UserError
from topologies.routing import NoRouteError, Routes

_Model = TypeVar("_Model", bound=BaseModel)
_LINK_LOCAL = ipaddress.IPv4Network("224.0.0.0/24")
HIGHEST_REQUESTED_ID = FIRST_ID_OF_GROUPS - 1
MOST_NAMED = 12


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TreeRequest(_Request):
    """A tree as asked for; the fields are those of a plan's tree, and numbers where wanted.

    Attributes:
        kind: `multicast` or `aggregation`.
        root: site of the tree's root.
        at_island: whether it starts or ends at the root's island, or else at its accelerator.
        members: sites of the receiving or sending islands.
        hops: (parent, child) of every link, away from the root; left out, least delay decides.
        sums_at: sites whose accelerator sums (aggregation).
        fan_in: streams that an accelerator sums at most, by site (aggregation).
        accelerators: sites whose accelerator gets a copy too (multicast).
        group_ip: address to send to (multicast); left out, the next free one.
        tree_id: number of the tree; left out, the next free one.
    """

    kind: Literal["multicast", "aggregation"]
    root: str
    at_island: bool = True
    members: tuple[str, ...]
    hops: tuple[tuple[str, str], ...] | None = None
    sums_at: tuple[str, ...] = ()
    fan_in: dict[str, int] = Field(default_factory=dict)
    accelerators: tuple[str, ...] = ()
    group_ip: str | None = None
    tree_id: int | None = Field(default=None, ge=1, le=HIGHEST_REQUESTED_ID)

    def refuse_foreign_fields(self) -> None:
        """Raise UserError for a field that belongs to the other kind of tree."""
        foreign: tuple[tuple[str, object], ...]
        if self.kind == "multicast":
            foreign = (("sums_at", self.sums_at), ("fan_in", self.fan_in))
        else:
            foreign = (("accelerators", self.accelerators), ("group_ip", self.group_ip))
        for name, value in foreign:
            if value:
                raise UserError(f"{name}: means nothing for a tree of kind {self.kind}")


class TreesRequest(_Request):
    """Trees to be laid out together."""

    trees: tuple[TreeRequest, ...] = Field(min_length=1)


class GroupRequest(_Request):
    """A group as asked for.

    Attributes:
        members: sites whose islands receive; hosts that join by IGMP come on top.
        senders: sites whose islands may send; left out, all.
        group_ip: its address; left out, the next free one.
    """

    members: tuple[str, ...]
    senders: tuple[str, ...] | None = None
    group_ip: str | None = None


def read(model: type[_Model], body: bytes) -> _Model:
    """Read JSON as a model; the first mistake is a `UserError` of one line that names its field."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "request"
        raise UserError(f"{place}: {first['msg']}".splitlines()[0]) from None


@dataclass(frozen=True)
class Ground:
    """What a request is decided on."""

    fabric: Fabric
    routes: Routes
    view: NetworkView


def add_trees(ground: Ground, asked: Iterable[TreeRequest]) -> tuple[NetworkView, tuple[Tree, ...]]:
    """The view with more trees, and the trees; raises UserError for what is no tree or no room."""
    trees = list(ground.view.trees)
    new: list[Tree] = []
    for number, request in enumerate(asked):
        try:
            tree = _tree(ground, request, trees)
        except (UserError, NoRouteError) as error:
            raise UserError(f"trees.{number}: {error}") from None
        trees.append(tree)
        new.append(tree)
    return ground.view.with_trees(trees), tuple(new)


def move_tree(ground: Ground, tree_id: int, request: TreeRequest) -> tuple[NetworkView, Tree]:
    """The view with one tree changed, its number and address kept; both. Raises UserError."""
    before = tree_of(ground.view, tree_id)
    if request.tree_id not in (None, tree_id):
        raise UserError(f"tree_id: {request.tree_id} is not that of tree {tree_id}")
    update: dict[str, object] = {"tree_id": tree_id}
    if isinstance(before, MulticastTree) and request.kind == "multicast":
        update["group_ip"] = request.group_ip or before.group_ip
    others = [tree for tree in ground.view.trees if tree.tree_id != tree_id]
    try:
        after = _tree(ground, request.model_copy(update=update), others)
    except NoRouteError as error:
        raise UserError(str(error)) from None
    trees = [after if tree is before else tree for tree in ground.view.trees]
    return ground.view.with_trees(trees), after


def remove_tree(view: NetworkView, tree_id: int) -> NetworkView:
    """The view without one tree; raises UserError if there is none of that number."""
    gone = tree_of(view, tree_id)
    return view.with_trees(tree for tree in view.trees if tree is not gone)


class UnknownError(UserError):
    """A tree or group that is not there."""


def tree_of(view: NetworkView, tree_id: int) -> Tree:
    """The fixed tree of a number; raises UnknownError if there is none."""
    for tree in view.trees:
        if tree.tree_id == tree_id:
            return tree
    raise UnknownError(f"no tree {tree_id}; {_those_there(tree.tree_id for tree in view.trees)}")


def _tree(ground: Ground, request: TreeRequest, others: Iterable[Tree]) -> Tree:
    request.refuse_foreign_fields()
    for site in (request.root, *request.members, *request.accelerators, *request.sums_at):
        ground.fabric.index(site)
    taken = {tree.tree_id for tree in others}
    tree_id = _free_id(taken) if request.tree_id is None else request.tree_id
    if tree_id in taken:
        raise UserError(f"tree_id: there is a tree {tree_id} already")
    if request.kind == "multicast":
        return _multicast(ground, request, tree_id, others)
    ends = (*request.members, *request.sums_at)
    hops = request.hops
    return AggregationTree(
        tree_id,
        request.root,
        hops_towards(ground.routes, request.root, ends) if hops is None else hops,
        request.members,
        request.sums_at,
        request.at_island,
        tuple(request.fan_in.items()),
    )


def _multicast(
    ground: Ground, request: TreeRequest, tree_id: int, others: Iterable[Tree]
) -> MulticastTree:
    groups = {group.group_ip for group in ground.view.groups if group.requested}
    used = groups | {tree.address for tree in others}
    group_ip = free_group_ip(used) if request.group_ip is None else request.group_ip
    if group_ip in groups:
        raise UserError(f"group_ip: {group_ip} is a group whose trees follow its members")
    ends = (*request.members, *request.accelerators)
    hops = request.hops
    return MulticastTree(
        tree_id,
        group_ip,
        request.root,
        hops_from(ground.routes, request.root, ends) if hops is None else hops,
        request.members,
        request.at_island,
        request.accelerators,
    )


def request_of(tree: Tree) -> TreeRequest:
    """The request that leads to a tree, with everything in it that may be left out."""
    if isinstance(tree, MulticastTree):
        return TreeRequest(
            kind="multicast",
            root=tree.root,
            at_island=tree.at_island,
            members=tree.receivers,
            hops=tree.hops,
            accelerators=tree.accelerators,
            group_ip=tree.group_ip,
            tree_id=tree.tree_id,
        )
    return TreeRequest(
        kind="aggregation",
        root=tree.root,
        at_island=tree.at_island,
        members=tree.members,
        hops=tree.hops,
        sums_at=tree.sums_at,
        fan_in=dict(tree.fan_in),
        tree_id=tree.tree_id,
    )


def _free_id(taken: set[int]) -> int:
    number = next(n for n in range(1, len(taken) + 2) if n not in taken)
    if number > HIGHEST_REQUESTED_ID:
        raise UserError(f"there are {len(taken)} trees already, the most there can be")
    return number


def add_group(ground: Ground, request: GroupRequest) -> tuple[NetworkView, MulticastGroup]:
    """The view with one more group, and the group; raises UserError."""
    fabric, view = ground.fabric, ground.view
    for site in (*request.members, *(request.senders or ())):
        fabric.index(site)
    fixed = {tree.address for tree in view.trees}
    requested = {group.group_ip for group in view.groups if group.requested}
    group_ip = free_group_ip(fixed | requested) if request.group_ip is None else request.group_ip
    _check_group_ip(group_ip)
    if group_ip in fixed | requested:
        raise UserError(f"group_ip: {group_ip} is in use already")
    others = [group for group in view.groups if group.group_ip != group_ip]
    slots = [group.slot for group in view.groups if group.group_ip == group_ip]
    members = tuple(sorted(set(request.members)))
    senders = None if request.senders is None else tuple(sorted(set(request.senders)))
    slot = slots[0] if slots else free_slot(others)
    group = MulticastGroup(group_ip, slot, members, senders, requested=True)
    return view.with_groups([*others, group]), group


def _check_group_ip(group_ip: str) -> None:
    try:
        address = ipaddress.IPv4Address(group_ip)
    except ValueError:
        address = ipaddress.IPv4Address(0)
    if not address.is_multicast or address in _LINK_LOCAL:
        raise UserError(f"group_ip: {group_ip!r} is not within 224.0.1.0 to 239.255.255.255")


def remove_group(view: NetworkView, group_ip: str) -> NetworkView:
    """The view without a group that was asked for; hosts that joined it keep their membership.

    Raises:
        UserError: nobody asked for such a group.
    """
    gone = group_of(view, group_ip)
    if not gone.requested:
        raise UserError(
            f"group {group_ip} is there because hosts joined it; it goes when they leave"
        )
    plain = replace(gone, members=(), senders=None, requested=False)
    return view.with_groups(plain if group is gone else group for group in view.groups)


def group_of(view: NetworkView, group_ip: str) -> MulticastGroup:
    """The group of an address; raises UnknownError if there is none."""
    for group in view.groups:
        if group.group_ip == group_ip:
            return group
    raise UnknownError(f"no group {group_ip}; {_those_there(g.group_ip for g in view.groups)}")


def _those_there(names: Iterable[object]) -> str:
    """What could have been named instead, in a few words."""
    known = [str(name) for name in names]
    more = len(known) - MOST_NAMED
    shown = ", ".join(known[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"there is {shown}" if known else "there is none"
