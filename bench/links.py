"""How close links come to what was asked of them, on this machine, against stated goals.

    .venv/bin/python bench/links.py [--repeat 3] [--only NAME] [--json FILE] [--plot DIRECTORY]

Every figure is the median of interleaved repetitions. Delay errors under load are taken at the
link's two ends: a capture in front of it and one behind it, and between them the arithmetic of a
perfect link over the very frames that went in. Rates come from the receivers' own counts.
"""

from __future__ import annotations

import json
import math
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE

# Ahead of this file's own folder, where a bench may have the name of a package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _report import Experiment, Figure, Goal, arguments, conclude, measure, row_of

from testbed.links.backend import Wire
from testbed.links.linkd_backend import LinkdBackend
from testbed.links.namespace import NetworkNamespace
from testbed.links.spec import GilbertElliott, LinkSpec
from testbed.links.stream import Stream
from testbed.links.trial import Trial, run
from topologies.model import Direction

NINE_CITY_LINKS = 11
LOAD_PAYLOAD_BYTES = 8900
LOAD_FRAME_BYTES = LOAD_PAYLOAD_BYTES + 42
SEGMENT_PAYLOAD_BYTES, SEGMENT_FRAME_BYTES = 1448, 1514  # TCP with time stamps at MTU 1500
LOAD_S = 4.0
SOCKET_BYTES = "4096 1048576 268435456"


@contextmanager
def joined(specs: Sequence[LinkSpec]) -> Iterator[tuple[Trial, LinkdBackend]]:
    """A pair of hosts for each spec, joined both ways by one daemon."""
    with ExitStack() as stack:
        trial = stack.enter_context(Trial(pairs=len(specs)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="atoll-bench-")))
        with trial.middle.entered():
            backend = LinkdBackend.start(folder)
            stack.callback(backend.close)
            for wire, spec in zip(trial.wires, specs, strict=True):
                backend.join(wire, spec, spec)
        for host in (host for pair in trial.hosts for host in pair):
            prepare_host(host)
        yield trial, backend


def prepare_host(host: NetworkNamespace) -> None:
    with host.entered():
        for name in ("tcp_rmem", "tcp_wmem"):
            Path(f"/proc/sys/net/ipv4/{name}").write_text(SOCKET_BYTES)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# One-way delay, idle


def idle_delay(delay_ms: float) -> dict[str, float]:
    with (
        joined([LinkSpec(one_way_delay_ms=delay_ms)]) as (trial, _),
        Stream(*trial.hosts[0], trial.address(0, 1)) as stream,
    ):
        stream.send(1)
        stream.receive(1, at_most=1)
        stream.send(1000, 100, 0.001)
        errors = [arrival.one_way_ms - delay_ms for arrival in stream.receive(0.5)]
    return spread(f"delay error, {delay_ms:g} ms, idle", errors)


def spread(name: str, errors_ms: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}: median": statistics.median(map(abs, errors_ms)),
        f"{name}: p99": quantile([abs(error) for error in errors_ms], 0.99),
    }


# One-way delay under load

SENDER = """
import socket, sys, time
period_s, seconds, size, target = *map(float, sys.argv[1:3]), int(sys.argv[3]), sys.argv[4]
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
print("ready", flush=True)
start = float(sys.stdin.readline())
for number in range(int(seconds / period_s)):
    pause = start + number * period_s - time.monotonic()
    if pause > 0:
        time.sleep(pause)
    out.sendto(number.to_bytes(8, "big").ljust(size, b"x"), (target, 7200))
"""


@contextmanager
def offered_load(trial: Trial, share: float, rate_mbps: float, seconds: float) -> Iterator[None]:
    """That share of the rate in each direction of every pair, evenly spaced; in the block it flows.

    The senders start together, once the last of them is there.
    """
    period_s = LOAD_FRAME_BYTES * 8 / (rate_mbps * 1e6 * share)
    words = [f"{period_s}", f"{seconds}", f"{LOAD_PAYLOAD_BYTES}"]
    senders = []
    for pair, hosts in enumerate(trial.hosts):
        for side in (0, 1):
            command = [sys.executable, "-c", SENDER, *words, trial.address(pair, 1 - side)]
            with hosts[side].entered():
                senders.append(subprocess.Popen(command, text=True, stdin=PIPE, stdout=PIPE))
    for sender in senders:
        assert sender.stdout
        sender.stdout.readline()
    start = time.monotonic() + 0.1
    for sender in senders:
        assert sender.stdin
        sender.stdin.write(f"{start}\n")
        sender.stdin.flush()
    yield
    for sender in senders:
        sender.communicate()


@contextmanager
def discarding(trial: Trial) -> Iterator[None]:
    """A socket at every host that takes the load and never reads it."""
    with ExitStack() as stack:
        for pair, hosts in enumerate(trial.hosts):
            for side in (0, 1):
                with hosts[side].entered():
                    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    stack.callback(sink.close)
                    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    sink.bind((trial.address(pair, side), 7200))
        yield


@contextmanager
def captured(namespace: NetworkNamespace, interface: str, file: Path) -> Iterator[None]:
    words = f"tcpdump -i {interface} -Q in -p -s 64 -B 16384 --immediate-mode -w {file}".split()
    with namespace.entered():
        capture = subprocess.Popen(
            [*words, "--time-stamp-precision", "nano", "udp port 7200"],
            stderr=subprocess.PIPE,
            text=True,
        )
    assert capture.stderr
    capture.stderr.readline()
    yield
    time.sleep(0.3)
    capture.terminate()
    capture.communicate()


def read_capture(file: Path) -> list[tuple[int, int, int]]:
    """Number, time stamp in ns and wire bytes of each datagram of the load."""
    data, at, found = file.read_bytes(), 24, []
    while at + 16 <= len(data):
        seconds, nanoseconds, kept, length = struct.unpack_from("<IIII", data, at)
        (number,) = struct.unpack_from(">Q", data, at + 16 + 42)
        found.append((number, seconds * 10**9 + nanoseconds, length))
        at += 16 + kept
    return found


def link_errors_ms(
    entered: Sequence[tuple[int, int, int]],
    left: Sequence[tuple[int, int, int]],
    rate_mbps: float,
    delay_ms: float,
) -> list[float]:
    """How much later each frame left than a perfect link would have let it."""
    left_at = {number: stamp for number, stamp, _ in left}
    errors, departed = [], 0.0
    for number, stamp, length in entered:
        departed = max(stamp, departed) + length * 8000 / rate_mbps
        if number in left_at:
            errors.append((left_at[number] - departed) / 1e6 - delay_ms)
    return errors


def loaded_delay() -> dict[str, float]:
    spec = LinkSpec(rate_mbps=100, one_way_delay_ms=45.6)
    with ExitStack() as stack:
        trial, backend = stack.enter_context(joined([spec] * NINE_CITY_LINKS))
        stack.enter_context(discarding(trial))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="atoll-bench-")))
        before, behind = folder / "before", folder / "behind"
        with (
            captured(trial.middle, trial.wires[0].end_a, before),
            captured(trial.hosts[0][1], "wan0", behind),
            offered_load(trial, 0.7, 100, LOAD_S),
        ):
            used = cpu_share(backend, lambda: time.sleep(LOAD_S))
        errors = link_errors_ms(read_capture(before), read_capture(behind), 100, 45.6)
    cpu = {"CPU of linkd, eleven links at 70 %": 100 * used}
    return spread("delay error, eleven links at 70 % of 100 Mbit/s", errors) | cpu


def cpu_share(backend: LinkdBackend, work: Callable[[], object]) -> float:
    def run_ns() -> int:
        return int(Path(f"/proc/{backend.process_id}/schedstat").read_text().split()[0])

    start, used = time.monotonic_ns(), run_ns()
    work()
    return (run_ns() - used) / (time.monotonic_ns() - start)


# Rate


def iperf(trial: Trial, *words: str) -> float:
    """Mbit/s of payload that the second host received in 5 s after 2 s of start-up."""
    with trial.hosts[0][1].entered():
        server = subprocess.Popen(["iperf3", "-s", "-1", "-J"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    with trial.hosts[0][0].entered():
        client = ["iperf3", "-c", trial.address(0, 1), "-O", "2", "-t", "5", *words]
        subprocess.run(client, stdout=subprocess.DEVNULL, timeout=60)
    report = json.loads(server.communicate(timeout=60)[0])
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


TCP_SENDER = """
import socket, sys, time
out = socket.socket()
out.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1460)
out.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
out.connect((sys.argv[1], 7300))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    out.send(bytes(1 << 16))
"""


def tcp_goodput(trial: Trial, seconds: float) -> float:
    """Mbit/s of payload at the second host: the median of windows after start-up.

    A lost segment holds back what came after it and then lets it go at once; the median of windows
    is not moved by that, as the quotient of one long window is.
    """
    hosts = trial.hosts[0]
    with hosts[1].entered():
        listener = socket.create_server((trial.address(0, 1), 7300))
    with hosts[0].entered():
        words = [trial.address(0, 1), f"{seconds}"]
        sender = subprocess.Popen([sys.executable, "-c", TCP_SENDER, *words])
    with listener, listener.accept()[0] as receiver:
        stamps = arrivals_until(receiver, time.monotonic() + seconds)
    sender.wait()
    width = seconds / 10
    starts = [stamps[0][0] + width * number for number in range(3, 9)]
    return statistics.median(slope_mbps(stamps, start, start + width) for start in starts)


def arrivals_until(receiver: socket.socket, end: float) -> list[tuple[float, int]]:
    """The time and the bytes so far after each read."""
    receiver.settimeout(5)
    stamps, total = [], 0
    while time.monotonic() < end and (data := receiver.recv(1 << 20)):
        total += len(data)
        stamps.append((time.monotonic(), total))
    return stamps


def slope_mbps(stamps: Sequence[tuple[float, int]], start: float, end: float) -> float:
    inside = [stamp for stamp in stamps if start <= stamp[0] < end]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) * 8 / (last - first) / 1e6


def tcp_rate(rate_mbps: float) -> dict[str, float]:
    with joined([LinkSpec(rate_mbps=rate_mbps, one_way_delay_ms=20, mtu_bytes=1500)]) as (trial, _):
        goodput = tcp_goodput(trial, 20 if rate_mbps < 10 else 8)
    return {f"rate error, TCP, {rate_mbps:g} Mbit/s": tcp_error_pct(goodput, rate_mbps)}


def tcp_error_pct(goodput_mbps: float, rate_mbps: float) -> float:
    """Against wire arithmetic: 1,448 bytes of payload in every 1,514 on the wire."""
    return 100 * (goodput_mbps / rate_mbps * SEGMENT_FRAME_BYTES / SEGMENT_PAYLOAD_BYTES - 1)


def udp_rate(rate_mbps: float) -> dict[str, float]:
    size = 1400 if rate_mbps < 100 else 8900
    with joined([LinkSpec(rate_mbps=rate_mbps, one_way_delay_ms=20)]) as (trial, _):
        words = ("-u", "-l", str(size), "-b", f"{1.2 * rate_mbps}M")
        load = threading.Thread(target=iperf, args=(trial, *words))
        load.start()
        time.sleep(2)
        windows = [wire_rates([trial.hosts[0][1]], 1)[0] for _ in range(4)]
        load.join()
    return {
        f"rate error, UDP at 1.2x, {rate_mbps:g} Mbit/s": 100
        * (statistics.median(windows) / rate_mbps - 1)
    }


def mininet_htb_rate(rate_mbps: float) -> dict[str, float]:
    """The queueing that Mininet's TCLink puts on a host's interface for `bw`."""
    with joined([LinkSpec()]) as (trial, _):
        with trial.hosts[0][0].entered():
            htb = f"htb rate {rate_mbps:g}Mbit burst 15k"
            run(
                [
                    "tc",
                    "qdisc",
                    "add",
                    "dev",
                    "wan0",
                    "root",
                    "handle",
                    "5:0",
                    "htb",
                    "default",
                    "1",
                ]
            )
            run(f"tc class add dev wan0 parent 5:0 classid 5:1 {htb}".split())
        goodput = tcp_goodput(trial, 8)
    name = f"rate error, TCP, {rate_mbps:g} Mbit/s, Mininet's HTB instead"
    return {name: tcp_error_pct(goodput, rate_mbps)}


def throughput() -> dict[str, float]:
    with joined([LinkSpec(one_way_delay_ms=20)]) as (trial, backend):
        achieved: list[float] = []
        used = cpu_share(backend, lambda: achieved.append(iperf(trial, "-C", "cubic")))
    return {
        "TCP with segmentation offload, no rate, 20 ms": achieved[0] / 1000,
        "CPU of linkd during it": 100 * used,
    }


def received_bytes(namespace: NetworkNamespace) -> int:
    with namespace.entered():
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    return next(int(x.split(":")[1].split()[0]) for x in lines if x.strip().startswith("wan0:"))


def all_links_full() -> dict[str, float]:
    spec = LinkSpec(rate_mbps=100, one_way_delay_ms=45.6)
    with joined([spec] * NINE_CITY_LINKS) as (trial, backend), discarding(trial):
        hosts = [host for pair in trial.hosts for host in pair]
        rates: list[float] = []
        with offered_load(trial, 1.1, 100, LOAD_S):
            time.sleep(LOAD_S / 4)
            used = cpu_share(backend, lambda: rates.extend(wire_rates(hosts, LOAD_S / 2)))
    worst = max(rates, key=lambda rate: abs(rate - 100))
    return {
        "worst rate error, eleven links full both ways": worst - 100,
        "CPU of linkd, eleven links full both ways": 100 * used,
    }


def wire_rates(hosts: Sequence[NetworkNamespace], seconds: float) -> list[float]:
    """Mbit/s of wire bytes that come in at each host, by its own kernel's count."""
    first = [stamped_bytes(host) for host in hosts]
    time.sleep(seconds)
    last = [stamped_bytes(host) for host in hosts]
    return [(b - a) * 8 / (t - s) / 1e6 for (s, a), (t, b) in zip(first, last, strict=True)]


def stamped_bytes(host: NetworkNamespace) -> tuple[float, int]:
    """A reading of the counter and its time; the quickest of three, which nothing interrupted."""
    readings = []
    for _ in range(3):
        start = time.monotonic()
        count = received_bytes(host)
        readings.append((time.monotonic() - start, start, count))
    took, start, count = min(readings)
    return start + took / 2, count


# Loss


def loss(loss_pct: float) -> dict[str, float]:
    with joined([LinkSpec(loss_pct=loss_pct)]) as (trial, _):
        received = len(carried(trial, 20_000))
    chance = loss_pct / 100
    error = (20_000 - received) - 20_000 * chance
    half_width = 2.576 * math.sqrt(20_000 * chance * (1 - chance))
    return {f"loss {loss_pct:g} %: part of its 99 % interval": abs(error) / half_width}


def carried(trial: Trial, count: int) -> list[int]:
    numbers: list[int] = []
    with Stream(*trial.hosts[0], trial.address(0, 1)) as stream:
        for _ in range(count // 1000):
            stream.send(1000)
            numbers += [arrival.number for arrival in stream.receive(0.05)]
    return numbers


def burst_length() -> dict[str, float]:
    with joined([LinkSpec(burst_loss=GilbertElliott(2, 25), seed=1)]) as (trial, _):
        numbers = carried(trial, 40_000)
    gaps = [b - a - 1 for a, b in pairwise(numbers) if b - a > 1]
    return {"burst length error, 4 frames": 100 * (statistics.mean(gaps) / 4 - 1)}


# Many links


def idle_links(links: float) -> dict[str, float]:
    count = int(links)
    middle = NetworkNamespace()
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder, middle.entered():
        for index in range(count):
            for end in "ab":
                run(f"ip link add w{index}{end} up type veth peer name n{index}{end}".split())
                run(f"ip link set n{index}{end} up".split())
        backend = LinkdBackend.start(Path(folder))
        start = time.monotonic()
        for index in range(count):
            wire = Wire(index, f"w{index}a", f"w{index}b", Direction(f"A{index}", f"B{index}"))
            backend.join(wire, LinkSpec(100, 20), LinkSpec(100, 20))
        joined_s = time.monotonic() - start
        time.sleep(2)
        used = cpu_share(backend, lambda: time.sleep(5))
        backend.close()
    middle.close()
    return {f"CPU of linkd, {count} links idle": 100 * used, f"joining {count} links": joined_s}


def figure_of(name: str) -> Figure:
    """Its unit, its group and its goal."""
    if name.startswith("delay error"):
        loaded, p99 = "70 %" in name, name.endswith("p99")
        return Figure(
            "ms", "delay", Goal((3 if loaded else 1) if p99 else (0.5 if loaded else 0.2))
        )
    if name.startswith("TCP with"):
        return Figure("Gbit/s", "throughput", Goal(7, at_least=True))
    if "part of" in name:
        return Figure("of 1", "loss", Goal(1))
    if name.startswith("burst"):
        return Figure("%", "bursts", Goal(10))
    if name.startswith("joining"):
        return Figure("s", "joining")
    if name.startswith("CPU"):
        return Figure("%", "processor", Goal(5) if name == "CPU of linkd, 200 links idle" else None)
    if name.startswith("worst rate"):
        return Figure("%", "rate", Goal(2))
    return Figure("%", "rate", None if "Mininet" in name else Goal(1))


def experiments(only: str) -> list[Experiment]:
    """Every experiment whose name contains `only`."""
    series: list[tuple[Callable[[float], dict[str, float]], tuple[float, ...]]] = [
        (idle_delay, (1, 20, 150)),
        (tcp_rate, (1, 10, 100, 1000)),
        (udp_rate, (1, 10, 100, 1000)),
        (mininet_htb_rate, (100, 1000)),
        (loss, (0.1, 1, 5)),
        (idle_links, (20, 200)),
    ]
    single: list[Experiment] = [loaded_delay, throughput, all_links_full, burst_length]
    chosen: list[Experiment] = [x for x in single if only in x.__name__]
    for experiment, values in series:
        if only in experiment.__name__:
            chosen += [partial(experiment, value) for value in values]
    return chosen


def main() -> int:
    options = arguments(__doc__.splitlines()[0] if __doc__ else "", repeat=3).parse_args()
    samples = measure(experiments(options.only), options.repeat)
    rows = [row_of(name, values, figure_of(name)) for name, values in samples.items()]
    return conclude(rows, "links", options)


if __name__ == "__main__":
    sys.exit(main())
