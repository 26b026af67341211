"""A run's own process, mount and network namespaces, which take the whole run with them.

An emulation starts dozens of processes: Mininet's shells, switch daemons, sshd, workers. Trying to
end each of them after a crash is how testbeds come to kill by name. Here the kernel does it: the
run's first process is process 1 of a PID namespace of its own, and when it ends, for whatever
reason, the kernel kills every process of that namespace and with the last of them go the network
namespaces, their interfaces, bridges and mounts (pid_namespaces(7), network_namespaces(7)).

`supervisor -> setpriv --pdeathsig KILL -> unshare --kill-child -> process 1 of the run` is a chain
in which each link dies with the one before, so that even SIGKILL of the supervisor ends the run.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from topologies.errors import RunError

ISOLATION = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
)


def isolated(argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` as process 1 of new PID, mount and network namespaces."""
    return [*ISOLATION, "--", *argv]


def spawn_isolated(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `argv` isolated, with this process's output; call it from the main thread.

    The death signal is tied to the thread that starts the process (prctl(2), PR_SET_PDEATHSIG). It
    gets a session of its own: Ctrl-C or a closed terminal would else reach every process of the run
    at once, and the run would fall apart instead of ending in order.
    """
    return subprocess.Popen(isolated(argv), start_new_session=True)


def first_process(unshare_pid: int, timeout_s: float = 10.0) -> int:
    """Return the host's pid of process 1 of the run that `unshare_pid` started.

    Raises:
        RunError: when no such process appears in time.
    """
    children = Path(f"/proc/{unshare_pid}/task/{unshare_pid}/children")
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        pids = children.read_text().split() if children.exists() else []
        if pids:
            return int(pids[0])
        time.sleep(0.005)
    raise RunError(
        "the run's first process did not start: this machine does not let root make PID, mount "
        "and network namespaces; `atoll doctor` says what is missing"
    )


def start_time_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None if there is none.

    Together with the pid it names one process for ever, while pids alone are used again (proc(5)).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
