"""Fabric's threading group with a time limit, and failures told once.

`fabric.ThreadingGroup` does one thing on all hosts at once and gathers what came of it, but it
joins its threads without limit: one island that no longer answers holds the whole run. This group
closes the connection of whoever is late, which frees its thread, and reports it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from fabric import Config, Connection, ThreadingGroup
from fabric.exceptions import GroupException
from fabric.group import GroupResult
from invoke.exceptions import UnexpectedExit
from paramiko import Ed25519Key, RejectPolicy
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    NoValidConnectionsError,
)

from controller.fabric import SSH_PORT
from testbed.deploy.keys import LOGIN, KeyFiles
from testbed.deploy.remote_process import describe_exit, last_line

HANDSHAKE_TIMEOUT_S = 60
_CLEAN_UP_S = 2.0

logging.getLogger("paramiko").addHandler(logging.NullHandler())


class LateError(Exception):
    """An island did not finish within its time."""


def pinned_connection(address: str, keys: KeyFiles, connect_timeout_s: float) -> Any:
    """Return a Fabric connection that trusts the run's own keys and nothing of the user's.

    No `~/.ssh`, no agent, no `fabric.yml` is read; an unknown or changed host key is refused.
    """
    config = Config(lazy=True, overrides={"load_ssh_configs": False})
    connection = Connection(
        address,
        user=LOGIN,
        port=SSH_PORT,
        config=config,
        connect_timeout=max(1, round(connect_timeout_s)),
        connect_kwargs={
            "pkey": Ed25519Key.from_private_key_file(str(keys.private_key)),
            "look_for_keys": False,
            "allow_agent": False,
            "banner_timeout": HANDSHAKE_TIMEOUT_S,
            "auth_timeout": HANDSHAKE_TIMEOUT_S,
        },
    )
    connection.client.load_system_host_keys(str(keys.known_hosts))
    connection.client.set_missing_host_key_policy(RejectPolicy())
    return connection


class BoundedGroup(ThreadingGroup):  # type: ignore[misc]
    """A Fabric group whose every call ends within `timeout_s`."""

    def __init__(
        self,
        connections: Iterable[Any],
        timeout_s: float,
        on_done: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__()
        self.extend(connections)
        self.timeout_s = timeout_s
        self.on_done = on_done

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.each(lambda connection: getattr(connection, method)(*args, **kwargs))

    def each(self, call: Callable[[Any], Any]) -> Any:
        """Call with every connection at once, each in a thread; return a Fabric `GroupResult`.

        Raises:
            GroupException: Fabric's own, with results and exceptions, when any call failed.
        """
        results = GroupResult()
        threads = {connection: self._thread(call, connection, results) for connection in self}
        deadline = time.monotonic() + self.timeout_s
        for thread in threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        late = [connection for connection, thread in threads.items() if thread.is_alive()]
        outcome = self._settled(results, late)
        for connection in late:
            connection.client.close()
            threads[connection].join(_CLEAN_UP_S)
        if any(isinstance(value, Exception) for value in outcome.values()):
            raise GroupException(outcome)
        return outcome

    def _settled(self, results: Any, late: list[Any]) -> Any:
        outcome = GroupResult(results)
        for connection in late:
            outcome[connection] = LateError(f"not finished within {self.timeout_s:g} s")
        return outcome

    def _thread(
        self, call: Callable[[Any], Any], connection: Any, results: Any
    ) -> threading.Thread:
        def work() -> None:
            try:
                results[connection] = call(connection)
            except Exception as error:
                results[connection] = error
            else:
                if self.on_done is not None:
                    self.on_done(connection)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


def describe_error(error: BaseException) -> str:
    """Return one line on why an island failed."""
    if isinstance(error, UnexpectedExit):
        said = last_line(error.result.stderr)
        return describe_exit(error.result.exited) + (f": {said}" if said else "")
    if isinstance(error, BadHostKeyException):
        return "its host key is not the one made for this run; refused"
    if isinstance(error, AuthenticationException):
        return "it does not accept the key of this run"
    if isinstance(error, NoValidConnectionsError):
        return "nothing listens on its SSH port"
    if isinstance(error, TimeoutError):
        return "it does not answer on the management network"
    if isinstance(error, EOFError):
        return "the connection was lost"
    return last_line(str(error)) or type(error).__name__
