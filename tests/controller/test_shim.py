"""The library's faults that the shim mends, each shown on the library itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller import shim
from controller.library import LIBRARY

REPOSITORY = Path(__file__).parents[2]
native = pytest.mark.skipif(LIBRARY != "os_ken", reason="a fault of os-ken's native hub")


def _python(code: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )


@native
def test_a_handler_that_raises_does_not_end_its_application() -> None:
    seen: list[Any] = []
    application = shim.Application()

    def handler(event: Any) -> None:
        seen.append(event)
        raise ValueError("first event")

    application.register_handler(SimpleNamespace, handler)
    application.start()
    for number in (1, 2):
        application._send_event(SimpleNamespace(number=number), None)
    deadline_s = time.monotonic() + 20
    while len(seen) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    application.stop()
    assert [event.number for event in seen] == [1, 2]


@native
def test_a_connection_that_ends_is_noticed_though_nothing_is_sent() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(server.getsockname())
    ours, address = server.accept()
    connection = shim.datapath_class(ours, address)
    serving = threading.Thread(target=connection.serve, daemon=True)
    serving.start()
    assert theirs.recv(8)[1] == 0, "a hello"
    theirs.close()
    serving.join(20)
    assert not serving.is_alive()
    assert connection.state == shim.DEAD_DISPATCHER
    server.close()


def test_the_library_can_be_named() -> None:
    done = _python(
        "from controller.library import LIBRARY; print(LIBRARY)", ATOLL_OPENFLOW_LIBRARY=LIBRARY
    )
    assert done.stdout.strip() == LIBRARY


def test_a_library_that_is_not_there_is_named_with_its_remedy() -> None:
    done = _python("import controller.shim", ATOLL_OPENFLOW_LIBRARY="pox")
    assert "no OpenFlow library: pox is not installed; run make setup" in done.stderr
