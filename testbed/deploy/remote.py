"""Into an island from another terminal of the host: `atoll exec` and `atoll shell`.

The islands listen on a management network that exists only inside the run's network namespace. So
the command first enters that namespace (nsenter(1), by the run's first process) and then is an
ordinary `ssh` with the run's own configuration: its exit code, its terminal and its standard input
are ssh's. Nothing is opened on the host's network for it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.deploy.keys import KeyFiles
from topologies.errors import MachineError, UserError

_SIGNAL_EXIT_BASE = 128


@dataclass(frozen=True)
class RunAccess:
    """What it takes to reach a run's islands from the host.

    Attributes:
        run_directory: the run's private folder, `/run/atoll/<run>`.
        init_pid: a process in the run's root network namespace, as the host numbers it.
    """

    run_directory: Path
    init_pid: int

    @property
    def keys(self) -> KeyFiles:
        """The run's keys."""
        return KeyFiles(self.run_directory / "ssh")

    @property
    def network_namespace(self) -> Path:
        """The namespace that holds the management network."""
        return Path(f"/proc/{self.init_pid}/ns/net")

    def sites(self) -> tuple[str, ...]:
        """Return the site codes of the islands that have been made, sorted."""
        folder = self.run_directory / "ssh" / "host_keys"
        return tuple(sorted(path.name for path in folder.iterdir())) if folder.exists() else ()


def ssh_argv(access: RunAccess, site: str, command: str, terminal: bool) -> list[str]:
    """Return the command that runs a shell command on an island. Pure.

    Args:
        access: the run.
        site: site code of the island.
        command: for the island's shell.
        terminal: whether the island shall give it a terminal.
    """
    enter = ["nsenter", f"--net={access.network_namespace}", "--"]
    mode = "-t" if terminal else "-T"
    return [*enter, "ssh", "-F", str(access.keys.ssh_config), mode, site, "--", command]


def exec_command(access: RunAccess, site: str, argv: Sequence[str]) -> int:
    """Run a program on an island with this terminal's input and output; return its exit code.

    Raises:
        UserError: for no program, an unknown site, a run that has ended, or without root.
    """
    if not argv:
        raise UserError(f"no command for {site}; write it after --, as in: exec {site} -- hostname")
    return _call(access, site, shlex.join(argv))


def shell(access: RunAccess, site: str) -> int:
    """Open a shell on an island; return its exit code. With piped input it runs that as a script.

    It is not a login shell, because Debian's `/etc/profile` would replace the island's PATH.
    """
    return _call(access, site, "exec bash -i" if _has_terminal() else "exec bash")


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_reachable(access: RunAccess, site: str) -> None:
    """Refuse what cannot work, with what would.

    Raises:
        UserError: for a site that is not in the run, a run that has ended, or without root.
    """
    if os.geteuid() != 0:
        raise UserError("islands can be entered by root only; run it with sudo")
    run = access.run_directory.name
    if not access.network_namespace.exists():
        raise UserError(f"run {run} is not running any more")
    sites = access.sites()
    if not sites:
        raise UserError(f"run {run} has no islands yet; wait until it has deployed")
    if site not in sites:
        raise UserError(f"no island {site!r} in run {run}; it has {', '.join(sites)}")


def _call(access: RunAccess, site: str, command: str) -> int:
    require_reachable(access, site)
    try:
        code = subprocess.call(ssh_argv(access, site, command, _has_terminal()))
    except FileNotFoundError as missing:
        raise MachineError(
            f"{missing.filename} is not installed; "
            "it comes with `apt-get install openssh-client util-linux`"
        ) from None
    return code if code >= 0 else _SIGNAL_EXIT_BASE - code
