"""A group of members, and the accelerators of its trees, on addresses of the loopback interface."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed import HashStore

from testbed.accelerator.config import Address
from testbed.accelerator.placement import Job, Shape, tree_configs
from testbed.accelerator.process import AcceleratorProcess
from testbed.accelerator.process import Place as AcceleratorPlace
from workloads.collectives.board import Board
from workloads.collectives.clique import Clique
from workloads.collectives.kinds import open_transport
from workloads.collectives.mesh import open_mesh
from workloads.collectives.network import NetworkCollective
from workloads.collectives.roster import Roster
from workloads.innetwork.job import GroupJob, MemberPlace, Place, TreeJob

SITES = ("AMS", "FRA", "LON", "NYC", "SIN", "TYO")
WINDOW = 64
ACCELERATOR_PORT = 7000
MEMBER_PORT = 7001
GROUP_PORT = 7002
LIMIT_S = 20.0
_NETS = count(random.randrange(250))


@dataclass
class Loopback:
    """Addresses that no other test uses at the same time, and what runs on them."""

    folder: Path
    members: int
    net: str = field(default_factory=lambda: f"127.{64 + os.getpid() % 186}.{next(_NETS) % 250}")
    accelerators: dict[str, AcceleratorProcess] = field(default_factory=dict)
    job: int = field(default_factory=lambda: random.getrandbits(64))

    def member(self, place: int) -> Place:
        return Place(f"{self.net}.{1 + place}", MEMBER_PORT)

    def accelerator(self, number: int) -> Place:
        return Place(f"{self.net}.{100 + number}", ACCELERATOR_PORT)

    def group_address(self, number: int) -> Place:
        return Place(f"239.{'.'.join(self.net.split('.')[1:])}.{1 + number}", GROUP_PORT)

    def addresses(self) -> dict[str, Address]:
        named = {f"member{i}": self.member(i) for i in range(self.members)}
        named.update({f"box{i}": self.accelerator(i) for i in range(2)})
        return {name: Address(place.address, place.port) for name, place in named.items()}


def two_levels(leaves: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Sum the upper half of the leaves in one accelerator, whose sum joins the lower half's."""
    half = max(len(leaves) // 2, 1)
    if len(leaves) == 1:
        return {"box0": (f"member{leaves[0]}",)}
    lower, upper = leaves[:half], leaves[half:]
    return {
        "box0": (*(f"member{i}" for i in lower), "box1"),
        "box1": tuple(f"member{i}" for i in upper),
    }


def _tree(lo: Loopback, number: int, leaves: Sequence[int], receiver: int | None) -> TreeJob:
    """Return a tree as members know it: without switches a leaf sends to its accelerator itself."""
    return TreeJob(
        number=number,
        leaves=tuple(leaves),
        children=tuple(_parent(leaves, leaf)[1] for leaf in leaves),
        entry=lo.accelerator(0),
        root=lo.accelerator(0),
        group=lo.group_address(number) if receiver is None else None,
        receiver=receiver,
    )


def _parent(leaves: Sequence[int], leaf: int) -> tuple[int, int]:
    for box, children in two_levels(leaves).items():
        if f"member{leaf}" in children:
            return int(box[3:]), children.index(f"member{leaf}")
    raise KeyError(leaf)


def group_of(lo: Loopback, kind: str, me: int, rate_mbps: float, window: int) -> GroupJob:
    """Return the group as member `me` knows it: its own entry is its own accelerator."""
    everyone = range(lo.members)
    if kind == "multicast":
        trees = [TreeJob(i, (i,), (0,), lo.group_address(i)) for i in everyone]
    elif kind == "aggregation":
        trees = [_tree(lo, r, [i for i in everyone if i != r], r) for r in everyone]
    else:
        trees = [_tree(lo, 0, list(everyone), None)]
    return GroupJob(
        kind=kind,
        job=lo.job,
        key=0x1234567,
        window=window,
        area_bytes=8904,
        rate_mbps=rate_mbps,
        round_trip_ms=0.2,
        members=tuple(MemberPlace(i, SITES[i], lo.member(i)) for i in everyone),
        trees=tuple(_at_own_entry(lo, tree, me) for tree in trees),
    )


def _at_own_entry(lo: Loopback, tree: TreeJob, me: int) -> TreeJob:
    if me not in tree.leaves or tree.root is None:
        return tree
    entry = lo.accelerator(_parent(tree.leaves, me)[0])
    return TreeJob(
        tree.number, tree.leaves, tree.children, entry, tree.root, tree.group, tree.receiver
    )


def open_accelerators(lo: Loopback, group: GroupJob, stack: ExitStack) -> None:
    for number in range(2):
        place = lo.accelerator(number)
        process = AcceleratorProcess.start(
            AcceleratorPlace(
                lo.folder, f"box{number}", Address(place.address, place.port), interface="lo"
            )
        )
        stack.callback(process.close)
        lo.accelerators[f"box{number}"] = process
    addresses = lo.addresses()
    for tree in group.trees:
        down = tree.group or lo.member(tree.receiver or 0)
        shape = Shape(
            sums=two_levels(tree.leaves),
            members=[f"member{i}" for i in range(lo.members)],
            addresses=addresses,
            results=(Address(down.address, down.port),),
        )
        job = Job(group.job, tree.number, group.key, group.window)
        for name, config in tree_configs(job, shape).items():
            lo.accelerators[name].open(config)


@contextmanager
def collectives(
    lo: Loopback,
    kind: str,
    rate_mbps: float = 2000.0,
    window: int = WINDOW,
    wide: bool = False,
    limit_s: float = LIMIT_S,
    stall_s: float = LIMIT_S,
) -> Iterator[list[NetworkCollective]]:
    """Open the collective of every member, in threads of this process."""
    board = Board(HashStore())
    roster = Roster(lo.members, SITES[: lo.members])
    where = {i: lo.member(i).address for i in range(lo.members)}

    def open_one(me: int) -> NetworkCollective:
        clique = Clique.of_all(me, roster)
        group = None if kind == "exchange" else group_of(lo, kind, me, rate_mbps, window)
        mesh = open_mesh(board, clique, where, kind, limit_s)
        transport = open_transport(clique, mesh, group, limit_s, stall_s)
        return NetworkCollective(clique, transport, lambda symptom: symptom, wide)

    with ExitStack() as stack:
        if kind in ("aggregation", "innetwork"):
            open_accelerators(lo, group_of(lo, kind, 0, rate_mbps, window), stack)
        opened = together(lo.members, open_one)
        for one in opened:
            stack.callback(one.close)
        yield opened


def together(members: int, call: Callable[[int], Any]) -> list[Any]:
    """Make a call for every member at the same time; return what each returned, or its error."""
    barrier = threading.Barrier(members)

    def run(me: int) -> Any:
        barrier.wait()
        return call(me)

    with ThreadPoolExecutor(members) as pool:
        return list(pool.map(run, range(members)))


def means_by_exchange(
    lo: Loopback, tensor_of: Callable[[int, int], Tensor], calls: int
) -> list[Tensor]:
    """Return what the naive exchange makes of each call's tensors, by member and call."""
    with collectives(lo, "exchange") as opened:
        return [
            together(lo.members, lambda i, c=call: opened[i].allreduce(tensor_of(i, c)))[0]
            for call in range(calls)
        ]


def errors(members: int, call: Callable[[int], Any]) -> list[str]:
    """Make a call that must fail on every member; return what each error says."""

    def run(me: int) -> str:
        try:
            call(me)
        except Exception as error:
            return str(error)
        return "no error"

    return together(members, run)
