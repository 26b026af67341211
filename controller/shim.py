"""The one place that imports the OpenFlow library: os-ken, or ryu 4.34 itself.

os-ken is the maintained continuation of Ryu; its modules have the same names under `os_ken`. Three
things are set right on the way, so that the rest of the controller, and any application written
for Ryu, finds the same ground under either:

* ryu imports a name that newer eventlet releases no longer have;
* os-ken's native hub takes *any* exception of a handler for the wish to end, which silences that
  application for good. Here only its own end signal does; the exception is logged, as in Ryu;
* os-ken's native hub does not notice that a switch has gone until it next sends something, because
  its sending thread waits for a message. Here the end of receiving ends sending.

`ATOLL_OPENFLOW_LIBRARY` (`os_ken` or `ryu`) chooses where both are installed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from controller.library import LIBRARY

Handler = TypeVar("Handler", bound=Callable[..., Any])

LIBRARY_VERSION = importlib.metadata.version(LIBRARY.replace("_", "-"))

if LIBRARY == "ryu":
    _wsgi: Any = importlib.import_module("eventlet.wsgi")
    if not hasattr(_wsgi, "ALREADY_HANDLED"):
        _wsgi.ALREADY_HANDLED = object()


def _module(name: str) -> Any:
    return importlib.import_module(f"{LIBRARY}.{name}")


hub = _module("lib.hub")
cfg = _module("cfg")
app_manager = _module("base.app_manager")
ofp_event = _module("controller.ofp_event")
ofproto = _module("ofproto.ofproto_v1_3")
parser = _module("ofproto.ofproto_v1_3_parser")
ofproto_protocol = _module("ofproto.ofproto_protocol")
packet = _module("lib.packet.packet")
ethernet = _module("lib.packet.ethernet")
arp = _module("lib.packet.arp")
_handler = _module("controller.handler")
_controller = _module("controller.controller")

MAIN_DISPATCHER = _handler.MAIN_DISPATCHER
DEAD_DISPATCHER = _handler.DEAD_DISPATCHER
CONFIG_DISPATCHER = _handler.CONFIG_DISPATCHER
HANDSHAKE_DISPATCHER = _handler.HANDSHAKE_DISPATCHER
AppManager: Any = app_manager.AppManager
datapath_class: Any = _controller.Datapath
Application: Any = getattr(app_manager, "OSKenApp", None) or app_manager.RyuApp
OFP_HANDLER = f"{LIBRARY}.controller.ofp_handler"


class _EndOfTask(BaseException):
    """What ends a task of the native hub; no handler raises it by accident."""


def _end_sending_with_receiving(datapath_class: Any) -> None:
    receive = datapath_class._recv_loop

    @functools.wraps(receive)
    def receive_then_end(datapath: Any) -> None:
        try:
            receive(datapath)
        finally:
            datapath.close()
            datapath.send(b"", close_socket=True)

    datapath_class._recv_loop = receive_then_end


if getattr(hub, "HUB_TYPE", "") == "native":
    hub.TaskExit = _EndOfTask
    _end_sending_with_receiving(datapath_class)


def on(event: str, states: Collection[str] | str) -> Callable[[Handler], Handler]:
    """Decorate a method as the handler of an OpenFlow event such as `PacketIn` in these states."""
    chosen = getattr(ofp_event, f"EventOFP{event}")
    decorate: Callable[[Handler], Handler] = _handler.set_ev_cls(chosen, states)
    return decorate
