"""Make each island a machine of its own, and start its SSH server.

A Mininet node is a network namespace and little more: all nodes share one host name, one `/tmp`,
one `/dev/shm` and one list of processes (Lantz, Heller and McKeown, "A network in a laptop",
HotNets 2010). Programs that were written for separate machines then meet each other in ways that
no real cluster shows. So an island adds more namespaces (namespaces(7)) to its node's network:

- UTS: a host name, the site code in lower case;
- mount: its own `/tmp`, `/run`, `/dev/shm` and the files of `island_files` over `/etc`;
- PID: its own processes. Its first process is the SSH server, so ending that ends them all.

`/tmp` and `/run` are folders of the run's private directory. Nothing that a program leaves there
can outlive the run or be seen by another island; nor can an island see another's keys. sshd insists
on an empty `/run/sshd` (its privilege separation folder); it lies in the island's `/run` too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from testbed.deploy.island_files import IslandSeat, etc_files, sshd_config_text
from testbed.deploy.keys import KeyFiles, create_keys, write_private
from topologies.errors import HostFailures, MachineError

if TYPE_CHECKING:
    from testbed.deploy.fleet import Fleet

Progress = Callable[[str, str, int, int], None]
"""Called as (action, site, islands done, islands in all), from the thread that did the work."""

START_TIMEOUT_S = 30.0
_POLL_S = 0.005
_ADMIN_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

_ENTER_ISLAND = """
set -eu
folder=$1 name=$2 sshd=$3
shift 3
hostname "$name"
for file in "$folder"/etc/*; do
    target=/etc/${file##*/}
    if [ -e "$target" ]; then mount --bind "$file" "$target"; fi
done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for kept in "$@"; do
    mkdir -p "$folder$kept"
    mount --bind "$kept" "$folder$kept"
done
cd "$folder"
mount --no-canonicalize --rbind ./tmp /tmp
mount --no-canonicalize --rbind ./run /run
cd /tmp
exec "$sshd" -D -e -f /run/ssh/sshd_config
"""


def find_sshd() -> str:
    """Return the absolute path of sshd, which insists on being called by it."""
    found = shutil.which("sshd") or shutil.which("sshd", path=_ADMIN_PATH)
    if found is None:
        raise MachineError("sshd is not installed; it comes with `apt-get install openssh-server`")
    return found


def needed_paths() -> tuple[Path, ...]:
    """Return the folders without which a worker cannot start: the interpreter's and our own."""
    checkout = Path(__file__).resolve().parents[2]
    return (Path(sys.prefix), Path(sys.base_prefix), checkout)


def hidden_paths(needed: Iterable[Path]) -> list[Path]:
    """Return those of the needed folders that an island's own `/tmp` or `/run` would hide."""
    covered = (Path("/tmp"), Path("/run"))
    return sorted({path for path in needed if any(top in path.parents for top in covered)})


def island_command(
    seat: IslandSeat, folder: Path, sshd: str, kept: Sequence[Path] = ()
) -> list[str]:
    """Return the command that turns a node into an island and becomes its sshd.

    Args:
        seat: the island.
        folder: its private folder, with `etc`, `run` and `tmp`.
        sshd: absolute path of the server.
        kept: folders below `/tmp` or `/run` that stay visible (see `hidden_paths`).
    """
    enter = ["nsenter", "--target", str(seat.shell_pid), "--net", "--mount", "--"]
    divide = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    script = ["sh", "-c", _ENTER_ISLAND, "island", str(folder), seat.host_name, sshd]
    return [*enter, *divide, "--", *script, *map(str, kept)]


@dataclass(frozen=True)
class IslandServer:
    """One island's running sshd.

    Attributes:
        folder: the island's private folder, seen from outside.
        process: the outermost process; it ends when the island has ended.
    """

    seat: IslandSeat
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log_file(self) -> Path:
        """What sshd said."""
        return self.folder / "sshd.log"

    @property
    def work_directory(self) -> Path:
        """The island's `/tmp`, seen from outside."""
        return self.folder / "tmp"

    @property
    def listening(self) -> bool:
        """Whether sshd has bound its address: it writes its pid file right after."""
        return (self.folder / "run/ssh/sshd.pid").exists()

    @property
    def ended(self) -> bool:
        """Whether the island is gone."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """End the island's first process, and so all of them (pid_namespaces(7))."""
        first_processes = _children(self.process.pid)
        for pid in first_processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not first_processes:
            self.process.kill()

    def wait(self, timeout_s: float) -> None:
        """Wait until every process of the island has gone."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        """Return the last line of sshd's log, for an error message."""
        lines = self.log_file.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no word from sshd"


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


class Islands:
    """The islands of a run, up and reachable over the management network."""

    def __init__(self, run_directory: Path, keys: KeyFiles) -> None:
        self.run_directory = run_directory
        self.keys = keys
        self.servers: dict[str, IslandServer] = {}

    @property
    def seats(self) -> tuple[IslandSeat, ...]:
        """The islands, by site code."""
        return tuple(self.servers[site].seat for site in sorted(self.servers))

    def fleet(self, progress: Progress | None = None) -> Fleet:
        """Return a Fleet over all islands; it connects when it is first used."""
        from testbed.deploy.fleet import Fleet

        addresses = {seat.site: seat.management_ip for seat in self.seats}
        return Fleet(addresses, self.keys, self.run_directory, progress=progress)

    def close(self, timeout_s: float = 10.0) -> None:
        """End every process of every island; a second call does nothing."""
        for server in self.servers.values():
            if not server.ended:
                server.kill()
        for server in self.servers.values():
            server.wait(timeout_s)

    def __enter__(self) -> Islands:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def prepare_folder(
    folder: Path, seat: IslandSeat, seats: Sequence[IslandSeat], keys: KeyFiles
) -> None:
    """Write everything an island needs into its private folder."""
    for name in ("etc", "run/ssh", "run/sshd", "tmp"):
        (folder / name).mkdir(parents=True, mode=0o755)
    (folder / "tmp").chmod(0o1777)
    host_passwd = Path("/etc/passwd").read_text(encoding="utf-8")
    for name, text in etc_files(seat, seats, host_passwd).items():
        write_private(folder / "etc" / name, text)
        (folder / "etc" / name).chmod(0o600 if name == "shadow" else 0o644)
    ssh = folder / "run/ssh"
    write_private(ssh / "sshd_config", sshd_config_text(seat))
    write_private(ssh / "host_key", keys.host_key(seat.site).read_text())
    write_private(ssh / "authorized_keys", keys.public_key.read_text())


def start_server(
    folder: Path, seat: IslandSeat, sshd: str, kept: Sequence[Path] = ()
) -> IslandServer:
    """Start one island from its prepared folder, without waiting for it.

    It gets a session of its own, so that Ctrl-C in a terminal reaches the run and not its islands.
    """
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            island_command(seat, folder, sshd, kept),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return IslandServer(seat, folder, process)


def await_listening(
    servers: Sequence[IslandServer], timeout_s: float, progress: Progress | None = None
) -> None:
    """Wait until every sshd listens.

    Raises:
        HostFailures: for those that ended or did not listen in time, with their last words.
    """
    deadline = time.monotonic() + timeout_s
    up: dict[str, IslandServer] = {}
    waiting = list(servers)
    while waiting and time.monotonic() < deadline:
        for server in [server for server in waiting if server.listening]:
            up[server.seat.site] = server
            if progress is not None:
                progress("start", server.seat.site, len(up), len(servers))
        waiting = [s for s in waiting if s.seat.site not in up and not s.ended]
        time.sleep(_POLL_S)
    silent = [server for server in servers if server.seat.site not in up]
    if silent:
        failures = {server.seat.site: _why_silent(server, timeout_s) for server in silent}
        raise HostFailures("starting sshd", failures, up)


def _why_silent(server: IslandServer, timeout_s: float) -> str:
    if server.ended:
        return f"ended with code {server.process.returncode}: {server.last_words()}"
    return f"does not listen after {timeout_s:g} s: {server.last_words()}"


def start_islands(
    run_directory: Path,
    seats: Sequence[IslandSeat],
    *,
    timeout_s: float = START_TIMEOUT_S,
    progress: Progress | None = None,
) -> Islands:
    """Make keys, turn every node into an island and wait until all of them can be reached.

    Call it from a process in the network namespace of the management bridge.

    Args:
        run_directory: the run's private folder, `/run/atoll/<run>`; `ssh` and `islands` are made
            in it.
        seats: the nodes.
        timeout_s: time for all of them to listen.
        progress: called for each island that is up.

    Raises:
        HostFailures: when some did not come up; none is left running.
        MachineError: when there is no sshd.
    """
    sshd = find_sshd()
    run_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = create_keys(run_directory, {seat.site: seat.management_ip for seat in seats})
    kept = hidden_paths(needed_paths())
    islands = Islands(run_directory, keys)
    try:
        for seat in seats:
            folder = run_directory / "islands" / seat.site
            prepare_folder(folder, seat, seats, keys)
            islands.servers[seat.site] = start_server(folder, seat, sshd, kept)
        await_listening(list(islands.servers.values()), timeout_s, progress)
    except BaseException:
        islands.close()
        raise
    return islands
