"""Settings of the whole host that a run needs, put back by the last run to leave.

Almost everything of a run lives in its own namespaces. A few kernel settings exist once only:
the default socket buffers, which the userspace switch's packet sockets take at their birth, and
the list of congestion controls that namespaces may choose. Runs share them by a ledger under an
exclusive file lock: the first run writes down what was there, the last one restores it, and a
setting that somebody else has changed meanwhile is left as it is found.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from topologies.errors import MachineError

SYSCTL_ROOT = Path("/proc/sys")
RECEIVE_BUFFER = "net/core/rmem_default"
SEND_BUFFER = "net/core/wmem_default"
ALLOWED_CONGESTION_CONTROL = "net/ipv4/tcp_allowed_congestion_control"


def at_least(minimum: int) -> Callable[[str], str]:
    """Return a change that raises a number to `minimum` and never lowers it."""
    return lambda current: str(max(int(current), minimum))


def containing(word: str) -> Callable[[str], str]:
    """Return a change that adds `word` to a list unless it is there."""
    return lambda current: current if word in current.split() else f"{current} {word}".strip()


def wanted_settings(congestion_control: str) -> dict[str, Callable[[str], str]]:
    """Return what a run needs, by sysctl path.

    All ports of a userspace switch share one send socket, and each has a receive socket of default
    size: with the kernel's 208 KB a single TCP flow sees tens of thousands of retransmissions.
    """
    return {
        RECEIVE_BUFFER: at_least(4 * 2**20),
        SEND_BUFFER: at_least(64 * 2**20),
        ALLOWED_CONGESTION_CONTROL: containing(congestion_control),
    }


@dataclass
class Ledger:
    """Who holds the settings, what they were before, and what was written."""

    holders: list[str] = field(default_factory=list)
    original: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)


class HostSettings:
    """The ledger's file and the settings it speaks of."""

    def __init__(self, ledger_path: Path, sysctl_root: Path = SYSCTL_ROOT) -> None:
        self._path = ledger_path
        self._sysctl_root = sysctl_root

    def acquire(self, holder: str, changes: Mapping[str, Callable[[str], str]]) -> dict[str, str]:
        """Apply `changes` for `holder`; returns every setting as it now stands."""
        with self._locked() as ledger:
            if holder not in ledger.holders:
                ledger.holders.append(holder)
            for name, change in changes.items():
                current = self._read(name)
                changed = change(current)
                if changed != current:
                    ledger.original.setdefault(name, current)
                    ledger.written[name] = changed
                    self._write(name, changed)
            return {name: self._read(name) for name in changes}

    def release(self, holder: str) -> None:
        """Give up `holder`'s share; the last one restores what was there before."""
        with self._locked() as ledger:
            if holder in ledger.holders:
                ledger.holders.remove(holder)
            if not ledger.holders:
                self._restore(ledger)

    def holders(self) -> tuple[str, ...]:
        """Return the runs that hold the settings now."""
        with self._locked() as ledger:
            return tuple(ledger.holders)

    def _restore(self, ledger: Ledger) -> None:
        for name, original in ledger.original.items():
            if self._read(name) == ledger.written[name]:
                self._write(name, original)
        ledger.original.clear()
        ledger.written.clear()

    def _read(self, name: str) -> str:
        return " ".join((self._sysctl_root / name).read_text().split())

    def _write(self, name: str, value: str) -> None:
        try:
            (self._sysctl_root / name).write_text(value)
        except OSError as error:
            raise MachineError(
                f"the host's setting {name.replace('/', '.')} cannot be set to {value!r}: "
                f"{error.strerror}; a run needs root and a writable /proc/sys"
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[Ledger]:
        """Hold the lock while the ledger is in use; write it whole, so a kill cannot tear it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ledger = _read_ledger(self._path)
            try:
                yield ledger
            finally:
                beside = self._path.with_suffix(".partial")
                beside.write_text(json.dumps(ledger.__dict__, indent=1))
                beside.replace(self._path)


def _read_ledger(path: Path) -> Ledger:
    if not path.exists():
        return Ledger()
    try:
        return Ledger(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise MachineError(
            f"{path}: no ledger of host settings any more ({error}); look at it, then remove it"
        ) from error
