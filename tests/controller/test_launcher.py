"""The command line: addresses, somebody else's applications, mistakes in one line."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller.client import NorthboundClient
from controller.launcher import Address
from topologies.errors import RunError, UserError

REPOSITORY = Path(__file__).parents[2]
LEARNING_SWITCH = Path(__file__).parent / "learning_switch.py"
HELLO = bytes.fromhex("0400000800000001")
GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n",
    bytes(1000),
    bytes([255]) * 1000,
    HELLO + bytes.fromhex("0406ffff00000002"),
    HELLO + bytes.fromhex("0406000800000002"),
    HELLO + bytes.fromhex("0413001000000003000d000000000000"),
    bytes.fromhex("0100000800000001"),
)
HEADER = "from ryu.base import app_manager\n"


def _python(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=REPOSITORY,
        env=dict(os.environ),
    )


def _complaint(*argv: str) -> tuple[int, str]:
    done = _python("-m", "controller", *argv)
    lines = [line for line in done.stderr.splitlines() if line.startswith("controller: ")]
    assert "Traceback" not in done.stderr
    assert len(lines) == 1, done.stderr
    return done.returncode, lines[0]


def test_a_port_left_out_is_the_standard_one() -> None:
    assert Address.parse("10.255.0.1", 6653) == ("10.255.0.1", 6653)
    assert Address.parse("10.255.0.1:7000", 6653) == ("10.255.0.1", 7000)


@pytest.mark.parametrize("text", ["", ":6653", "host:", "host:x", "host:0", "host:65536", "h:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not an address such as"):
        Address.parse(text, 6653)


def test_an_unknown_topology_is_one_line_and_exit_code_2() -> None:
    code, line = _complaint("atlantis")
    assert code == 2
    assert "atlantis" in line and "nine_city" in line


def test_an_application_file_that_is_not_there_is_one_line() -> None:
    assert _complaint("run", "/nowhere.py") == (2, "controller: /nowhere.py: no such file")


def test_a_file_without_an_application_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text(HEADER)
    text = f"controller: {file}: has no class derived from app_manager.RyuApp"
    assert _complaint("run", str(file)) == (2, text)


def test_a_file_that_does_not_import_is_one_line_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(HEADER + "import ryu.no_such_module\n")
    code, line = _complaint("run", str(file))
    assert code == 2
    assert line.startswith(f"controller: {file}: cannot be imported: ModuleNotFoundError: ")
    assert "ryu.no_such_module" in line


def test_an_address_of_somebody_else_is_one_line() -> None:
    code, line = _complaint("nine_city", "--listen", "192.0.2.1:6653")
    assert code == 1
    assert line == "controller: cannot listen on 192.0.2.1:6653: Cannot assign requested address"


def test_garbage_on_the_openflow_port_does_no_harm() -> None:
    openflow, http = _free_ports(2)
    words = ["nine_city", "--listen", f"127.0.0.1:{openflow}", "--http", f"127.0.0.1:{http}"]
    command = [sys.executable, "-W", "ignore", "-m", "controller", *words]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL)
    client = NorthboundClient(f"http://127.0.0.1:{http}")
    try:
        _until_answered(client)
        _until_accepted(openflow)
        for garbage in GARBAGE:
            with socket.create_connection(("127.0.0.1", openflow), timeout=10) as link:
                link.sendall(garbage)
        health = client.health()
        assert len(health["not_confirmed"]) == 9
        with socket.create_connection(("127.0.0.1", openflow), timeout=10) as link:
            assert link.recv(2) == HELLO[:2], "it still greets a switch"
    finally:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def _until_accepted(port: int) -> None:
    """The northbound interface answers a moment before switches are listened for."""
    for _ in range(300):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return
        time.sleep(0.1)
    raise AssertionError("the controller does not listen for switches")


def _until_answered(client: NorthboundClient) -> None:
    for _ in range(300):
        with contextlib.suppress(RunError):
            client.health()
            return
        time.sleep(0.1)
    raise AssertionError("the controller does not answer")


def test_modules_of_ryu_are_those_of_the_library_itself() -> None:
    code = (
        "from controller import alias, shim; alias.install(); alias.install()\n"
        "import ryu, ryu.base.app_manager, ryu.ofproto.ofproto_v1_3 as old, ryu.exception\n"
        "from ryu.lib.packet import ether_types, packet\n"
        "from ryu.controller.handler import set_ev_cls\n"
        "assert ryu.base.app_manager is shim.app_manager\n"
        "assert ryu.base.app_manager.RyuApp is shim.Application\n"
        "assert old is shim.ofproto and packet is shim.packet\n"
        "assert issubclass(ryu.exception.RyuException, Exception)\n"
        "assert old.__spec__.name == old.__name__, old.__spec__\n"
        "print('same')"
    )
    done = _python("-c", code)
    assert done.stdout.strip() == "same", done.stderr


def _loaded(file: Path) -> str:
    """Names of the applications that are loaded for a file."""
    code = (
        "import sys; from controller import launcher\n"
        "launcher._run = lambda manager, modules: (manager.load_apps(modules),"
        " print(*sorted(c.__name__ for c in manager.applications_cls.values())), sys.exit(0))\n"
        "from pathlib import Path\n"
        "launcher.run_application(Path(sys.argv[1]), launcher.Address('127.0.0.1', 36653))"
    )
    done = _python("-c", code, str(file))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_somebody_elses_application_is_loaded_with_the_openflow_handler() -> None:
    assert _loaded(LEARNING_SWITCH) == "LearningSwitch OFPHandler"


@pytest.mark.parametrize("line", ["from ryu.topology import api", "import ryu.topology.api as api"])
def test_an_application_that_uses_discovery_gets_it(tmp_path: Path, line: str) -> None:
    file = tmp_path / "discovering-app.py"
    file.write_text(f"{HEADER}{line}\nclass Mine(app_manager.RyuApp):\n    pass\n")
    assert _loaded(file) == "Mine OFPHandler Switches"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--accelerators", "NYC,PAR"), "no site 'PAR' in this topology"),
        (("--most-groups", "-1"), "a switch cannot hold -1 entries; limits start at 0"),
        (("--most-rules", "11"), "AMS: 12 rules, at most 11 fit in its switch"),
    ],
)
def test_what_a_network_cannot_be_like_is_told_in_one_line(
    words: tuple[str, str], complaint: str
) -> None:
    code, line = _complaint("nine_city", "--listen", "127.0.0.1:16653", *words)
    assert code == 2
    assert complaint in line
