"""Groups, sums and moving trees on real switches, with ordinary programs at the islands."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

from tests.controller.networks import triangle
from tests.controller.openvswitch import SwitchLab, until

pytestmark = pytest.mark.root

GROUP = "239.1.2.3"
PORT = 5000

NOISE = """
    import socket
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind(("wan0", 0))
    mac = bytes.fromhex("020000000001")
    ipv6 = (bytes.fromhex("3333000000fb") + mac + bytes.fromhex("86dd60000000000811ff") + bytes(32)
            + bytes.fromhex("14e914e900080000"))
    for _ in range(100):
        link.send(ipv6)
        link.send(b"\\xff" * 6 + mac + b"\\x08\\x00" + bytes(46))
    mdns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for address in ("224.0.0.251", "239.9.9.9", "10.0.255.255"):
        mdns.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for _ in range(100):
            mdns.sendto(b"noise", (address, 5353))
"""

# Sums what its children send, number by number, and sends the sum on.
ADDER = """
    import socket, sys
    own, address, children = sys.argv[1], sys.argv[2], set(sys.argv[3:])
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((own, 7000))
    arrived = {}
    print("listening", flush=True)
    while True:
        data, (sender, _) = sock.recvfrom(100)
        number, value = map(int, data.split())
        parts = arrived.setdefault(number, {})
        assert sender in children and sender not in parts, (sender, parts)
        parts[sender] = value
        if set(parts) == children:
            sock.sendto(f"{number} {sum(parts.values())}".encode(), (address, 7000))
"""

SENDER = """
    import socket, sys, time
    address, count, pause_s, value = sys.argv[1:]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(0, socket.IP_MULTICAST_TTL, 8)
    for number in range(int(count)):
        sock.sendto(f"{number} {value}".encode(), (address, 7000))
        time.sleep(float(pause_s))
"""

RECEIVER = """
    import socket, sys
    group, interface = sys.argv[1:]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind((group, 7000))
    if group.startswith("239."):
        member = socket.inet_aton(group) + socket.inet_aton(interface)
        sock.setsockopt(0, socket.IP_ADD_MEMBERSHIP, member)
    print("listening", flush=True)
    while True:
        data, sender = sock.recvfrom(100)
        print(data.decode(), sender[0], flush=True)
"""


def _python(script: str, *argv: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script), *argv]


@pytest.fixture(scope="module")
def lab() -> Iterator[SwitchLab]:
    with SwitchLab(triangle(), accelerators=["LON", "NYC"]) as lab:
        lab.ensure_controller()
        yield lab


class Programs:
    """Programs that run at the nodes until the test is over."""

    def __init__(self, lab: SwitchLab) -> None:
        self._lab = lab
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, argv: list[str], name: str) -> subprocess.Popen[bytes]:
        """Start a complete command, its output in a file of that name."""
        self._running.append(self._lab.start(argv, name))
        return self._running[-1]

    def listen(self, argv: list[str], name: str) -> None:
        """Start one and wait until it says that it listens."""
        self.start(argv, name)
        until(lambda: "listening" in self._lab.log(name), f"{name} listens")

    def stop(self) -> None:
        for program in self._running:
            self._lab.stop(program)
        self._running = []


@pytest.fixture()
def programs(lab: SwitchLab) -> Iterator[Programs]:
    programs = Programs(lab)
    yield programs
    programs.stop()


def _received(lab: SwitchLab, name: str) -> list[str]:
    return lab.log(name).split("\n")[1:-1]


def test_an_ordinary_program_joins_receives_and_leaves_by_igmp(
    lab: SwitchLab, programs: Programs
) -> None:
    """socat joins with either version of IGMP, and what two islands send arrives."""
    for site, version in (("NYC", 3), ("LON", 2)):
        lab.on_island(site, "sysctl", "-qw", f"net.ipv4.conf.wan0.force_igmp_version={version}")
    option = f"UDP4-RECV:{PORT},ip-add-membership={GROUP}:wan0"
    for site in ("NYC", "LON"):
        programs.start(lab.in_island(site, ["socat", "-u", option, "STDOUT"]), f"socat-{site}")
    until(lambda: _joined(lab) == ["LON", "NYC"], "both joins are known")
    lab.ask("client.wait_ready(20)")
    for site in ("AMS", "NYC"):
        target = f"UDP4-DATAGRAM:{GROUP}:{PORT},ip-multicast-ttl=8,ip-multicast-loop=0"
        say = f"echo {site} | socat -u STDIN {target}"
        lab.on_island(site, "sh", "-c", say)
    until(lambda: sorted(lab.log("socat-LON").split()) == ["AMS", "NYC"], "LON has both")
    until(lambda: lab.log("socat-NYC").split() == ["AMS"], "NYC has one, and not its own")
    programs.stop()
    until(lambda: _joined(lab) == [], "both leaves are known")
    nothing: dict[str, list[object]] = {"AMS": [], "LON": [], "NYC": []}
    until(lambda: lab.ask("client.switch_groups()") == nothing, "group tables are empty")


def _joined(lab: SwitchLab) -> list[str]:
    rows = lab.ask("client.groups()")
    return sorted(site for row in rows if row["group_ip"] == GROUP for site in row["joined"])


def test_noise_reaches_neither_the_wan_nor_the_controller(lab: SwitchLab) -> None:
    lab.ask("client.wait_ready(20)")
    before, asked = lab.ask("client.ports()"), lab.ask("client.health()")["packet_ins"]
    lab.on_island("AMS", *_python(NOISE))
    until(lambda: _grown(lab, before, "AMS>AMS.island", "rx_packets") >= 450, "the noise went in")
    for way in ("AMS>LON", "AMS>NYC", "LON>LON.island", "NYC>NYC.island"):
        # One query of the controller's own may go to an island meanwhile; noise came 100 at a time.
        assert _grown(lab, before, way, "tx_packets") <= 1, way
    assert lab.ask("client.health()")["packet_ins"] == asked


def _grown(lab: SwitchLab, before: dict[str, dict[str, int]], way: str, field: str) -> int:
    return int(lab.ask("client.ports()")[way][field]) - before[way][field]


def test_sums_meet_in_accelerators_and_come_down_to_every_island(
    lab: SwitchLab, programs: Programs
) -> None:
    up = {
        "kind": "aggregation",
        "root": "NYC",
        "at_island": False,
        "members": ["AMS", "LON", "NYC"],
        "sums_at": ["LON", "NYC"],
    }
    down = {"kind": "multicast", "root": "NYC", "at_island": False, "members": up["members"]}
    rows = lab.ask(f"client.add_trees([{up}, {down}])")
    lab.ask("client.wait_ready(20)")
    tree, group = rows[0]["address"], rows[1]["address"]
    for site, target in (("LON", tree), ("NYC", group)):
        children = [child["ip"] for child in rows[0]["sums"][site]["from"]]
        argv = _python(ADDER, lab.fabric.accelerator_ip(site), target, *children)
        programs.listen(lab.in_accelerator(site, argv), f"adder-{site}")
    for site in lab.fabric.codes:
        argv = _python(RECEIVER, group, lab.fabric.island_ip(site))
        programs.listen(lab.in_island(site, argv), f"result-{site}")
    for value, site in enumerate(("AMS", "LON", "NYC"), start=1):
        lab.on_island(site, *_python(SENDER, tree, "20", "0.001", str(10**value)))
    expected = [f"{number} 1110 {lab.fabric.accelerator_ip('NYC')}" for number in range(20)]
    for site in lab.fabric.codes:
        until(lambda site=site: len(_received(lab, f"result-{site}")) >= 20, "all sums are there")
        assert _received(lab, f"result-{site}") == expected
    for row in rows:
        lab.ask(f"client.remove_tree({row['tree_id']})")


def test_the_receiving_island_of_an_aggregation_gets_one_stream(
    lab: SwitchLab, programs: Programs
) -> None:
    tree = {"kind": "aggregation", "root": "NYC", "members": ["AMS", "LON"], "sums_at": ["LON"]}
    (row,) = lab.ask(f"client.add_trees([{tree}])")
    lab.ask("client.wait_ready(20)")
    children = [child["ip"] for child in row["sums"]["LON"]["from"]]
    argv = _python(ADDER, lab.fabric.accelerator_ip("LON"), row["address"], *children)
    programs.listen(lab.in_accelerator("LON", argv), "adder-aggregation")
    receive = _python(RECEIVER, lab.fabric.island_ip("NYC"), "")
    programs.listen(lab.in_island("NYC", receive), "sum-NYC")
    for value, site in ((1, "AMS"), (20, "LON")):
        lab.on_island(site, *_python(SENDER, row["address"], "5", "0.001", str(value)))
    until(lambda: len(_received(lab, "sum-NYC")) >= 5, "all sums are there")
    sender = lab.fabric.accelerator_ip("LON")
    assert _received(lab, "sum-NYC") == [f"{number} 21 {sender}" for number in range(5)]
    lab.ask(f"client.remove_tree({row['tree_id']})")


def test_a_tree_outlives_its_controller(lab: SwitchLab, programs: Programs) -> None:
    tree = {"kind": "multicast", "root": "AMS", "members": ["LON", "NYC"]}
    (row,) = lab.ask(f"client.add_trees([{tree}])")
    lab.ask("client.wait_ready(20)")
    receive = _python(RECEIVER, row["group_ip"], lab.fabric.island_ip("NYC"))
    programs.listen(lab.in_island("NYC", receive), "outlives-NYC")
    send = _python(SENDER, row["group_ip"], "100000", "0.002", "7")
    sending = programs.start(lab.in_island("AMS", send), "sender-outlives")
    until(lambda: len(_received(lab, "outlives-NYC")) > 10, "packets arrive")
    lab.stop_controller()
    lab.ensure_controller()
    assert lab.ask("client.trees()") == [{**row, "moving": False}]
    lab.stop(sending)
    arrived = [_number(line) for line in _received(lab, "outlives-NYC")]
    assert arrived == list(range(arrived[0], arrived[0] + len(arrived))), "none was lost"
    lab.ask(f"client.remove_tree({row['tree_id']})")


def test_a_tree_that_moves_under_traffic_loses_and_doubles_nothing(
    lab: SwitchLab, programs: Programs
) -> None:
    ways = {"long": [["AMS", "LON"], ["LON", "NYC"]], "short": [["AMS", "LON"], ["AMS", "NYC"]]}
    tree = {"kind": "multicast", "root": "AMS", "members": ["LON", "NYC"], "hops": ways["long"]}
    (row,) = lab.ask(f"client.add_trees([{tree}])")
    lab.ask("client.wait_ready(20)")
    for site in ("LON", "NYC"):
        argv = _python(RECEIVER, row["group_ip"], lab.fabric.island_ip(site))
        programs.listen(lab.in_island(site, argv), f"moved-{site}")
    before, count = lab.ask("client.ports()"), 2000
    sending = programs.start(
        lab.in_island("AMS", _python(SENDER, row["group_ip"], str(count), "0.001", "7")), "sender"
    )
    moves = 0
    while sending.poll() is None:
        hops = ways["short" if moves % 2 == 0 else "long"]
        lab.ask(f"client.move_tree({row['tree_id']}, {dict(tree, hops=hops)})")
        moves += 1
        time.sleep(0.1)
    expected = [f"{number} 7 10.0.0.1" for number in range(count)]
    for site in ("LON", "NYC"):
        until(lambda site=site: len(_received(lab, f"moved-{site}")) >= count, "all arrived")
        assert sorted(_received(lab, f"moved-{site}"), key=_number) == expected
    assert moves >= 3
    for way in ("LON>NYC", "AMS>NYC"):
        assert _grown(lab, before, way, "tx_packets") > count / 10, "both ways were in use"
    lab.ask(f"client.remove_tree({row['tree_id']})")


@pytest.mark.parametrize("pause_s", [0.0, 0.3])
def test_a_controller_that_dies_while_a_tree_moves_leaves_one_way(
    lab: SwitchLab, programs: Programs, pause_s: float
) -> None:
    ways = [[["AMS", "LON"], ["LON", "NYC"]], [["AMS", "LON"], ["AMS", "NYC"]]]
    tree = {"kind": "multicast", "root": "AMS", "members": ["LON", "NYC"], "hops": ways[0]}
    (row,) = lab.ask(f"client.add_trees([{tree}])")
    lab.ask("client.wait_ready(20)")
    state = lab.directory / "state.json"
    before = state.read_text()
    moved = dict(tree, hops=ways[1])
    move = lab.asking(f"client.move_tree({row['tree_id']}, {moved})", f"move-{pause_s}")
    until(lambda: state.read_text() != before, "the move is kept")
    time.sleep(pause_s)
    lab.stop_controller()
    move.wait(30)
    lab.ensure_controller()
    (found,) = lab.ask("client.trees()")
    assert (found["tree_id"], found["moving"]) == (row["tree_id"], False)
    assert sorted(map(tuple, found["hops"])) == sorted(map(tuple, ways[1]))
    for site in ("LON", "NYC"):
        argv = _python(RECEIVER, row["group_ip"], lab.fabric.island_ip(site))
        programs.listen(lab.in_island(site, argv), f"left-{pause_s}-{site}")
    lab.on_island("AMS", *_python(SENDER, row["group_ip"], "50", "0.001", "7"))
    expected = [f"{number} 7 10.0.0.1" for number in range(50)]
    for site in ("LON", "NYC"):
        name = f"left-{pause_s}-{site}"
        until(lambda name=name: len(_received(lab, name)) >= 50, "all arrived")
        assert _received(lab, name) == expected
    lab.ask(f"client.remove_tree({row['tree_id']})")


def _number(line: str) -> int:
    return int(line.split()[0])
