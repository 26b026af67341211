"""`atoll watch` and `atoll metrics`: a run seen through its record."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli_options import Runs
from testbed.progress import make_console
from testbed.record.damage import readable
from testbed.record.reader import RUNNING, find_run
from topologies.errors import UserError

REFRESH_S = 0.5
DEFAULT_PORT = 9464  # Prometheus' list of ports has it for metrics of OpenTelemetry
RunName = Annotated[str | None, typer.Argument(help="A run; the latest without one.")]
Once = Annotated[bool, typer.Option("--once", help="Print it once and end.")]


def watch_command(run: RunName = None, once: Once = False, runs: Runs = Path("runs")) -> None:
    """Watch a run, running or finished: links, rounds, workers, validity; q or Ctrl-C ends it."""
    from rich.live import Live as LiveDisplay

    from testbed.watching.frame import frame_of
    from testbed.watching.keys import pressed_keys
    from testbed.watching.live import Live
    from testbed.watching.view import view

    console, live = make_console(), Live(find_run(run, runs))
    with readable(live.run):
        live.look()
        if console.is_terminal and not once:
            display = LiveDisplay(console=console, screen=True, auto_refresh=False)
            # Ctrl-C is the other way to quit, not a failure; a request to end is alike, so that the
            # terminal is left as it was.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with pressed_keys() as wait, display, suppress(KeyboardInterrupt):
                while wait(REFRESH_S).lower() != "q":
                    live.look()
                    display.update(view(frame_of(live), console.width), refresh=True)
        console.print(view(frame_of(live), console.width))


def metrics_command(
    run: RunName = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On loopback; 0 takes a free one.")
    ] = DEFAULT_PORT,
    once: Once = False,
    runs: Runs = Path("runs"),
) -> None:
    """Serve a run's counters to Prometheus on loopback until Ctrl-C."""
    from prometheus_client import generate_latest, start_http_server

    from testbed.watching.exposition import LOOPBACK, registry_of
    from testbed.watching.live import Live

    live = Live(find_run(run, runs))
    with readable(live.run):
        live.look()
        registry = registry_of(live)
        if once:
            print(generate_latest(registry).decode(), end="")
            return
    try:
        server, thread = start_http_server(port, LOOPBACK, registry)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}; name another, or 0") from None
    state = "runs" if live.state == RUNNING else "has ended"
    print(
        f"{live.run.name} ({state}): http://{LOOPBACK}:{server.server_port}/metrics until Ctrl-C",
        flush=True,
    )
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.shutdown()
        thread.join()
