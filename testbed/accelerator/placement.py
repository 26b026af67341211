"""From the shape of an aggregation tree to what each of its accelerators is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.fabric import accelerator_end
from controller.trees import AggregationTree
from testbed.accelerator.config import Address, TreeConfig
from topologies.errors import UserError


@dataclass(frozen=True)
class Job:
    """What all accelerators and members of a tree share; see `TreeConfig` for the fields."""

    job: int
    tree: int
    key: int
    window: int
    notice_every: int = 16
    hold_us: int = 5000


@dataclass(frozen=True)
class Shape:
    """Who sums whom.

    Attributes:
        sums: children of each accelerator in the order of their indices; a child that is itself a
            key is an accelerator, any other a member.
        members: all members, in the order of their indices.
        addresses: of each accelerator and each member.
        tree_address: where children send, if switches steer it; otherwise they send to the
            address of their parent.
        results: where the root sends results.
        notices: who is told by DONE.
    """

    sums: Mapping[str, tuple[str, ...]]
    members: Sequence[str]
    addresses: Mapping[str, Address]
    results: tuple[Address, ...]
    notices: tuple[Address, ...] = ()
    tree_address: Address | None = None

    def root(self) -> str:
        """Return the accelerator that nobody sums; raises UserError unless there is just one."""
        summed = {child for children in self.sums.values() for child in children}
        roots = [name for name in self.sums if name not in summed]
        if len(roots) != 1:
            raise UserError(f"an aggregation tree has one root, not {', '.join(roots) or 'none'}")
        return roots[0]

    def leaves(self, name: str) -> int:
        """Return how many members are summed below an accelerator, or 1 for a member."""
        if name not in self.sums:
            return 1
        return sum(self.leaves(child) for child in self.sums[name])

    def parent(self, name: str) -> str | None:
        """Return who sums a child, None for the root."""
        return next((above for above, below in self.sums.items() if name in below), None)


def shape_of(
    tree: AggregationTree,
    port: int,
    addresses: Mapping[str, Address],
    members: Sequence[str],
    results: tuple[Address, ...],
    notices: tuple[Address, ...] = (),
) -> Shape:
    """Return the shape of a tree that the controller steers.

    Args:
        tree: as the controller has it.
        port: UDP port of the tree at all accelerators.
        addresses: by end, such as `NYC.island` and `NYC.accelerator`.
        members: ends of all members, in the order of their indices.
        results: where the root's accelerator sends results.
        notices: who is told by DONE.

    Raises:
        UserError: when the root's island would have to sum several streams itself.
    """
    ends = [accelerator_end(site) for site in tree.sums_at]
    sums = {end: tree.children(end) for end in ends}
    here = Address(tree.address, port)
    shape = Shape(sums, members, addresses, results, notices, here)
    if shape.leaves(shape.root()) != len(tree.members):
        raise UserError(
            f"aggregation tree {tree.tree_id}: not all streams are summed at {shape.root()}"
        )
    return shape


def tree_configs(job: Job, shape: Shape) -> dict[str, TreeConfig]:
    """Return the configuration of each accelerator of a tree, by its name.

    Raises:
        UserError: for a shape that is not one tree, or is beyond the protocol's limits.
    """
    root = shape.root()
    return {name: _config(job, shape, name, name == root) for name in shape.sums}


def _config(job: Job, shape: Shape, name: str, is_root: bool) -> TreeConfig:
    parent = shape.parent(name)
    up = None
    if parent is not None:
        up = shape.tree_address or shape.addresses[parent]
    return TreeConfig(
        job=job.job,
        tree=job.tree,
        key=job.key,
        window=job.window,
        leaves=shape.leaves(name),
        children=tuple(shape.addresses[child] for child in shape.sums[name]),
        members=tuple(shape.addresses[member] for member in shape.members) if is_root else (),
        up=up,
        child=shape.sums[parent].index(name) if parent is not None else 0,
        results=shape.results if is_root else (),
        notices=shape.notices if is_root else (),
        notice_every=job.notice_every,
        hold_us=job.hold_us,
    )
