"""Process 1 of a run: carries out the order it finds, inside the run's own namespaces.

Started by `testbed.supervisor` as `python -m testbed.inner DIRECTORY`; when it ends, the kernel
ends everything it has started.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

from testbed.order import Order
from testbed.ownership import RuntimeDirectory
from testbed.progress import make_console
from testbed.record.writer import was_interrupted
from testbed.run import carry_out
from topologies.errors import AtollError, describe

EXIT_INTERRUPTED = 130


def _end_in_order(number: int, frame: FrameType | None) -> None:
    """Turn the first request to end into an exception; later ones would only break the tidying."""
    for request in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(request, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(directory: Path) -> int:
    """Carry out the order in `directory`; returns the run's exit code."""
    runtime = RuntimeDirectory(directory.name, directory.parent)
    code = _carry_out(directory, runtime)
    runtime.write_ended()
    return code


def _carry_out(directory: Path, runtime: RuntimeDirectory) -> int:
    for request in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(request, _end_in_order)
    order = Order.read(directory)
    try:
        return carry_out(order, runtime, make_console(stderr=order.as_json))
    except (Exception, KeyboardInterrupt) as error:
        if was_interrupted(error):
            print("atoll: ended on request; nothing is left behind", file=sys.stderr)
            return EXIT_INTERRUPTED
        if not isinstance(error, (AtollError, OSError)):
            raise
        print(f"atoll: {describe(error)}", file=sys.stderr)
        return getattr(error, "exit_code", 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
