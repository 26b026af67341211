"""What whole emulations do, islands, switches and links together, against stated goals.

    sudo .venv/bin/python bench/emulation.py [--repeat 3] [--only NAME] [--json FILE] [--plot DIR]

*Ready* means that every ordered pair of islands was reached (nine cities), or that every switch has
confirmed its rules and neighbours answer (the line). Memory is the proportional set size (PSS) of
everything that was started. Delay under load is taken at links' own two ends, as in `links.py`;
here the load comes from islands and crosses switches. The last group sets Mininet's `TCLink` into
the same place, with the same switches and MTU: what somebody would use for a rate who has Mininet
alone. For delay there is nothing to compare on a kernel without netem.

Every experiment is a process of its own in namespaces of its own, as an emulation is.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

# Ahead of this file's own folder, where a bench may have the name of a package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _report import Experiment, Figure, Goal, arguments, conclude, measure, row_of
from links import TCP_SENDER, arrivals_until, link_errors_ms, quantile, read_capture, slope_mbps

from testbed.doctor.checks import datapath_of, link_backend_of
from testbed.doctor.probe import probe as probe_machine
from testbed.emulation.emulation import Emulation, EmulationOptions, emulation
from testbed.emulation.network import NetworkOptions
from testbed.emulation.switches import OpenVSwitch, SwitchSpec
from testbed.host_settings import wanted_settings
from testbed.isolation import isolated
from testbed.links.namespace import inside_namespace_of
from testbed.measure.reach import Probing, Reachability, UnreachableError, asked_round_trips
from testbed.measure.reach import measure as probe
from testbed.ownership import RuntimeDirectory
from testbed.supervisor import host_settings
from topologies.files import load
from topologies.model import Access, Direction, DirectionSpec, Link, Site, Topology

INSIDE = "--inside"
LINE_RATE_MBPS, LINE_DELAY_MS = 100.0, 1.0
ATTEMPTS = 5
LOAD_SHARE, LOAD_S, LOAD_PORT = 0.7, 5.0, 7200
PAYLOAD_BYTES = 8900
FRAME_BYTES = PAYLOAD_BYTES + 42
SEGMENT_PAYLOAD_BYTES, SEGMENT_FRAME_BYTES = 8948, 9014  # TCP with time stamps at MTU 9000
# Short, long, and both ways of the busiest city's
WATCHED = ("LON>AMS", "LAX>NYC", "NYC>LON", "LON>NYC", "TYO>SIN")
COMPARED_MBPS = (10.0, 100.0, 500.0, 1000.0)
COMPARED_S = 6.0
Pair = tuple[str, str]
Figures = dict[str, float]


# Networks


def line(switches: int) -> Topology:
    """Return a line of cities, each joined to the next by 100 Mbit/s and 1 ms."""
    codes = [f"N{number:03d}" for number in range(switches)]
    return chain(f"line_{switches}", codes, DirectionSpec(LINE_RATE_MBPS, LINE_DELAY_MS))


def two_cities(rate_mbps: float, one_way_delay_ms: float = 0.0) -> Topology:
    return chain("two_cities", ["AAA", "BBB"], DirectionSpec(rate_mbps, one_way_delay_ms))


def chain(name: str, codes: Sequence[str], way: DirectionSpec) -> Topology:
    """Cities in a row; access ports are ten times as fast, so that only links limit."""
    return Topology(
        name=name,
        sites=tuple(Site(code, code, 0.0, index / 10) for index, code in enumerate(codes)),
        links=tuple(Link(a, b, way, way) for a, b in pairwise(codes)),
        access={code: Access(min(10_000.0, 10 * way.rate_mbps)) for code in codes},
        source="made for the bench",
        licence="Apache-2.0",
    )


@cache
def chosen() -> tuple[str, str]:
    """The datapath and the link back-end that `atoll` would choose here."""
    facts = probe_machine()
    datapath, backend = datapath_of(facts), link_backend_of(facts)
    assert datapath, "no Open vSwitch works here: see `atoll doctor`"
    assert backend, "no link back-end works here: see `atoll doctor`"
    return datapath, backend


@contextmanager
def standing(topology: Topology) -> Iterator[Emulation]:
    """The network, built in the current namespaces with what `atoll` would choose here."""
    runtime = RuntimeDirectory(f"bench-{time.time_ns():x}")
    runtime.create()
    try:
        datapath, backend = chosen()
        options = EmulationOptions(NetworkOptions(datapath), backend)
        with emulation(topology, options, runtime, lambda text: None) as wan:
            yield wan
    finally:
        runtime.remove()


def reached(wan: Emulation, pairs: Sequence[Pair] | None = None, probes: int = 5) -> Reachability:
    """Probe these pairs, or all; none may be unreached."""
    asked = asked_round_trips(wan.routes)
    asked = {pair: asked[pair] for pair in pairs or asked}
    codes = sorted({code for pair in asked for code in pair})
    return probe(
        {code: wan.island_prefix(code) for code in codes},
        {code: wan.fabric.island_ip(code) for code in codes},
        asked,
        Probing.paced(len(codes), max(asked.values()), probes=probes, realtime=True),
    ).require_all()


def reached_at_last(wan: Emulation, pairs: Sequence[Pair]) -> Reachability:
    """Probe until all are reached: hundreds of islands ask the controller for addresses at once."""
    for _ in range(ATTEMPTS - 1):
        with suppress(UnreachableError):
            return reached(wan, pairs, probes=3)
    return reached(wan, pairs, probes=3)


def pss_mib() -> float:
    """Return the proportional set size of all processes of this PID namespace, in MiB."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/smaps_rollup"):
        try:
            rows = path.read_text().splitlines()
        except OSError:
            continue
        total += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total / 1024


# Bring-up and round trips


def nine_city() -> Figures:
    started = time.monotonic()
    with standing(load("nine_city").scaled(0.01)) as wan:
        reached(wan)
        ready_s = time.monotonic() - started
        memory_mib = pss_mib()
        asked = asked_round_trips(wan.routes)
        longest = max(asked, key=asked.__getitem__)
        far = reached(wan, [longest, longest[::-1]], probes=100).round_trips
        ended = time.monotonic()
    way = f"round-trip error, host to host, longest path {'-'.join(longest)}"
    return {
        "nine_city: ready, all pairs proved": ready_s,
        "nine_city: torn down": time.monotonic() - ended,
        "nine_city: memory": memory_mib,
        f"{way}: median": max(trip.error_ms or 0.0 for trip in far),
        f"{way}: least": max((trip.measured_min_ms or 0.0) - trip.asked_ms for trip in far),
    }


def long_line(switches: float) -> Figures:
    topology = line(int(switches))
    started = time.monotonic()
    with standing(topology) as wan:
        reach = reached_at_last(wan, [(link.a, link.b) for link in topology.links])
        proved_s = time.monotonic() - started
        memory_mib = pss_mib()
        ended = time.monotonic()
    torn_down_s = time.monotonic() - ended
    errors = [trip.error_ms for trip in reach.round_trips if trip.error_ms is not None]
    name = f"line of {switches:g} switches"
    return {
        f"{name}: built, proved and torn down": proved_s + torn_down_s,
        f"{name}: torn down": torn_down_s,
        f"{name}: memory": memory_mib,
        f"round-trip error, neighbours in a {name}: median": statistics.median(errors),
        f"round-trip error, neighbours in a {name}: worst": max(errors, key=abs),
    }


# Delay under load

ISLAND_SENDER = """
import socket, sys, time
period_s, seconds, size = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 23)
targets = [(address, int(sys.argv[4])) for address in sys.argv[5:]]
print("ready", flush=True)
start = float(sys.stdin.readline())
for number in range(int(seconds / period_s)):
    pause = start + number * period_s - time.monotonic()
    if pause > 0:
        time.sleep(pause)
    data = number.to_bytes(8, "big").ljust(size, b"x")
    for target in targets:
        out.sendto(data, target)
"""


def loaded_nine_city() -> Figures:
    """Nine of eleven links, whose ends have no shorter way, carry 70 % of their rate both ways."""
    nine = load("nine_city").scaled(0.01)
    wide = {code: Access(10 * spec.rate_mbps) for code, spec in nine.access.items()}
    with standing(replace(nine, access=wide)) as wan, ExitStack() as stack:
        reached(wan)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="atoll-bench-")))
        stack.enter_context(discarding(wan))
        with ExitStack() as captures:
            for way in WATCHED:
                captures.enter_context(watched(wan, Direction.parse(way), folder))
            begin_load(wan, direct_flows(wan), stack)
            time.sleep(LOAD_S + 0.5)
        errors = [error for way in WATCHED for error in errors_ms(wan, way, folder)]
        loads = [load_pct(wan, way, folder) for way in WATCHED]
    name = "delay error, nine_city, every link loaded by islands with 70 % of 100 Mbit/s"
    return {
        f"{name}: median": statistics.median(map(abs, errors)),
        f"{name}: p99": quantile([abs(error) for error in errors], 0.99),
        "load that came to the watched links: least": min(loads),
        "load that came to the watched links: mean": statistics.mean(loads),
    }


def direct_flows(wan: Emulation) -> dict[str, list[str]]:
    """For each island the neighbours that it reaches over their common link."""
    flows: dict[str, list[str]] = {code: [] for code in wan.topology.codes}
    for way in wan.topology.wan_directions():
        if wan.routes.next_hop(way.source, way.target) == way.target:
            flows[way.source].append(way.target)
    return flows


@contextmanager
def discarding(wan: Emulation) -> Iterator[None]:
    """A socket at every island that takes the load and never reads it."""
    with ExitStack() as stack:
        for code in wan.topology.codes:
            with inside_namespace_of(wan.network.island(code).pid):
                sink = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sink.bind((wan.fabric.island_ip(code), LOAD_PORT))
        yield


def begin_load(wan: Emulation, flows: Mapping[str, Sequence[str]], stack: ExitStack) -> None:
    """Start a sender at each island and, once the last is there, let all begin."""
    rate_mbps = min(spec.rate_mbps for spec in wan.topology.wan_directions().values())
    period_s = FRAME_BYTES * 8 / (LOAD_SHARE * rate_mbps * 1e6)
    words = [f"{period_s}", f"{LOAD_S}", f"{PAYLOAD_BYTES}", f"{LOAD_PORT}"]
    senders = []
    for code, targets in flows.items():
        addresses = [wan.fabric.island_ip(target) for target in targets]
        command = [*wan.island_prefix(code), sys.executable, "-S", "-c", ISLAND_SENDER]
        sender = subprocess.Popen(
            [*command, *words, *addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.callback(sender.wait)
        senders.append(sender)
    for sender in senders:
        assert sender.stdout
        sender.stdout.readline()
    start = time.monotonic() + 0.2
    for sender in senders:
        assert sender.stdin
        print(start, file=sender.stdin, flush=True)


@contextmanager
def watched(wan: Emulation, way: Direction, folder: Path) -> Iterator[None]:
    """Capture a direction's load before the link, at its wire end, and behind it, at the switch."""
    wire = next(x for x in wan.network.wires if way in (x.forward, x.forward.reverse))
    ahead = way == wire.forward
    before, behind = (wire.end_a, wire.b) if ahead else (wire.end_b, wire.a)
    switch = ["mnexec", "-a", str(wan.network.switch(way.target).pid)]
    flow = f"udp port {LOAD_PORT} and src host {wan.fabric.island_ip(way.source)}"
    places: list[tuple[list[str], str, str]] = [
        ([], before, "before"),
        (switch, behind.interface, "behind"),
    ]
    with ExitStack() as stack:
        for prefix, interface, name in places:
            words = f"tcpdump -i {interface} -Q in -p -s 64 -B 16384 --immediate-mode -w".split()
            file = folder / f"{way}-{name}"
            command = [*prefix, *words, str(file), "--time-stamp-precision", "nano", flow]
            capture = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            assert capture.stderr
            capture.stderr.readline()
            stack.callback(capture.communicate)
            stack.callback(capture.terminate)
        yield


def errors_ms(wan: Emulation, way: str, folder: Path) -> list[float]:
    """How much later each frame left than a perfect link would have let it."""
    spec = wan.topology.wan_directions()[Direction.parse(way)]
    before, behind = (read_capture(folder / f"{way}-{name}") for name in ("before", "behind"))
    return link_errors_ms(before, behind, spec.rate_mbps, spec.one_way_delay_ms)


def load_pct(wan: Emulation, way: str, folder: Path) -> float:
    """Return the load as a share of the rate, from the frames that came to the link."""
    frames = read_capture(folder / f"{way}-before")
    seconds = (frames[-1][1] - frames[0][1]) / 1e9
    rate_mbps = wan.topology.wan_directions()[Direction.parse(way)].rate_mbps
    return 100 * sum(length for _, _, length in frames[:-1]) * 8 / seconds / 1e6 / rate_mbps


# Throughput and rates


def goodput_mbps(sender: int, receiver: int, address: str, seconds: float) -> float:
    """Payload that TCP (cubic) brings from one process's namespace to another's, MTU 9000."""
    with inside_namespace_of(receiver):
        listener = socket.create_server((address, 7300))
    script = TCP_SENDER.replace("TCP_MAXSEG, 1460", "TCP_MAXSEG, 8960")
    command = ["mnexec", "-a", str(sender), sys.executable, "-S", "-c", script]
    process = subprocess.Popen([*command, address, f"{seconds}"], stderr=subprocess.DEVNULL)
    with listener, listener.accept()[0] as connection:
        stamps = arrivals_until(connection, time.monotonic() + seconds)
    process.wait()
    width = seconds / 10
    starts = [stamps[0][0] + width * number for number in range(3, 9)]
    return statistics.median(slope_mbps(stamps, start, start + width) for start in starts)


def island_goodput_mbps(wan: Emulation, seconds: float) -> float:
    sender, receiver = (wan.network.island(code).pid for code in ("AAA", "BBB"))
    return goodput_mbps(sender, receiver, wan.fabric.island_ip("BBB"), seconds)


def unlimited() -> Figures:
    with standing(two_cities(1000.0, 20.0)) as wan:
        for way in wan.topology.directions():
            wan.links.change(way, rate_mbps=None)
        achieved = island_goodput_mbps(wan, 8.0)
    return {"TCP, island-switch-link-switch-island, no rate, 20 ms": achieved / 1000}


def atoll_rate(rate_mbps: float) -> float:
    with standing(two_cities(rate_mbps)) as wan:
        return island_goodput_mbps(wan, COMPARED_S)


def tclink_rate(rate_mbps: float, tbf: bool) -> float:
    """The same places but for the link, which is Mininet's; Open vSwitch learns by itself."""
    from mininet.log import setLogLevel
    from mininet.node import OVSSwitch

    from testbed.emulation.network import _bare_mininet

    net = _bare_mininet()
    setLogLevel("critical")  # of an HTB that is too fast for its quantum it complains as an error
    folder = Path(tempfile.mkdtemp(prefix="atoll-bench-", dir="/run"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    try:
        hosts, switches = place_nodes(net, rate_mbps, tbf, folder)
        net.start()
        for switch in switches:
            alone = ["del-controller", "br0", "--", "set-fail-mode", "br0", "standalone"]
            subprocess.run(["ovs-vsctl", f"--db={switch._database}", *alone], check=True)
            for interface in switch.intfList():
                OVSSwitch.TCReapply(interface)  # Open vSwitch removes what it did not put there
        return goodput_mbps(hosts[0].pid, hosts[1].pid, "10.0.0.2", COMPARED_S)
    finally:
        for switch in net.switches:
            switch.stop(deleteIntfs=False)
        for node in (*net.hosts, *net.switches):
            node.terminate()
        shutil.rmtree(folder)


def place_nodes(net: Any, rate_mbps: float, tbf: bool, folder: Path) -> tuple[list[Any], list[Any]]:
    """Two hosts, two switches, and between the switches a `TCLink` with nothing but a rate."""
    from mininet.link import TCLink

    hosts, switches = [], []
    for side in (1, 2):
        spec = SwitchSpec(side, (1, 2), "tcp:127.0.0.1:1", chosen()[0], 9000)
        hosts.append(net.addHost(f"h{side}", ip=f"10.0.0.{side}/24"))
        place = folder / f"{side}"
        switches.append(
            net.addSwitch(
                f"s{side}", cls=OpenVSwitch, spec=spec, directory=place, priority="realtime"
            )
        )
    ends = {"intfName1": "p2", "intfName2": "p2"}
    net.addLink(*switches, cls=TCLink, bw=rate_mbps, use_tbf=tbf, **ends)
    for host, switch in zip(hosts, switches, strict=True):
        net.addLink(host, switch, cls=TCLink, intfName1="eth0", intfName2="p1", txo=False)
        host.configDefault()
    for node in (*hosts, *switches):
        for interface in node.intfList():
            node.cmd(f"ip link set {interface} mtu 9000 up")
    return hosts, switches


def compared(rate_mbps: float) -> Figures:
    """Each of the three from island to island, one after another."""
    achieved = {
        "Atoll": atoll_rate(rate_mbps),
        "TCLink, HTB": tclink_rate(rate_mbps, tbf=False),
        "TCLink, TBF": tclink_rate(rate_mbps, tbf=True),
    }
    wire = SEGMENT_FRAME_BYTES / SEGMENT_PAYLOAD_BYTES
    figures = {
        f"rate error, island to island, {rate_mbps:g} Mbit/s, {who}": 100
        * (goodput * wire / rate_mbps - 1)
        for who, goodput in achieved.items()
    }
    ratios = {
        f"goodput at {rate_mbps:g} Mbit/s, {who} / Atoll": goodput / achieved["Atoll"]
        for who, goodput in achieved.items()
        if who != "Atoll"
    }
    return figures | ratios


# Running and judging

SINGLE: Mapping[str, Callable[[], Figures]] = {
    function.__name__: function for function in (nine_city, loaded_nine_city, unlimited)
}
SERIES: Mapping[str, Callable[[float], Figures]] = {
    function.__name__: function for function in (long_line, compared)
}


def outside(name: str, value: float = 0.0) -> Figures:
    """Carry out one experiment in namespaces of its own, as an emulation is carried out."""
    command = [sys.executable, __file__, INSIDE, name, "--value", str(value)]
    holder = f"bench-{os.getpid()}"
    host_settings().acquire(holder, wanted_settings("cubic"))
    try:
        done = subprocess.run(isolated(command), stdout=subprocess.PIPE, text=True, check=True)
    finally:
        host_settings().release(holder)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def figure_of(name: str) -> Figure:
    """Its unit, its group and its goal."""
    if name.startswith("delay error"):
        return Figure("ms", "delay under load", Goal(3 if name.endswith("p99") else 0.5))
    if name.startswith("round-trip error"):
        judged = "neighbours" in name and name.endswith("median")
        return Figure("ms", "round trip", Goal(1) if judged else None)
    if name.startswith("load that"):
        return Figure("% of the rate", "load", Goal(65, at_least=True))
    if name.startswith("TCP"):
        return Figure("Gbit/s", "throughput", Goal(1, at_least=True))
    if name.startswith("rate error"):
        return Figure("%", "rate beside TCLink", Goal(1) if name.endswith("Atoll") else None)
    if name.startswith("goodput"):
        return Figure("ratio", "goodput of TCLink to ours")
    if name.endswith("memory"):
        return Figure("MiB", "memory")
    goals = {"ready, all pairs proved": Goal(6), "built, proved and torn down": Goal(60)}
    return Figure("s", "bring-up", goals.get(name.partition(": ")[2]))


def experiments(only: str, switches: int) -> list[Experiment]:
    """Every experiment whose name contains `only`."""
    found: list[Experiment] = [partial(outside, name) for name in SINGLE if only in name]
    if only in "long_line":
        found.append(partial(outside, "long_line", switches))
    if only in "compared":
        found += [partial(outside, "compared", rate_mbps) for rate_mbps in COMPARED_MBPS]
    return found


def run_inside(given: argparse.Namespace) -> int:
    chosen()
    single = SINGLE.get(given.inside)
    figures = single() if single else SERIES[given.inside](given.value)
    print(json.dumps(figures))
    return 0


def main() -> int:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "", repeat=3)
    parser.add_argument("--switches", type=int, default=200, help="of the long line")
    parser.add_argument(INSIDE, choices=(*SINGLE, *SERIES), help=argparse.SUPPRESS)
    parser.add_argument("--value", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        return run_inside(given)
    samples = measure(experiments(given.only, given.switches), given.repeat)
    rows = [row_of(name, values, figure_of(name)) for name, values in samples.items()]
    return conclude(rows, "emulation", given)


if __name__ == "__main__":
    sys.exit(main())
