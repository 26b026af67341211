"""Atoll's plans for a kernel, carried out by one: netem's commands and the switches' messages.

Plans are made where this is run, by the code that makes them in every emulation. Whoever carries
them out needs a shell, iproute2, ping, socat and Open vSwitch, and no Python: a software-emulated
machine would take a minute to start that. What ping and the kernel said there is judged here.

    python -m tests.vm.short_kernel write FOLDER     the plans: FOLDER/carry_out.sh and messages
    python -m tests.vm.short_kernel judge FOLDER     FOLDER/said/: a line for each demand; exit code

Bounds on times are upper bounds alone and wide: an emulated processor's timers are late.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import median

from controller.compile import compile_intents
from controller.diff import phases
from controller.fabric import Fabric
from controller.intents import MulticastTree, UnicastRoutes
from controller.messages import phase_messages
from controller.rules import SwitchState
from controller.shim import ofproto_protocol
from testbed.links.backend import Wire
from testbed.links.netem_plan import change_commands, join_commands
from testbed.links.registry import Lane
from testbed.links.spec import LinkSpec
from topologies.files import load
from topologies.model import Direction, Link, Topology
from topologies.routing import least_delay_routes

LATE_MS = 200.0  # for what is the median, or the least, of many
LATE_ONCE_MS = 1000.0
GROUP = "239.1.2.3"
SOURCE = "AMS"
PROBES, MORE_PROBES = 20, 5
HELLO = bytes([4, 0, 0, 8, 0, 0, 0, 1])

BURST, FRAME_BYTES, RATE_MBPS, QUEUE_MS = 40, 1000, 1.0, 100.0
FRAME_MS = FRAME_BYTES * 8 / (RATE_MBPS * 1000)
PING_BYTES = FRAME_BYTES - 14 - 20 - 8
LOSS_PCT, LOSS_PROBES = 20.0, 300
# Of 300 frames that are lost with a chance of 20 %, one experiment in 10,000 is outside (binomial).
FEWEST_LOST, MOST_LOST = 35, 90


@dataclass(frozen=True)
class Trial:
    """A direction's spec, and how it is pinged through; the way back is unshaped."""

    spec: LinkSpec
    ping: str


TRIALS: Mapping[str, Trial] = {
    "delay": Trial(LinkSpec(one_way_delay_ms=25), "-c 40 -i 0.02"),
    "rate": Trial(
        LinkSpec(rate_mbps=RATE_MBPS, queue_ms=2000), f"-c {BURST} -l {BURST} -s {PING_BYTES} -i 0"
    ),
    "queue": Trial(
        LinkSpec(rate_mbps=RATE_MBPS, queue_ms=QUEUE_MS, mtu_bytes=1500),
        f"-c {BURST} -l {BURST} -s {PING_BYTES} -i 0",
    ),
    "loss": Trial(LinkSpec(loss_pct=LOSS_PCT), f"-c {LOSS_PROBES} -i 0.002"),
    "order": Trial(LinkSpec(one_way_delay_ms=40, jitter_ms=30), "-c 100 -i 0.002"),
}
QUEUED = ("rate", "queue")

# --- the plans -----------------------------------------------------------------------------------


def batched(commands: Iterable[str]) -> Iterator[str]:
    """The same with neighbours of one program in one call of it: starting one takes the longest."""
    for program, words in groupby(commands, _program_of):
        lines = list(words)
        if program is None or len(lines) == 1:
            yield from lines
            continue
        yield f"{program} -batch - <<'END'"
        yield from (line.removeprefix(program).strip() for line in lines)
        yield "END"


def _program_of(command: str) -> str | None:
    found = re.match(r"(ip -n \w+|ip|tc) (?!netns exec|-s)[^>|&]*$", command)
    return found[1] if found else None


@dataclass(frozen=True)
class Island:
    """A network namespace whose `wan0` is a cable to an end among the switches."""

    name: str
    end: str
    mac: str
    address: str

    def outside(self) -> Iterator[str]:
        """Commands that make it."""
        yield f"ip netns add {self.name}"
        yield f"ip link add {self.end} type veth peer name wan0 netns {self.name}"
        yield f"ip link set {self.end} up"

    def inside(self, others: Iterable[Island], *more: str) -> Iterator[str]:
        """Commands that make it know its own address, and others' without asking."""
        words = ["link set lo up", f"link set wan0 address {self.mac} up"]
        words += [f"address add {self.address} dev wan0", *more]
        for other in others:
            neighbour = f"{other.address.split('/')[0]} lladdr {other.mac}"
            words += [f"neigh add {neighbour} dev wan0"] * (other != self)
        yield from (f"ip -n {self.name} {line}" for line in words)


def link_commands() -> Iterator[str]:
    """Two hosts and a wire; each trial changes one direction of it, and pings."""
    hosts = [
        Island(name, f"w0{name}", f"02:00:00:00:01:0{number}", f"10.9.0.{number}/24")
        for number, name in enumerate("ab", start=1)
    ]
    yield from (line for host in hosts for line in host.outside())
    yield from (line for host in hosts for line in host.inside(hosts))
    wire = Wire(0, "w0a", "w0b", Direction("a", "b"))
    lane, back = Lane(wire, True, LinkSpec()), Lane(wire, False, LinkSpec())
    yield from (f"tc {words}" for words in join_commands((lane, back)))
    for name, trial in TRIALS.items():
        yield from (f"tc {words}" for words in change_commands(lane, trial.spec))
        lane = replace(lane, spec=trial.spec)
        yield f"ip netns exec a ping -n -W 3 {trial.ping} 10.9.0.2 >said/{name} || true"
        yield f"tc -s filter show dev w0b egress >said/{name}.policer"


def port_name(fabric: Fabric, site: str, end: str) -> str:
    """Name of the interface that is a site's port towards an end."""
    return f"s{fabric.dpid(site)}p{fabric.port_to(site, end)}"


def wide_commands(topology: Topology, fabric: Fabric) -> Iterator[str]:
    """Islands and WAN links of the topology; the links are netem's, between two wire ends each."""
    islands = [
        Island(
            site,
            port_name(fabric, site, f"{site}.island"),
            fabric.island_mac(site),
            f"{fabric.island_ip(site)}/16",
        )
        for site in fabric.codes
    ]
    yield from (line for island in islands for line in island.outside())
    for island in islands:
        yield from island.inside(islands, "route add 224.0.0.0/4 dev wan0")
    for number, link in enumerate(topology.links, start=1):
        yield from wan_link_commands(fabric, number, link)


def wan_link_commands(fabric: Fabric, number: int, link: Link) -> Iterator[str]:
    """Two cables from switches to wire ends, and netem between those."""
    wire = Wire(number, f"w{number}a", f"w{number}b", Direction(link.a, link.b))
    for end, site, other in ((wire.end_a, link.a, link.b), (wire.end_b, link.b, link.a)):
        name = port_name(fabric, site, other)
        yield f"ip link add {name} type veth peer name {end}"
        yield from (f"ip link set {interface} up" for interface in (name, end))
    forward, backward = (
        LinkSpec(spec.rate_mbps, spec.one_way_delay_ms) for spec in (link.forward, link.backward)
    )
    lanes = Lane(wire, True, forward), Lane(wire, False, backward)
    yield from (f"tc {words}" for words in join_commands(lanes))


def switch_commands(fabric: Fabric) -> Iterator[str]:
    """A bridge of the kernel's datapath for each site; socat hands it its messages as they are.

    The switch takes them as from any controller; when the connection ends it keeps them.
    """
    words = ""
    for site in fabric.codes:
        bridge, port = f"br{fabric.dpid(site)}", 6653 + fabric.dpid(site)
        yield f"(cat {site}.messages; sleep 60) | socat -u - TCP-LISTEN:{port},reuseaddr &"
        words += f" -- add-br {bridge} -- set bridge {bridge} datapath_type=system"
        words += " protocols=OpenFlow13 fail_mode=secure other_config:disable-in-band=true"
        for number, end in fabric.ports(site).items():
            name = port_name(fabric, site, end)
            words += f" -- add-port {bridge} {name}"
            words += f" -- set interface {name} ofport_request={number}"
        words += f" -- set-controller {bridge} tcp:127.0.0.1:{port}"
    yield f"ovs-vsctl --no-wait{words.removeprefix(' --')}"


def group_commands(fabric: Fabric, receivers: tuple[str, ...]) -> Iterator[str]:
    """Receivers join and answer; the source pings the group and, one by one, the islands."""
    for site in fabric.codes:
        bridge = f"br{fabric.dpid(site)}"
        rules = f"ovs-ofctl -O OpenFlow13 dump-flows {bridge}"
        yield f"until {rules} 2>/dev/null | grep -q {GROUP}; do sleep 0.5; done"
        yield f"{rules} >said/rules.{site}"
    for site in receivers:
        yield f"ip netns exec {site} sysctl -qw net.ipv4.icmp_echo_ignore_broadcasts=0"
        yield f"ip -n {site} address add {GROUP}/32 dev wan0 autojoin"
    ping = f"ip netns exec {SOURCE} ping -n -W 5"
    count = PROBES + MORE_PROBES
    yield f"{ping} -c {count} -i 0.2 -t 8 {GROUP} >said/group || true"
    # At once: the switch takes flows back out of the kernel when they are idle.
    yield "ovs-appctl dpctl/dump-flows system@ovs-system >said/kernel.flows"
    for site in receivers:
        yield f"{ping} -c 10 -i 0.1 {fabric.island_ip(site)} >said/unicast.{site} || true"
    yield "ovs-dpctl show >said/kernel.datapath"


def messages(fabric: Fabric, state: SwitchState, site: str) -> bytes:
    """The bytes that a controller sends a switch to have it hold this state."""
    datapath = ofproto_protocol.ProtocolDesc(version=4)
    datapath.id = fabric.dpid(site)
    wire = [HELLO]
    for phase in phases(SwitchState(), state.without_meters()):
        for number, message in enumerate(phase_messages(datapath, phase), start=2):
            message.set_xid(number)
            message.serialize()
            wire.append(bytes(message.buf))
    return b"".join(wire)


def wanted(topology: Topology, fabric: Fabric) -> Mapping[str, SwitchState]:
    """Unicast between all, and a tree from the source to all others over one transit site.

    The site in the middle copies: to its island, and onward.
    """
    routes = least_delay_routes(topology)
    unicast = [
        UnicastRoutes(to, tuple((at, routes.next_hop(at, to)) for at in fabric.codes if at != to))
        for to in fabric.codes
    ]
    middle, last = receivers_of(fabric)
    tree = MulticastTree(1, GROUP, SOURCE, ((SOURCE, middle), (middle, last)), (middle, last))
    return compile_intents(fabric, [*unicast, tree])


def receivers_of(fabric: Fabric) -> tuple[str, str]:
    """The two others; the first is passed on the way to the second."""
    middle, last = (site for site in fabric.codes if site != SOURCE)
    return middle, last


OPEN_VSWITCH = """
mkdir -p ovs && cd ovs
export OVS_RUNDIR=$PWD OVS_DBDIR=$PWD OVS_LOGDIR=$PWD
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server conf.db --remote=punix:db.sock --pidfile --detach >/dev/null 2>&1
ovs-vsctl --no-wait init
ovs-vswitchd --pidfile --detach --log-file >/dev/null 2>&1
cd ..
"""


def write(folder: Path) -> None:
    """Write the plans; `carry_out.sh` is run by root in its folder, and writes into `said`."""
    topology = load("three_city").scaled(0.001)
    fabric = Fabric.of(topology)
    for site, state in wanted(topology, fabric).items():
        (folder / f"{site}.messages").write_bytes(messages(fabric, state, site))
    commands = [*link_commands(), *wide_commands(topology, fabric)]
    commands += [OPEN_VSWITCH, *switch_commands(fabric)]
    commands += group_commands(fabric, receivers_of(fabric))
    lines = ["set -eu", "mkdir -p said", *batched(commands), "echo done >said/done"]
    (folder / "carry_out.sh").write_text("\n".join(lines) + "\n")


# --- what came of them ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """One answer that ping printed."""

    sequence: int
    sender: str
    round_trip_ms: float


ANSWER = re.compile(r"\d+ bytes from ([\d.]+): icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms")


def answers(text: str) -> tuple[Answer, ...]:
    """Every answer in ping's output, in the order of arrival."""
    return tuple(
        Answer(int(number), sender, float(time_ms))
        for sender, number, time_ms in ANSWER.findall(text)
    )


def sending_ms(text: str) -> int:
    """Whole milliseconds from the first probe to the last: what ping prints as its time."""
    found = re.search(r", time (\d+)ms", text)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class Demand:
    """What is asked of the kernel, whether it did it, and what was measured."""

    what: str
    met: bool
    measured: str


def judge_delay(got: tuple[Answer, ...]) -> Iterator[Demand]:
    """netem never lets a frame go early."""
    times = [answer.round_trip_ms for answer in got]
    yield Demand("netem loses none that it only delays", len(times) == 40, f"{len(times)} of 40")
    if times:
        met = min(times) >= 25 and median(times) < 25 + LATE_MS
        yield Demand("netem delays by 25 ms", met, f"{min(times)} to {median(times)} ms (median)")


def judge_rate(got: tuple[Answer, ...], sent_in_ms: int) -> Iterator[Demand]:
    """A burst is through after its frames' times at the rate since its first, never before."""
    asked_ms = FRAME_MS * BURST
    yield Demand("a long queue drops nothing", len(got) == BURST, f"{len(got)} of {BURST}")
    if got:
        took_ms = sent_in_ms + got[-1].round_trip_ms
        met = asked_ms - 2 < took_ms < asked_ms + LATE_ONCE_MS
        yield Demand("netem's rate is 1 Mbit/s", met, f"{took_ms:.1f} ms for {asked_ms:.0f}")


def dropped_by(policer: str) -> int:
    """What a policer has dropped until `tc` was asked; a change of it keeps the count."""
    return sum(map(int, re.findall(r"dropped (\d+)", policer)[-1:]))


def judge_queue(got: tuple[Answer, ...], dropped: int, sent_in_ms: int) -> Iterator[Demand]:
    """A burst fills the queue: its bytes pass, with what left meanwhile; the rest is dropped."""
    held = int(QUEUE_MS / FRAME_MS)
    most = held + 1 + (sent_in_ms + 1) / FRAME_MS
    met = held <= len(got) <= most and dropped == BURST - len(got)
    text = f"{len(got)} passed, {dropped} dropped; {held} fit, sent in {sent_in_ms} ms"
    yield Demand("the policer bounds the queue by bytes", met, text)


def judge_loss(got: tuple[Answer, ...]) -> Iterator[Demand]:
    lost = LOSS_PROBES - len(got)
    met = FEWEST_LOST <= lost <= MOST_LOST
    yield Demand("netem loses 20 %", met, f"{lost} of {LOSS_PROBES}, {FEWEST_LOST} to {MOST_LOST}")


def judge_order(got: tuple[Answer, ...]) -> Iterator[Demand]:
    numbers = [answer.sequence for answer in got]
    met = numbers == sorted(numbers) and len(set(numbers)) == 100
    spread = max(a.round_trip_ms for a in got) - min(a.round_trip_ms for a in got) if got else 0.0
    yield Demand("jitter keeps the order", met and spread > 5, f"spread over {spread:.1f} ms")


def judge_links(said: Path) -> Iterator[Demand]:
    """All trials of one direction."""
    printed = {name: (said / name).read_text() for name in TRIALS}
    got = {name: answers(text) for name, text in printed.items()}
    yield from judge_delay(got["delay"])
    yield from judge_rate(got["rate"], sending_ms(printed["rate"]))
    before, after = (dropped_by((said / f"{name}.policer").read_text()) for name in QUEUED)
    yield from judge_queue(got["queue"], after - before, sending_ms(printed["queue"]))
    yield from judge_loss(got["loss"])
    yield from judge_order(got["order"])


def judge_switches(said: Path, topology: Topology, fabric: Fabric) -> Iterator[Demand]:
    """Each receiver has each packet once, no sooner than light; and the kernel forwarded them.

    ping leaves with the first answer to its last packet, so the last few do not count.
    """
    receivers = receivers_of(fabric)
    got = [a for a in answers((said / "group").read_text()) if a.sequence <= PROBES]
    counts = Counter((answer.sender, answer.sequence) for answer in got)
    everyone = {(fabric.island_ip(s), n) for s in receivers for n in range(1, PROBES + 1)}
    met = set(counts) == everyone and set(counts.values()) == {1}
    text = f"{len(got)} answers of {len(everyone)}"
    yield Demand("a group reaches each receiver once a packet", met, text)
    yield from judge_distances(got, topology, fabric, receivers)
    for site in receivers:
        met = len(answers((said / f"unicast.{site}").read_text())) == 10
        yield Demand(f"{SOURCE} reaches {site} and back", met, "10 pings")
    flows = (said / "kernel.flows").read_text()
    copies = re.findall(r"dst=239\.1\.2\.3.*actions:(?:set\(.*\),)?\d+,(?:set\(.*\),)?\d+", flows)
    yield Demand("the kernel itself makes the copies", bool(copies), f"{len(copies)} such flows")
    hits = re.search(r"lookups: hit:(\d+) missed:(\d+)", (said / "kernel.datapath").read_text())
    met = hits is not None and int(hits[1]) > int(hits[2])
    yield Demand("flows in the kernel are met", met, hits[0] if hits else "no look-ups")


def judge_distances(
    got: Iterable[Answer], topology: Topology, fabric: Fabric, receivers: tuple[str, str]
) -> Iterator[Demand]:
    """Copies go down the tree, answers come back by the least delay."""
    delays = {str(way): spec.one_way_delay_ms for way, spec in topology.wan_directions().items()}
    routes = least_delay_routes(topology)
    down_ms = 0.0
    for before, site in zip((SOURCE, *receivers), receivers, strict=False):
        down_ms += delays[f"{before}>{site}"]
        asked_ms = down_ms + routes.one_way_delay_ms(site, SOURCE)
        times = [a.round_trip_ms for a in got if a.sender == fabric.island_ip(site)]
        met = bool(times) and asked_ms <= min(times) < asked_ms + LATE_MS
        text = f"{min(times, default=0.0)} ms for {asked_ms:.2f}"
        yield Demand(f"{site} answers no faster than light", met, text)


def tell(demands: Sequence[Demand]) -> int:
    """Print a line for each demand; 0 when all are met."""
    for demand in demands:
        print(f"  {'ok  ' if demand.met else 'FAIL'} {demand.what}: {demand.measured}")
    failed = sum(not demand.met for demand in demands)
    print(f"{len(demands) - failed} passed, {failed} failed")
    return int(failed > 0)


def judge(folder: Path) -> int:
    """Tell what became of the plans; 0 when all demands are met."""
    topology = load("three_city").scaled(0.001)
    demands = [*judge_links(folder / "said")]
    demands += judge_switches(folder / "said", topology, Fabric.of(topology))
    return tell(demands)


def main(verb: str, folder: str) -> int:
    """Write or judge."""
    if verb == "write":
        write(Path(folder))
        return 0
    return judge(Path(folder))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
