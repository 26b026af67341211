"""The manifest of a run: all one needs to repeat it, and to know what it ran on.

Versions are asked of the parts themselves, not of a list of what was meant to be installed.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

FORMAT = 1
SOURCE_ROOT = Path(__file__).resolve().parents[2]

PYTHON_PACKAGES = (
    "atoll", "fabric", "mininet", "networkx", "numpy",
    "os-ken", "paramiko", "ryu", "scapy", "torch",
)  # fmt: skip
PROGRAMS: Mapping[str, Sequence[str]] = {
    "openvswitch": ("ovs-vswitchd", "--version"),
    "tcpdump": ("tcpdump", "--version"),
    "sshd": ("ssh", "-V"),
    "iproute2": ("ip", "-V"),
}
PROGRAM_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class RunDescription:
    """What is particular to a run, decided before it begins.

    Attributes:
        topology: name.
        rate_scale: emulated rate / real rate.
        seeds: each seed by what it seeds.
        datapath: `kernel` or `userspace`.
        link_backend: `netem` or `linkd`.
        congestion_control: of TCP in the islands.
        capability: of the network: `unicast`, `multicast`, `aggregation` or both.
        command: that repeats the run.
        plan: who exchanges with whom and how; see `schedules`.
        settings: every other choice.
    """

    run_id: str
    topology: str
    rate_scale: float
    seeds: Mapping[str, int]
    datapath: str
    link_backend: str
    congestion_control: str
    command: str
    capability: str = "unicast"
    plan: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def collect_manifest(description: RunDescription) -> dict[str, Any]:
    """Return the manifest of a run that begins now on this machine."""
    return {
        "format": FORMAT,
        "run_id": description.run_id,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": description.command,
        "topology": description.topology,
        "rate_scale": description.rate_scale,
        "capability": description.capability,
        "seeds": dict(description.seeds),
        "datapath": description.datapath,
        "link_backend": description.link_backend,
        "congestion_control": description.congestion_control,
        "plan": dict(description.plan),
        "settings": dict(description.settings),
        "git": git_state(SOURCE_ROOT),
        "machine": machine(),
        "versions": {**python_versions(), **program_versions()},
    }


def machine() -> dict[str, Any]:
    """Return what this machine is: kernel, architecture, cores usable, bytes of memory."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "system": _system_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def python_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages a run rests on, as far as installed."""
    found = {"python": platform.python_version()}
    for name in PYTHON_PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def program_versions() -> dict[str, str]:
    """Return what each program a run rests on says of its version, as far as installed."""
    said = {name: first_line(command) for name, command in PROGRAMS.items()}
    return {name: line for name, line in said.items() if line}


def first_line(command: Sequence[str]) -> str:
    """Return the first line a command prints, empty when it cannot be run."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_TIMEOUT_S,
            text=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter(done.stdout.strip().splitlines()), "")


def git_state(root: Path) -> dict[str, Any]:
    """Return the commit of a source tree and whether files differ from it; nulls without git."""
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain")
    if commit is None or changes is None:
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": bool(changes)}


def _git(root: Path, *arguments: str) -> str | None:
    # A tree that belongs to somebody else is refused otherwise, and root runs the testbed.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
