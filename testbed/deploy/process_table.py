"""Which processes run at which site: what `atoll ps` shows.

A process belongs to a node when it is in the node's network namespace, whose inode number is the
same from everywhere (namespaces(7)); no list of pids has to be kept, and a process that a worker
started is found like the worker. Figures are those of proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class NodeNetwork:
    """A node as this table needs it.

    Attributes:
        kind: `island` or `switch`.
        netns_inode: number of its network namespace.
    """

    site: str
    kind: str
    netns_inode: int


@dataclass(frozen=True)
class ProcessFacts:
    """One process, as read from /proc.

    Attributes:
        cpu_ticks: time on a processor in user and kernel mode, in clock ticks.
        start_ticks: when it started, in clock ticks since boot.
        arguments: its command line; empty for a kernel thread.
    """

    pid: int
    netns_inode: int
    name: str
    cpu_ticks: int
    start_ticks: int
    resident_pages: int
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class ProcessRow:
    """One line of the table.

    Attributes:
        cpu_pct: share of one core since it started, as ps(1) counts.
        cpu_s: seconds on a processor since it started.
        resident_mib: resident memory, shared pages included.
    """

    site: str
    kind: str
    pid: int
    cpu_pct: float
    cpu_s: float
    resident_mib: float
    command: str


def parse_namespace(link: str) -> int:
    """Return the inode number in a link such as `net:[4026531840]`."""
    return int(link.partition("[")[2].rstrip("]"))


def parse_facts(pid: int, netns_link: str, stat: str, cmdline: bytes) -> ProcessFacts:
    """Return the facts in `/proc/PID/ns/net`, `stat` and `cmdline`.

    The name in `stat` may hold spaces and parentheses, so fields count from its last one.
    """
    before, _, after = stat.rpartition(")")
    fields = after.split()
    return ProcessFacts(
        pid=pid,
        netns_inode=parse_namespace(netns_link),
        name=before.partition("(")[2],
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
        resident_pages=int(fields[21]),
        arguments=tuple(
            word.decode(errors="replace") for word in cmdline.rstrip(b"\0").split(b"\0") if word
        ),
    )


def process_rows(
    nodes: Iterable[NodeNetwork],
    facts: Iterable[ProcessFacts],
    uptime_s: float,
    ticks_per_s: int,
    page_bytes: int,
) -> tuple[ProcessRow, ...]:
    """Return a row for every process that is in a node, by site, kind and pid. Pure."""
    node_of: Mapping[int, NodeNetwork] = {node.netns_inode: node for node in nodes}
    rows = []
    for fact in facts:
        node = node_of.get(fact.netns_inode)
        if node is None:
            continue
        cpu_s = fact.cpu_ticks / ticks_per_s
        age_s = uptime_s - fact.start_ticks / ticks_per_s
        rows.append(
            ProcessRow(
                site=node.site,
                kind=node.kind,
                pid=fact.pid,
                cpu_pct=100 * cpu_s / age_s if age_s > 0 else 0.0,
                cpu_s=cpu_s,
                resident_mib=fact.resident_pages * page_bytes / MEBIBYTE,
                command=" ".join(fact.arguments) or f"[{fact.name}]",
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.site, row.kind, row.pid)))


def read_facts(proc: Path = Path("/proc")) -> tuple[ProcessFacts, ...]:
    """Read all processes that this process may look into; those that end meanwhile are left out."""
    found = []
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                found.append(
                    parse_facts(
                        int(folder.name),
                        str((folder / "ns/net").readlink()),
                        (folder / "stat").read_text(errors="replace"),
                        (folder / "cmdline").read_bytes(),
                    )
                )
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return tuple(found)


def processes(nodes: Iterable[NodeNetwork]) -> tuple[ProcessRow, ...]:
    """Return what runs now in the nodes of a run, by site; needs root to see all of it."""
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return process_rows(nodes, read_facts(), uptime_s, ticks_per_s, os.sysconf("SC_PAGE_SIZE"))
