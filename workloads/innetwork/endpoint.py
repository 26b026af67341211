"""The member's side of the wire protocol: messages in, results out, over one set of trees.

The protocol itself runs in a thread of the shared library (`native/member.c`); this module opens it
from a `GroupJob` and hands it messages. A message is a table of *chunks*, one packet each, with the
addresses of what is sent and of where results go (`CHUNK`).
"""

from __future__ import annotations

import ctypes
import ipaddress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.errors import UsageError, WorkloadError
from workloads.innetwork.job import GroupJob, Place, TreeJob
from workloads.innetwork.library import library

NO_CHILD = 0xFFFF
MULTICAST_CHILD = 0
ERROR_BYTES = 200
COUNTERS_BYTES = 1024

CHUNK = np.dtype(
    [
        ("max_in", "<u8"),
        ("max_out", "<u8"),
        ("sum_in", "<u8"),
        ("sum_out", "<u8"),
        ("max_bytes", "<u4"),
        ("sum_bytes", "<u4"),
        ("element", "<u4"),
        ("is_guard", "<u4"),
    ]
)
Chunks = npt.NDArray[np.void]


class EndpointError(WorkloadError):
    """The endpoint cannot be opened: the text names the address and why."""


class Status(IntEnum):
    """How a message stands."""

    IDLE = 0
    RUNNING = 1
    DONE = 2
    DISAGREE = 3
    LOST = 4
    ABORTED = 5


@dataclass(frozen=True)
class Uplink:
    """Where a member's packets go, under which tree, as which child of its first accelerator."""

    tree: int
    child: int
    to: Place


@dataclass(frozen=True)
class Stream:
    """Where a member's results come from.

    Attributes:
        tree: the tree's number.
        child: what the member is to whoever it asks.
        source: the address that results come from; None where it is not known.
        ask: where to ask for what is missing.
        group: the group in which results come; None where they come by unicast.
        leaves: how many members are summed in a result; one that says otherwise is refused.
    """

    tree: int
    child: int
    source: str | None
    ask: Place
    group: Place | None
    leaves: int


@dataclass(frozen=True)
class Wiring:
    """All uplinks and streams of one member; streams in the order of `GroupJob.trees`."""

    uplinks: tuple[Uplink, ...]
    streams: tuple[Stream, ...]


def wiring(group: GroupJob, me: int, trees: tuple[TreeJob, ...]) -> Wiring:
    """Return what the member at place `me` of a group does on some of its trees.

    Raises:
        UsageError: the trees do not let it send and receive.
    """
    uplinks = [
        Uplink(tree.number, tree.children[tree.leaves.index(me)], tree.entry)
        for tree in trees
        if me in tree.leaves
    ]
    streams = [stream for tree in trees for stream in _streams(group, me, tree)]
    if not uplinks or not streams:
        site = group.members[me].site
        raise UsageError(f"group of {group.kind}: no tree for {site} to send or to receive")
    return Wiring(tuple(uplinks), tuple(streams))


def _streams(group: GroupJob, me: int, tree: TreeJob) -> list[Stream]:
    if group.kind == "multicast":
        (source,) = tree.leaves
        place = group.members[source].place
        here = [Stream(tree.number, MULTICAST_CHILD, place.address, place, tree.entry, 1)]
        return [] if source == me else here
    if tree.receiver not in (None, me):
        return []
    source_address, leaves = tree.root.address if tree.root else None, len(tree.leaves)
    child, ask = NO_CHILD, tree.root or tree.entry
    if me in tree.leaves:
        child, ask = tree.children[tree.leaves.index(me)], tree.entry
    return [Stream(tree.number, child, source_address, ask, tree.group, leaves)]


class Member:
    """One member on one set of trees, with sockets and a thread of its own.

    Args:
        group: the group.
        me: this member's place in it.
        trees: the trees that share a sequence of chunks.
        port_offset: added to the member's port, for groups whose messages take several trees.

    Raises:
        EndpointError: a socket cannot be opened.
        UsageError: the trees do not fit the member.
    """

    def __init__(
        self, group: GroupJob, me: int, trees: tuple[TreeJob, ...], port_offset: int = 0
    ) -> None:
        self.wiring = wiring(group, me, trees)
        self._native = library()
        self._handle: int | None = self._native.atoll_member_new(
            group.job,
            group.key,
            me,
            group.kind == "multicast",
            group.window,
            group.area_bytes,
            group.rate_mbps * 1e6,
            round(group.round_trip_ms * 1e3),
        )
        if self._handle is None:
            raise EndpointError(f"no memory for a window of {group.window} packets")
        self._native.atoll_member_frames(self._handle, round(group.frames_ms * 1e3))
        self._running: tuple[Any, ...] = ()
        for member in group.members:
            self._native.atoll_member_place(self._handle, _number(member.place.address))
        self._wire()
        self._start(group.members[me].place, port_offset)

    @property
    def streams(self) -> int:
        """How many results come for each chunk."""
        return len(self.wiring.streams)

    def begin(
        self, chunks: Chunks, keep: tuple[Any, ...], max_stride: int, sum_stride: int
    ) -> None:
        """Start to sum a message.

        Args:
            chunks: the table, of type `CHUNK`.
            keep: the arrays whose addresses are in the table; kept alive until the end.
            max_stride: bytes between the results of one stream and the next, in the max area.
            sum_stride: the same in the sum area.
        """
        self._running = (chunks, *keep)
        address = chunks.ctypes.data
        started = self._native.atoll_member_begin(
            self._handle, address, len(chunks), max_stride, sum_stride
        )
        if started != 0:
            raise EndpointError("a message is under way, or a chunk is longer than a packet")

    def wait(self, limit_s: float) -> Status:
        """Wait for the end of the message, though no longer than a limit; return how it stands."""
        status = Status(self._native.atoll_member_wait(self._handle, round(limit_s * 1e3)))
        if status != Status.RUNNING:
            self._running = ()
        return status

    def abort(self) -> None:
        """Give the message up."""
        self._native.atoll_member_abort(self._handle)
        self._running = ()

    def progress(self) -> int:
        """Return for how many chunks, from the first on, all results are here."""
        return int(self._native.atoll_member_progress(self._handle))

    def sequence(self) -> int:
        """Return the sequence that is sent next."""
        return int(self._native.atoll_member_sequence(self._handle))

    def jump(self, sequence: int) -> None:
        """Go on with a later sequence, upon which all members agreed."""
        self._native.atoll_member_jump(self._handle, sequence)

    def counters(self) -> dict[str, int]:
        """Return what was counted since the start."""
        if self._handle is None:
            return {}
        text = ctypes.create_string_buffer(COUNTERS_BYTES)
        self._native.atoll_member_counters(self._handle, text, COUNTERS_BYTES)
        words = text.value.decode().split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))

    def close(self) -> None:
        """End the thread and free the sockets."""
        if self._handle is not None:
            self._native.atoll_member_close(self._handle)
            self._handle = None

    def _wire(self) -> None:
        native, handle = self._native, self._handle
        for up in self.wiring.uplinks:
            native.atoll_member_uplink(
                handle, up.tree, up.child, _number(up.to.address), up.to.port
            )
        for stream in self.wiring.streams:
            source = _number(stream.source) if stream.source else 0
            ask = stream.ask
            native.atoll_member_stream(
                *(handle, stream.tree, stream.child, source),
                *(_number(ask.address), ask.port, stream.leaves),
            )
            if stream.group is not None:
                group = stream.group
                native.atoll_member_join(handle, _number(group.address), group.port)

    def _start(self, place: Place, port_offset: int) -> None:
        error = ctypes.create_string_buffer(ERROR_BYTES)
        address = _number(place.address)
        port = place.port + port_offset
        if self._native.atoll_member_start(self._handle, address, port, error, ERROR_BYTES) != 0:
            self.close()
            raise EndpointError(f"endpoint: {error.value.decode(errors='replace')}")


def _number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))
