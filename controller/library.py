"""Which OpenFlow library is in use, and what must happen before anything else is imported.

ryu runs on eventlet, which replaces blocking calls of the standard library by cooperative ones. A
module that took its copy of a blocking call earlier keeps it and then stops the whole controller
while it waits, so `make_cooperative` comes before every other import of the process.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from topologies.errors import MachineError

_NAMES = ("os_ken", "ryu")


def _choose() -> str:
    named = os.environ.get("ATOLL_OPENFLOW_LIBRARY")
    for name in (named,) if named else _NAMES:
        if name in _NAMES and importlib.util.find_spec(name) is not None:
            return name
    raise MachineError(
        f"no OpenFlow library: {named or 'neither os-ken nor ryu'} is not installed; run make setup"
    )


LIBRARY = _choose()
USES_EVENTLET = LIBRARY == "ryu" or os.environ.get("OSKEN_HUB_TYPE") == "eventlet"


def make_cooperative() -> None:
    """Replace blocking calls where the library's hub is eventlet's."""
    if USES_EVENTLET:
        eventlet: Any = importlib.import_module("eventlet")
        eventlet.monkey_patch()
