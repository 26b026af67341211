"""All flows of one island: `python -m workloads.traffic.endpoint`.

Lines on standard output tell how it goes, all in JSON: `ready` when every receiver listens, a
`traffic` line twice a second with the totals that moved, and `end`. It ends on SIGTERM, and in any
case when its time limit is over.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from workloads.command import run_and_exit
from workloads.errors import UsageError, WorkloadError
from workloads.traffic.counts import RECEIVED, SENT, Counts, Tally, changed_rows
from workloads.traffic.flows import FlowEnd, parse_ends, receivers, senders
from workloads.traffic.receiving import open_receiver, receive
from workloads.traffic.sending import Clock, send

REPORT_S = 0.5
LOOK_S = 0.05
DRAIN_S = 1.0
JOIN_S = 1.5


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


@dataclass
class Traffic:
    """The flows of an island while they run.

    Attributes:
        sent: tallies of what is sent, by flow.
        received: tallies of what is received, by flow.
        stop_sending: set when no more is to be sent.
        over: set when nothing is to be received any more.
        failures: what threads could not do.
        threads: of all receivers, then of all senders.
        told: what was reported last, by place.
        looked_s: UNIX time of the last report.
    """

    ends: Sequence[FlowEnd]
    sent: dict[str, Tally] = field(default_factory=dict)
    received: dict[str, Tally] = field(default_factory=dict)
    stop_sending: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    failures: list[Exception] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    told: dict[int, Counts] = field(default_factory=dict)
    looked_s: float = field(default_factory=time.time)

    def listen(self) -> None:
        """Open all receivers."""
        for flow, end in receivers(self.ends).items():
            tally = self.received[flow] = Tally(flow, RECEIVED)
            opened = open_receiver(end)
            self._thread(partial(receive, end, opened, tally, self.over))

    def begin(self, origin_s: float) -> None:
        """Start all senders; `origin_s` is the UNIX time from which they count."""
        clock = Clock(origin_s, self.stop_sending)
        for end in senders(self.ends):
            tally = self.sent[end.flow] = Tally(end.flow, SENT)
            fed_by = self.received[end.fed_by] if end.fed_by else None
            self._thread(partial(send, end, clock, tally, fed_by))

    def _thread(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # told by the main thread: a thread's exception reaches nobody
            self.failures.append(error)

    def report(self) -> None:
        """Print the totals that moved; raises what a thread could not do."""
        tallies = [*self.received.values(), *self.sent.values()]
        rows, now_s = changed_rows(tallies, self.told), time.time()
        if rows:
            say("traffic", before=self.looked_s, flows=rows)
        self.looked_s = now_s
        if self.failures and not self.stop_sending.is_set():
            raise self.failures[0]

    def end(self) -> None:
        """Stop sending, let what is under way arrive, and say the last totals."""
        self.stop_sending.set()
        deadline = time.monotonic() + JOIN_S
        for thread in self.threads[len(self.received) :]:
            thread.join(max(0.0, deadline - time.monotonic()))
        time.sleep(DRAIN_S if self.received else 0.0)
        self.over.set()
        self.report()
        say("end")


def say(event: str, **fields: Any) -> None:
    """Print an event with its UNIX time as a line of JSON."""
    print(json.dumps({"event": event, "time": time.time(), **fields}), flush=True)


def take_part(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Carry the flows of an island until told to end.

    Raises:
        WorkloadError: an option is wrong, a port is taken, a receiver cannot be reached.
    """
    parser = _Parser(prog="python -m workloads.traffic.endpoint", allow_abbrev=False)
    parser.add_argument("--flows", type=parse_ends, required=True)
    parser.add_argument("--begin-file", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, required=True)
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.limit_s
    traffic = Traffic(options.flows)
    _check_feeders(traffic.ends)
    told_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())
    traffic.listen()
    say("ready")
    origin_s = _beginning(options.begin_file, told_to_end, deadline)
    if origin_s is not None:
        traffic.begin(origin_s)
        while not told_to_end.wait(REPORT_S) and time.monotonic() < deadline:
            traffic.report()
    traffic.end()


def _check_feeders(ends: Sequence[FlowEnd]) -> None:
    for end in senders(ends):
        if end.fed_by and end.fed_by not in receivers(ends):
            raise UsageError(f"--flows: {end.flow}: {end.fed_by!r} does not arrive here")


def _beginning(file: Path, told_to_end: threading.Event, deadline: float) -> float | None:
    """Wait for the file that says when flows begin; None when it is over before."""
    while not told_to_end.wait(LOOK_S) and time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            text = file.read_text()
            try:
                return float(text)
            except ValueError:
                raise WorkloadError(f"{file}: {text!r} is no UNIX time") from None
    return None


if __name__ == "__main__":
    run_and_exit(take_part)
