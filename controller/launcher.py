"""Starts the controller, or an application that someone else wrote for Ryu.

    python -m controller nine_city --listen 10.255.0.1:6653 --http 10.255.0.1:8080
    python -m controller run learning_switch.py --listen 127.0.0.1:6653 [-- --observe-links]

os-ken dropped `ryu-manager` with its release 4.0, so this does what that did: configure, load,
instantiate, wait. The process ends at once on SIGINT or SIGTERM: what it was asked for is in the
file of `--state` already, and switches keep forwarding by the rules they have.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from controller import alias, shim
from controller.app import FabricController
from controller.fabric import NORTHBOUND_PORT, OPENFLOW_PORT
from controller.intents import Tree
from controller.library import LIBRARY
from controller.limits import Limits
from controller.northbound import listening_socket, serve
from topologies.errors import AtollError, RunError, UserError
from topologies.files import load
from topologies.model import Topology

LOG = logging.getLogger("atoll.controller")
ECHO_INTERVAL_S = 5.0
MOST_UNANSWERED_ECHOES = 3


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int) -> Address:
        """Read `10.255.0.1:6653` or `10.255.0.1`; anything else is a `UserError`."""
        host, colon, port = text.partition(":")
        number = int(port) if port.isdecimal() else (0 if colon else default_port)
        if not host or not 1 <= number <= 65535:
            raise UserError(f"{text!r} is not an address such as 127.0.0.1:{default_port}")
        return cls(host, number)


def serve_topology(
    topology: Topology,
    openflow: Address,
    http: Address,
    trees: tuple[Tree, ...] = (),
    accelerators: Sequence[str] = (),
    most: Limits = Limits(),  # noqa: B008 (frozen)
    state_file: Path | None = None,
) -> NoReturn:
    """Run the controller of a topology until a signal ends the process.

    Args:
        topology: the network that the switches are to make up.
        openflow: where to listen for switches.
        http: where the northbound interface listens.
        trees: trees to install from the start.
        accelerators: sites that have an accelerator.
        most: rules and groups that a switch may hold.
        state_file: where to keep what was asked for, and to find what an earlier one kept.

    Raises:
        MachineError: an address is not there or in use.
        RunError: the OpenFlow side ended by itself.
    """
    _prepare(openflow)
    manager = shim.AppManager.get_instance()
    controller = manager.instantiate(
        FabricController,
        topology=topology,
        accelerators=accelerators,
        trees=trees,
        most=most,
        state_file=state_file,
    )
    serve(controller, *http)
    LOG.info("topology %s, OpenFlow on %s:%d, HTTP on %s:%d", topology.name, *openflow, *http)
    _run(manager, [shim.OFP_HANDLER])


def run_application(file: Path, openflow: Address, options: Sequence[str] = ()) -> NoReturn:
    """Run somebody's Ryu application, unchanged, until a signal ends the process.

    Args:
        file: Python file with a class derived from `RyuApp`.
        openflow: where to listen for switches.
        options: options of the library or the application, such as `--observe-links`.

    Raises:
        UserError: the file is not there, does not import or holds no application.
        MachineError: the address is not there or in use.
        RunError: the OpenFlow side ended by itself.
    """
    alias.install()
    importlib.import_module(f"{LIBRARY}.topology.switches")  # registers --observe-links
    name = _import_file(file)
    _prepare(openflow, options)
    manager = shim.AppManager.get_instance()
    LOG.info("application %s, OpenFlow on %s:%d", file, *openflow)
    _run(manager, [name, shim.OFP_HANDLER])


def _prepare(openflow: Address, options: Sequence[str] = ()) -> None:
    """Configure the library; the address is tried first, since the library would only log it."""
    listening_socket(*openflow).close()
    listen = ["--ofp-listen-host", openflow.host, "--ofp-tcp-listen-port", str(openflow.port)]
    shim.cfg.CONF(
        args=[*listen, *options],
        project="atoll",
        default_config_files=[],
        default_config_dirs=[],
    )
    shim.cfg.CONF.set_override("echo_request_interval", ECHO_INTERVAL_S)
    shim.cfg.CONF.set_override("maximum_unreplied_echo_requests", MOST_UNANSWERED_ECHOES)


def _run(manager: Any, modules: list[str]) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    manager.load_apps(modules)
    contexts = manager.create_contexts()
    shim.hub.joinall(manager.instantiate_apps(**contexts))
    raise RunError("the controller stopped listening for switches; its log says why")


def _end(number: int, frame: FrameType | None) -> None:
    LOG.info("ended by signal %d", number)
    logging.shutdown()
    os._exit(0)


def _import_file(file: Path) -> str:
    """Import an application's file; the name its module is known by."""
    if not file.is_file():
        raise UserError(f"{file}: no such file")
    name = f"ryu_application_{file.stem}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{file}: cannot be imported: {type(error).__name__}: {error}") from error
    if not any(_is_application_of(module, value) for value in vars(module).values()):
        raise UserError(f"{file}: has no class derived from app_manager.RyuApp")
    wanted = getattr(module, "_REQUIRED_APP", [])
    module._REQUIRED_APP = [*wanted, *alias.required_applications()]  # type: ignore[attr-defined]
    return name


def _is_application_of(module: Any, value: object) -> bool:
    derived = isinstance(value, type) and issubclass(value, shim.Application)
    return derived and getattr(value, "__module__", "") == module.__name__


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code. Failures are one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["run"]:
            _main_run(words[1:])
        _main_topology(words)
    except AtollError as error:
        print(f"controller: {error}", file=sys.stderr, flush=True)
        LOG.error("%s", error)
        logging.shutdown()
        os._exit(error.exit_code)


def _main_topology(words: list[str]) -> NoReturn:
    parser = argparse.ArgumentParser(prog="python -m controller", description=main.__doc__)
    parser.add_argument("topology", help="name of a bundled topology, or a topology file")
    parser.add_argument("--listen", default="127.0.0.1", help="address for switches")
    parser.add_argument("--http", help="address for HTTP (default: the same host, port 8080)")
    parser.add_argument("--log", type=Path, help="file to write the log to")
    parser.add_argument(
        "--accelerators",
        default="",
        metavar="SITES",
        help="sites with an accelerator, as AMS,NYC; or all",
    )
    parser.add_argument("--state", type=Path, help="file to keep trees and groups in")
    parser.add_argument("--most-rules", type=int, help="rules that a switch may hold")
    parser.add_argument("--most-groups", type=int, help="groups that a switch may hold")
    given = parser.parse_args(words)
    _log_to(given.log)
    openflow = Address.parse(given.listen, OPENFLOW_PORT)
    http = Address.parse(given.http or openflow.host, NORTHBOUND_PORT)
    topology = load(given.topology)
    serve_topology(
        topology,
        openflow,
        http,
        accelerators=_sites(given.accelerators, topology),
        most=Limits(given.most_rules, given.most_groups),
        state_file=given.state,
    )


def _sites(text: str, topology: Topology) -> tuple[str, ...]:
    if text == "all":
        return topology.codes
    return tuple(code for code in text.split(",") if code)


def _main_run(words: list[str]) -> NoReturn:
    ours, options = words, []
    if "--" in words:
        ours, options = words[: words.index("--")], words[words.index("--") + 1 :]
    parser = argparse.ArgumentParser(
        prog="python -m controller run",
        epilog="Options after -- go to the library and the application.",
    )
    parser.add_argument("file", type=Path, help="Python file of an application written for Ryu")
    parser.add_argument("--listen", default="127.0.0.1", help="address for switches")
    parser.add_argument("--log", type=Path, help="file to write the log to")
    given = parser.parse_args(ours)
    _log_to(given.log)
    run_application(given.file, Address.parse(given.listen, OPENFLOW_PORT), options)


def _log_to(file: Path | None) -> None:
    logging.basicConfig(
        filename=file,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    for noisy in ("os_ken", "ryu"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
