"""All islands of a run at once: push, run, start, watch, collect.

Every call goes to all islands in parallel, ends within a time limit, and either returns a result
per site or raises one `HostFailures` that names every island that failed and keeps what succeeded.
The connections run over the management network, out of band: deployment never adds to the traffic
that is measured.
"""

from __future__ import annotations

import itertools
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, TypeVar

from fabric.exceptions import GroupException
from invoke.exceptions import UnexpectedExit

from testbed.deploy.archive import pack, unpack
from testbed.deploy.group import BoundedGroup, LateError, describe_error, pinned_connection
from testbed.deploy.island import Progress
from testbed.deploy.keys import CONNECT_TIMEOUT_S, KeyFiles
from testbed.deploy.remote_process import (
    LineListener,
    RemoteProcess,
    describe_exit,
    last_line,
    start_process,
)
from topologies.errors import HostFailures, UserError

T = TypeVar("T")
_TIMED_OUT = (124, 137)  # what timeout(1) tells after SIGTERM and after SIGKILL
_KILL_AFTER_S = 2
_MARGIN_S = 10.0
_POLL_S = 0.05
_FOLLOW_LINKS = ("--dereference", "--hard-dereference")
_SIGNAL_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class CommandResult:
    """How a command ended on one island."""

    exit_code: int
    stdout: str
    stderr: str


class WorkersFailed(HostFailures):
    """A started program failed while it was watched; the others were ended.

    Attributes:
        first: the site that failed first.
        stderr_tail: the last lines of its standard error.
        ended: sites whose programs still ran and were ended because of it.
    """

    def __init__(
        self,
        failures: Mapping[str, str],
        succeeded: Mapping[str, object],
        first: str,
        stderr_tail: str,
        ended: Sequence[str],
    ) -> None:
        super().__init__("the worker", failures, succeeded)
        self.first = first
        self.stderr_tail = stderr_tail
        self.ended = tuple(ended)
        others = f"; ended the others ({', '.join(ended)})" if ended else ""
        self.args = (f"worker {first} failed first: {failures[first]}{others}",)


def bounded_command(command: str, timeout_s: float) -> str:
    """Return the command under coreutils' `timeout`, so that it ends on the island as well."""
    limit = f"timeout --kill-after={_KILL_AFTER_S} {timeout_s:g}"
    return f"{limit} /bin/bash -c {shlex.quote(command)} </dev/null"


class Fleet:
    """Fabric connections to all islands of a run.

    Args:
        addresses: management address of each site.
        keys: the run's key files.
        run_directory: the run's private folder, for archives under way.
        connect_timeout_s: time to reach an island's SSH port.
        progress: called as (action, site, done, total) when an island has finished an action.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        keys: KeyFiles,
        run_directory: Path,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        progress: Progress | None = None,
    ) -> None:
        self.sites = tuple(sorted(addresses))
        self._connections = {
            site: pinned_connection(addresses[site], keys, connect_timeout_s) for site in self.sites
        }
        self._site_of = {address: site for site, address in addresses.items()}
        self._run_directory = run_directory
        self._progress = progress
        self._numbers = itertools.count(1)

    def connect(self, timeout_s: float = 60.0) -> None:
        """Open all connections; what follows then costs no handshake.

        Raises:
            HostFailures: for islands that could not be reached, or not be trusted.
        """
        self._each("connect", self.sites, lambda site, connection: connection.open(), timeout_s)

    def push(self, sources: Sequence[Path], remote: str, timeout_s: float = 120.0) -> None:
        """Copy files and folders, each under its own name, into a folder on every island.

        Args:
            sources: files and folders here.
            remote: folder there, made when missing.
            timeout_s: time for all of it.

        Raises:
            UserError: for a source that does not exist.
            HostFailures: for islands that did not get everything.
        """
        with self._scratch() as folder:
            archive = Path(folder) / "push.tar"
            pack(sources, archive)
            self._send(dict.fromkeys(self.sites, archive), remote, timeout_s)

    def push_each(
        self, sources: Mapping[str, Sequence[Path]], remote: str, timeout_s: float = 120.0
    ) -> None:
        """Copy to each site its own files and folders, such as its shard of the data.

        Raises:
            UserError: for a source that does not exist, or a site that the fleet lacks.
            HostFailures: for islands that did not get everything.
        """
        self._require(sources)
        with self._scratch() as folder:
            archives = {}
            for site, own in sources.items():
                archives[site] = Path(folder) / f"{site}.tar"
                pack(own, archives[site])
            self._send(archives, remote, timeout_s)

    def run(
        self,
        command: str,
        timeout_s: float = 30.0,
        *,
        sites: Sequence[str] | None = None,
        check: bool = True,
    ) -> dict[str, CommandResult]:
        """Run one shell command on all islands (or some) and wait for it.

        It differs by island through `$ATOLL_SITE`. When its time is over it is ended there too.

        Args:
            command: for bash, in the folder `/tmp` of the island.
            timeout_s: time it may take.
            sites: islands to run it on; all by default.
            check: whether an exit code other than 0 is a failure.

        Raises:
            HostFailures: for islands where it failed, was too late or could not be started.
        """
        bounded = bounded_command(command, timeout_s)

        def call(site: str, connection: Any) -> CommandResult:
            begun_at = time.monotonic()
            done = _execute(connection, bounded, warn=True)
            if done.exited in _TIMED_OUT and time.monotonic() - begun_at >= timeout_s:
                raise LateError(f"not finished within {timeout_s:g} s")
            if check and done.exited != 0:
                raise UnexpectedExit(done)
            return CommandResult(done.exited, done.stdout, done.stderr)

        wanted = self.sites if sites is None else tuple(sites)
        self._require(wanted)
        return self._each("run", wanted, call, timeout_s + _MARGIN_S)

    def start(
        self,
        commands: Mapping[str, str],
        log_directory: Path,
        *,
        timeout_s: float = 30.0,
        on_line: LineListener | None = None,
    ) -> dict[str, RemoteProcess]:
        """Start one shell command per site and return at once, when all shells have answered.

        Args:
            commands: the command of each site.
            log_directory: gets `SITE.out` and `SITE.err`, written as output comes.
            timeout_s: time for the shells to answer.
            on_line: called with every line of standard output.

        Raises:
            HostFailures: when some could not be started; the others are ended.
        """
        self._require(commands)
        log_directory.mkdir(parents=True, exist_ok=True)

        def call(site: str, connection: Any) -> RemoteProcess:
            channel = connection.create_session()
            return start_process(site, channel, commands[site], log_directory, timeout_s, on_line)

        try:
            return self._each("start", list(commands), call, timeout_s + _MARGIN_S)
        except HostFailures as failed:
            self.end(_processes(failed.succeeded))
            raise

    def watch(
        self,
        processes: Mapping[str, RemoteProcess],
        timeout_s: float,
        grace_s: float = 3.0,
        on_poll: Callable[[], None] | None = None,
    ) -> dict[str, int]:
        """Wait until all programs have ended well; return their exit codes, all 0.

        When one fails, the others are ended: a training that lost a rank only waits for time-outs.

        Args:
            processes: as `start` returned them.
            timeout_s: time for all of them.
            grace_s: time between SIGTERM and SIGKILL for programs that have to be ended.
            on_poll: called while waiting; what it raises ends all programs.

        Raises:
            WorkersFailed: when one fails; it names the one that failed first.
            HostFailures: for those still running when the time is over; they are ended.
        """
        deadline = time.monotonic() + timeout_s
        done: set[str] = set()
        try:
            while len(done) < len(processes):
                codes = {site: process.exit_code for site, process in processes.items()}
                if any(code for code in codes.values()):
                    raise self._first_failure(processes, grace_s)
                for site in sorted(s for s, code in codes.items() if code == 0 and s not in done):
                    done.add(site)
                    self._report("watch", site, len(done), len(processes))
                if time.monotonic() > deadline:
                    raise _still_running(codes, timeout_s)
                if on_poll is not None:
                    on_poll()
                time.sleep(_POLL_S)
        except BaseException:
            self.end(processes, grace_s)
            raise
        return dict.fromkeys(processes, 0)

    def end(self, processes: Mapping[str, RemoteProcess], grace_s: float = 3.0) -> None:
        """End programs that still run: SIGTERM to the process group, SIGKILL after `grace_s`."""
        for name, patience_s in (("TERM", grace_s), ("KILL", grace_s)):
            self._signal(processes, name)
            deadline = time.monotonic() + patience_s
            while _running(processes) and time.monotonic() < deadline:
                time.sleep(_POLL_S)

    def collect(self, remote: str, local: Path, timeout_s: float = 120.0) -> dict[str, Path]:
        """Fetch a file or folder from every island into `local/SITE/`; links become what they mean.

        Returns:
            Where it is now, by site.

        Raises:
            HostFailures: for islands that lack it or did not answer; the others' files are there.
        """
        source = PurePosixPath(remote)
        parked = f"/run/collect-{next(self._numbers)}.tar"
        options = shlex.join(
            [*_FOLLOW_LINKS, "-C", str(source.parent), "-cf", parked, "--", source.name]
        )

        with self._scratch() as folder:

            def call(site: str, connection: Any) -> Path:
                # tar's exit code 1 says that a file grew while it was read: it still has a copy
                _execute(connection, f"tar {options} || [ $? -eq 1 ]")
                archive = Path(folder) / f"{site}.tar"
                connection.get(parked, str(archive))
                _execute(connection, f"rm {parked}")
                unpack(archive, local / site)
                return local / site / source.name

            return self._each("collect", self.sites, call, timeout_s)

    def close(self) -> None:
        """Close all connections; what was started on them may live on until the island ends."""
        for connection in self._connections.values():
            with suppress(Exception):
                connection.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="transfer-", dir=self._run_directory)

    def _require(self, sites: Iterable[str]) -> None:
        unknown = sorted(set(sites) - set(self.sites))
        if unknown:
            raise UserError(f"no island {unknown[0]!r}; the islands are {', '.join(self.sites)}")

    def _send(self, archives: Mapping[str, Path], remote: str, timeout_s: float) -> None:
        parked = f"/run/push-{next(self._numbers)}.tar"
        folder = shlex.quote(remote)

        def call(site: str, connection: Any) -> None:
            connection.put(str(archives[site]), parked)
            _execute(
                connection,
                f"mkdir -p {folder} && tar -C {folder} -xf {parked} && rm {parked}",
            )

        self._each("push", list(archives), call, timeout_s)

    def _each(
        self,
        action: str,
        sites: Sequence[str],
        call: Callable[[str, Any], T],
        timeout_s: float,
    ) -> dict[str, T]:
        done = itertools.count(1)

        def report(connection: Any) -> None:
            self._report(action, self._site_of[connection.host], next(done), len(sites))

        members = [self._connections[site] for site in sites]
        group = BoundedGroup(members, timeout_s, report)
        try:
            results = group.each(lambda member: call(self._site_of[member.host], member))
        except GroupException as failed:
            raise self._failures(action, failed.result) from None
        return {self._site_of[member.host]: value for member, value in results.items()}

    def _failures(self, action: str, result: Any) -> HostFailures:
        failed = {self._site_of[m.host]: describe_error(e) for m, e in result.failed.items()}
        kept = {self._site_of[m.host]: value for m, value in result.succeeded.items()}
        return HostFailures(action, failed, kept)

    def _report(self, action: str, site: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(action, site, done, total)

    def _signal(self, processes: Mapping[str, RemoteProcess], name: str) -> None:
        running = _running(processes)
        if not running:
            return

        def call(site: str, connection: Any) -> None:
            _execute(connection, f"kill -{name} -- -{processes[site].pid}", warn=True)

        with suppress(HostFailures):  # who cannot be told goes when its island does
            self._each("end", running, call, _SIGNAL_TIMEOUT_S)

    def _first_failure(
        self, processes: Mapping[str, RemoteProcess], grace_s: float
    ) -> WorkersFailed:
        codes = {site: process.exit_code for site, process in processes.items()}
        ended = [site for site, code in codes.items() if code is None]
        self.end(processes, grace_s)
        failures = {}
        for site, code in codes.items():
            if code:
                said = last_line(processes[site].error_tail())
                failures[site] = describe_exit(code) + (f": {said}" if said else "")
        first = min(failures, key=lambda site: (processes[site].ended_at, site))
        succeeded = {site: code for site, code in codes.items() if code == 0}
        tail = processes[first].error_tail()
        return WorkersFailed(failures, succeeded, first, tail, ended)


def _execute(connection: Any, command: str, *, warn: bool = False) -> Any:
    return connection.run(command, hide=True, warn=warn, in_stream=False, encoding="utf-8")


def _running(processes: Mapping[str, RemoteProcess]) -> list[str]:
    return sorted(site for site, process in processes.items() if process.exit_code is None)


def _processes(values: Mapping[str, object]) -> dict[str, RemoteProcess]:
    return {site: value for site, value in values.items() if isinstance(value, RemoteProcess)}


def _still_running(codes: Mapping[str, int | None], timeout_s: float) -> HostFailures:
    failures = {s: f"still running after {timeout_s:g} s" for s, c in codes.items() if c is None}
    return HostFailures("the worker", failures, {s: c for s, c in codes.items() if c == 0})
