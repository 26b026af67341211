"""`atoll ps`: which processes run at which site of the emulations that are up."""

from __future__ import annotations

from typing import Any

from testbed.deploy.process_table import NodeNetwork, processes
from testbed.ownership import Node, RuntimeDirectory, runtime_directories


def _network(node: Node) -> NodeNetwork:
    return NodeNetwork(node.site, node.kind, node.netns_inode)


def rows_of(directory: RuntimeDirectory) -> list[dict[str, Any]]:
    """Return one row a process of a running emulation, by site."""
    found = processes([_network(node) for node in directory.nodes()])
    return [
        {
            "run": directory.run_id,
            "site": row.site,
            "kind": row.kind,
            "pid": row.pid,
            "cpu_pct": round(row.cpu_pct, 1),
            "resident_mib": round(row.resident_mib, 1),
            "command": row.command,
        }
        for row in found
    ]


def list_processes() -> list[dict[str, Any]]:
    """Return the processes of every emulation that is up."""
    living = [directory for directory in runtime_directories() if directory.alive]
    return [row for directory in living for row in rows_of(directory)]
