"""Traffic beside a training: from the entries of an experiment to flows that run on its islands.

An island where flows begin or end runs one process for all of them (`workloads.traffic`), started
over SSH like the workers. Processes listen and wait; `begin` tells them from when times count. What
they report goes into `traffic.jsonl` of the record, line by line.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.deploy.environment import command_line
from testbed.deploy.fleet import Fleet
from testbed.deploy.remote_process import RemoteProcess, describe_exit, last_line
from testbed.emulation.emulation import Emulation
from testbed.experiment.background_load import BackgroundLoad, FlowHistory, background_load
from testbed.experiment.background_model import BackgroundFlow, Entry, TenantJob
from testbed.measure.series import Counts, Series
from testbed.record.files import json_line
from testbed.record.writer import RunRecord
from testbed.workers import WORK_DIRECTORY
from topologies.errors import RunError
from topologies.model import Direction
from topologies.routing import Routes
from workloads.traffic.flows import FOREVER_S, RECEIVE, SEND, FlowEnd, dump_ends

FILE_NAME = "traffic.jsonl"
FIRST_PORT = 20_000  # below the ports that systems give away by themselves
UDP_IP_HEADER_BYTES = 28
END_PATIENCE_S = 6.0
READY_S = 20.0
SENT, RECEIVED = "sent", "received"


@dataclass(frozen=True)
class PlannedFlow:
    """A flow between two islands of an emulation, rates scaled.

    Attributes:
        name: unique in the run.
        end: what its sender is told; its receiver is told the same with the other role.
        tenant: number of the tenant's job it belongs to, None for a flow of its own.
    """

    name: str
    source: str
    target: str
    end: FlowEnd
    tenant: int | None = None


def plan_flows(
    entries: Sequence[Entry],
    addresses: Mapping[str, str],
    mtu_bytes: int,
    *,
    seed: int,
    rate_scale: float,
) -> tuple[PlannedFlow, ...]:
    """Return the flows of an experiment's entries.

    Args:
        entries: as the experiment has them, checked.
        addresses: IPv4 address of each island.
        mtu_bytes: of the network; a datagram fills it.
        seed: of random spans.
        rate_scale: emulated rate / real rate.
    """
    flows: list[PlannedFlow] = []
    tenants = 0
    for entry in entries:
        if isinstance(entry, TenantJob):
            tenants += 1
            flows += _ring(entry, tenants, len(flows), addresses, rate_scale)
        else:
            flows.append(_flow(entry, len(flows), addresses, mtu_bytes, seed, rate_scale))
    return tuple(flows)


def _flow(
    entry: BackgroundFlow,
    number: int,
    addresses: Mapping[str, str],
    mtu_bytes: int,
    seed: int,
    rate_scale: float,
) -> PlannedFlow:
    name = f"{number + 1} {entry.source}>{entry.target}"
    end = FlowEnd(
        flow=name,
        number=number,
        role=SEND,
        protocol=entry.protocol,
        address=addresses[entry.target],
        port=FIRST_PORT + number,
        rate_mbps=(entry.rate_mbps or 0.0) * rate_scale,
        start_s=entry.start_s,
        stop_s=FOREVER_S if entry.stop_s is None else entry.stop_s,
        on_s=entry.on_s or 0.0,
        off_s=entry.off_s or 0.0,
        pattern=entry.pattern,
        datagram_bytes=mtu_bytes - UDP_IP_HEADER_BYTES,
        seed=seed * 1_000_003 + number,
    )
    return PlannedFlow(name, entry.source, entry.target, end)


def _ring(
    job: TenantJob, tenant: int, first: int, addresses: Mapping[str, str], rate_scale: float
) -> list[PlannedFlow]:
    members = len(job.sites)
    names = [
        f"tenant {tenant} {job.sites[i]}>{job.sites[(i + 1) % members]}" for i in range(members)
    ]
    return [
        PlannedFlow(
            names[i],
            job.sites[i],
            job.sites[(i + 1) % members],
            FlowEnd(
                flow=names[i],
                number=first + i,
                role=SEND,
                protocol="tcp",
                address=addresses[job.sites[(i + 1) % members]],
                port=FIRST_PORT + first + i,
                start_s=job.start_s,
                stop_s=FOREVER_S if job.stop_s is None else job.stop_s,
                fed_by=names[i - 1],
                step_bytes=math.ceil(job.message_mb * 1e6 * rate_scale / members),
                steps=2 * (members - 1),
                compute_s=job.compute_s,
            ),
            tenant,
        )
        for i in range(members)
    ]


def ends_by_site(flows: Sequence[PlannedFlow]) -> dict[str, list[FlowEnd]]:
    """Return what the island at each site has to do."""
    ends: dict[str, list[FlowEnd]] = {}
    for flow in flows:
        ends.setdefault(flow.source, []).append(flow.end)
        receiver = FlowEnd(**{**vars(flow.end), "role": RECEIVE})
        ends.setdefault(flow.target, []).append(receiver)
    return ends


@dataclass
class Background:
    """The flows of a run: tells them to begin, hears what they count.

    Attributes:
        flows: all of them; none for a run without background traffic.
        histories: what each flow counted over time, by name.
        last: the last row of each flow and side.
        failure: why what they count could not be written down.
    """

    flows: Sequence[PlannedFlow]
    routes: Routes
    mtu_bytes: int
    file: Path
    fleet: Fleet | None = None
    begin_file: str = ""
    processes: Mapping[str, RemoteProcess] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    histories: dict[str, FlowHistory] = field(default_factory=dict)
    last: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    failure: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for flow in self.flows:
            datagram_bytes = flow.end.datagram_bytes if flow.end.protocol == "udp" else 0
            self.histories[flow.name] = FlowHistory(flow.source, flow.target, datagram_bytes)

    def take(self, site: str, line: str) -> None:
        """Take over a line that the process at a site said."""
        try:
            said = json.loads(line)
        except ValueError:
            return
        with self._lock:
            if said.get("event") == "ready":
                self.ready.add(site)
            for row in said.get("flows", ()):
                self._keep(site, said, row)

    def _keep(self, site: str, said: Mapping[str, Any], row: dict[str, Any]) -> None:
        history, side = self.histories[row["flow"]], str(row["side"])
        self.last[row["flow"], side] = row
        counts = Counts(row["bytes"], row.get("packets", 0), row.get("retransmitted_bytes", 0))
        series: Series = getattr(history, side)
        history.append(series, float(said["before"]), float(said["time"]), counts)
        try:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json_line({"time": said["time"], "site": site, **row}))
        except OSError as error:  # told by `check`: a thread's exception reaches nobody
            self.failure = f"the record cannot be written: {self.file}: {error.strerror}"

    def begin(self, origin_s: float) -> None:
        """Let the flows begin; their times count from this UNIX time.

        Raises:
            RunError: an island's process is not ready.
        """
        if self.fleet is None or not self.processes:
            return
        deadline = time.monotonic() + READY_S
        while len(self.ready) < len(self.processes):
            self.check()
            if time.monotonic() > deadline:
                late = sorted(set(self.processes) - self.ready)
                raise RunError(f"background traffic is not ready at {', '.join(late)}")
            time.sleep(0.05)
        new = f"{self.begin_file}.new"
        command = f"printf %s {origin_s!r} > {new} && mv {new} {self.begin_file}"
        self.fleet.run(command, sites=sorted(self.processes))

    def check(self) -> None:
        """Raise RunError when an island's process has ended before the training did."""
        if self.failure:
            raise RunError(self.failure)
        for site, process in self.processes.items():
            code = process.exit_code
            if code is not None:
                said = last_line(process.error_tail())
                raise RunError(f"background traffic at {site}: {said or describe_exit(code)}")

    def load(self, start_s: float, end_s: float) -> dict[Direction, BackgroundLoad]:
        """Return what flows put on every direction they cross between two UNIX times."""
        with self._lock:
            return background_load(
                self.histories.values(), self.routes, self.mtu_bytes, start_s, end_s
            )

    def summary(self) -> list[dict[str, Any]]:
        """Return a row for each flow: what was sent, received and lost, and how fast."""
        with self._lock:
            return [self._summary(flow) for flow in self.flows]

    def _summary(self, flow: PlannedFlow) -> dict[str, Any]:
        sent = self.last.get((flow.name, SENT), {})
        received = self.last.get((flow.name, RECEIVED), {})
        history = self.histories[flow.name]
        return flow_summary(
            flow, sent, received, active_s(history.sent), active_s(history.received)
        )


def active_s(series: Series) -> float:
    """Return for how long a counter moved, to the precision of its reports."""
    spans = zip(series.times, series.times[1:], series.bytes, series.bytes[1:], strict=False)
    return sum(after - before for before, after, less, more in spans if more > less)


def flow_summary(
    flow: PlannedFlow,
    sent: Mapping[str, Any],
    received: Mapping[str, Any],
    sending_s: float,
    seconds: float,
) -> dict[str, Any]:
    """Return what came of a flow, by the last totals of its two ends.

    A UDP flow that sent less than it should have was held back by the machine, not by the network.

    Args:
        flow: what was asked.
        sent: last totals of the sender.
        received: last totals of the receiver.
        sending_s: for how long it sent.
        seconds: for how long it arrived.
    """
    sent_bytes, arrived = sent.get("bytes", 0), received.get("bytes", 0)
    packets, udp = received.get("packets", 0), flow.end.protocol == "udp"
    lost = max(0, sent_bytes - arrived) if udp else 0
    return {
        "flow": flow.name,
        "source": flow.source,
        "target": flow.target,
        "protocol": flow.end.protocol,
        "tenant": flow.tenant,
        "offered_mbps": flow.end.rate_mbps or None,
        "sent_mbps": 8 * sent_bytes / sending_s / 1e6 if sending_s else None,
        "sent_bytes": sent_bytes,
        "received_bytes": arrived,
        "retransmitted_bytes": sent.get("retransmitted_bytes", 0),
        "lost_bytes": lost,
        "lost_pct": 100 * lost / sent_bytes if udp and sent_bytes else None,
        "out_of_order_packets": received.get("out_of_order", 0),
        "active_s": seconds,
        "rate_mbps": 8 * arrived / seconds / 1e6 if seconds else None,
        "delay_ms": 1000 * received["delay_s"] / packets if packets else None,
        "jitter_ms": 1000 * received.get("jitter_s", 0.0) if packets else None,
        "rounds": sent.get("rounds", 0) if flow.tenant is not None else None,
    }


@contextmanager
def started(
    entries: Sequence[Entry],
    wan: Emulation,
    fleet: Fleet,
    record: RunRecord,
    *,
    seed: int,
    rate_scale: float,
    limit_s: float,
) -> Iterator[Background]:
    """Have the flows of an experiment ready while the body runs; they end with it.

    Args:
        entries: of the experiment; without any nothing is started.
        wan: where they run.
        fleet: its islands, to which `workloads` was deployed.
        record: gets `traffic.jsonl`.
        seed: of random spans.
        rate_scale: emulated rate / real rate.
        limit_s: after which every process ends by itself.

    Raises:
        HostFailures: a process could not be started.
    """
    addresses = {code: wan.fabric.island_ip(code) for code in wan.topology.codes}
    mtu_bytes = wan.topology.mtu_bytes
    flows = plan_flows(entries, addresses, mtu_bytes, seed=seed, rate_scale=rate_scale)
    background = Background(flows, wan.routes, mtu_bytes, record.path / FILE_NAME, fleet)
    if not flows:
        yield background
        return
    background.begin_file = f"{WORK_DIRECTORY}/begin-{time.time_ns()}"
    logs = record.path / "traffic"
    background.processes = fleet.start(
        commands(flows, background.begin_file, limit_s), logs, on_line=background.take
    )
    try:
        yield background
    finally:
        fleet.end(background.processes, END_PATIENCE_S)
        _tidy(logs)


def commands(flows: Sequence[PlannedFlow], begin_file: str, limit_s: float) -> dict[str, str]:
    """Return the command line of the process at each site that has flows."""
    argv = [sys.executable, "-m", "workloads.traffic.endpoint"]
    argv += ["--begin-file", begin_file, "--limit-s", f"{limit_s:g}", "--flows"]
    environment = {"PYTHONPATH": WORK_DIRECTORY, "PYTHONDONTWRITEBYTECODE": "1"}
    return {
        site: command_line([*argv, dump_ends(ends)], environment, WORK_DIRECTORY)
        for site, ends in ends_by_site(flows).items()
    }


def _tidy(logs: Path) -> None:
    """Remove what processes said, which is in `traffic.jsonl`, and errors where there are none."""
    for file in logs.iterdir():
        if file.suffix == ".out" or not file.stat().st_size:
            file.unlink()
    with suppress(OSError):  # errors are left in it
        logs.rmdir()
