"""Network namespaces that live as long as an open file: when the process dies, they are gone.

`ip netns add` leaves a mount behind for whoever is killed. A namespace that only a file descriptor
holds cannot be left behind.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from topologies.errors import MachineError

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        error = os.strerror(ctypes.get_errno())
        raise MachineError(f"{what}: {error}; root is needed (CAP_SYS_ADMIN)")


class NetworkNamespace:
    """An unnamed network namespace, its loopback down; raises MachineError without permission."""

    def __init__(self) -> None:
        self._fd = _in_thread_of_its_own()

    @property
    def path(self) -> str:
        """A path that `ip link ... netns PATH` takes."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work inside it: sockets opened and processes started by this thread belong to it."""
        with _entered(self._fd):
            yield

    def close(self) -> None:
        """Let it go; with its last process and interface it ends."""
        os.close(self._fd)


@contextmanager
def inside_namespace_of(pid: int) -> Iterator[None]:
    """Let this thread open sockets and start processes in the network namespace of a process.

    Raises:
        OSError: there is no such process.
        MachineError: it is not permitted.
    """
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        with _entered(there):
            yield
    finally:
        os.close(there)


@contextmanager
def _entered(descriptor: int) -> Iterator[None]:
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _checked(_libc.setns(descriptor, CLONE_NEWNET), "cannot enter a network namespace")
        try:
            yield
        finally:
            _checked(_libc.setns(home, CLONE_NEWNET), "cannot leave a network namespace")
    finally:
        os.close(home)


def _in_thread_of_its_own() -> int:
    """Return a file descriptor of a new namespace; the thread that made it is gone with it."""
    made: list[int] = []
    failed: list[MachineError] = []

    def make() -> None:
        try:
            _checked(_libc.unshare(CLONE_NEWNET), "cannot make a network namespace")
            made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        except MachineError as error:
            failed.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]
