"""The controller on real switches: readiness, pings, ARP, faults, somebody else's application."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.networks import triangle
from tests.controller.openvswitch import CONTROLLER, NOBODY, SwitchLab, until

pytestmark = pytest.mark.root

PAIRS = [("AMS", "LON"), ("AMS", "NYC"), ("LON", "NYC")]
LEARNING_SWITCH = Path(__file__).parent / "learning_switch.py"
LISTEN = ("--listen", "127.0.0.1:6653")


@pytest.fixture(scope="module")
def lab() -> Iterator[SwitchLab]:
    with SwitchLab(triangle()) as lab:
        yield lab


@pytest.fixture()
def ready(lab: SwitchLab) -> SwitchLab:
    """The lab with its controller running and ready."""
    lab.ensure_controller()
    return lab


@pytest.fixture()
def bare(lab: SwitchLab) -> SwitchLab:
    """The lab without a controller."""
    lab.stop_controller()
    return lab


def _flows(lab: SwitchLab, site: str) -> list[str]:
    text = lab.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", _management(lab, site))
    return [line for line in text.splitlines() if "cookie=" in line]


def _management(lab: SwitchLab, site: str) -> str:
    return f"unix:{lab.directory}/{lab.bridge(site)}.mgmt"


def test_ready_means_that_the_switches_hold_the_rules_and_all_islands_are_reached(
    ready: SwitchLab,
) -> None:
    health = ready.ask("client.health()")
    assert {row["state"] for row in health["switches"].values()} == {"confirmed"}
    for site in ready.fabric.codes:
        flows = _flows(ready, site)
        assert len(flows) == 6, "three destinations, ARP, IGMP, table miss"
        assert not any(word in line for line in flows for word in ("FLOOD", "NORMAL", "ALL"))
    assert all(ready.pings(a, b) for a, b in PAIRS)


def test_counters_count_what_was_sent(ready: SwitchLab) -> None:
    assert ready.pings("AMS", "NYC")
    before = ready.ask("client.ports()")
    assert ready.pings("AMS", "NYC", count=5)
    after = ready.ask("client.ports()")

    def grown(direction: str, field: str) -> int:
        return int(after[direction][field] - before[direction][field])

    for direction in ("AMS>LON", "LON>NYC", "NYC>NYC.island"):
        assert 5 <= grown(direction, "tx_packets") <= 8, "five pings and little else"
        assert grown(direction, "tx_bytes") >= 5 * 98
    assert grown("AMS>NYC", "tx_packets") <= 3, "no ping took the longer way"
    assert after["AMS>LON"]["time_s"] > before["AMS>LON"]["time_s"]


def test_arp_is_answered_by_the_controller_and_seen_by_nobody_else(ready: SwitchLab) -> None:
    for site in ("AMS", "LON"):
        ready.on_island(site, "ip", "neigh", "flush", "all")
    watch = ["timeout", "3", "tcpdump", "-n", "-i", "wan0", "arp", "and", "ether", "broadcast"]
    enter = ["nsenter", "-t", str(ready._islands["LON"]), "-n", "--", *watch]
    watching = ready._start(enter, "watch-arp")
    until(lambda: "listening on" in ready.log("watch-arp"), "tcpdump listens")
    assert ready.pings("AMS", "NYC")
    ready.on_island("AMS", "ping", "-c", "1", "-W", "1", "10.0.0.99", check=False)
    watching.wait()
    assert "0 packets captured" in ready.log("watch-arp")
    neighbour = ready.on_island("AMS", "ip", "neigh", "show", ready.fabric.island_ip("NYC"))
    assert ready.fabric.island_mac("NYC") in neighbour


def test_a_link_that_fails_at_one_end_is_routed_around_and_used_again(ready: SwitchLab) -> None:
    port = ready.port("LON", "NYC")
    ready.run("ip", "link", "set", port, "down")
    try:
        health = ready.ask("client.wait_ready(20, links_up=False)")
        until(
            lambda: ready.ask("client.path('AMS','NYC')")["path"] == ["AMS", "NYC"],
            "the direct path is taken",
        )
        health = ready.ask("client.wait_ready(20, links_up=False)")
        assert health["links_down"] == ["LON>NYC", "NYC>LON"]
        assert all(ready.pings(a, b) for a, b in PAIRS)
    finally:
        ready.run("ip", "link", "set", port, "up")
    ready.ask("client.wait_ready(20)")
    assert ready.ask("client.path('AMS','NYC')")["path"] == ["AMS", "LON", "NYC"]
    assert all(ready.pings(a, b) for a, b in PAIRS)


def test_links_that_flap_leave_the_rules_of_the_last_state(ready: SwitchLab) -> None:
    ports = [ready.port("LON", "NYC"), ready.port("AMS", "NYC")]
    words = [f"ip link set {port} {state}" for port in ports for state in ("down", "up")]
    ready.run("sh", "-c", "; ".join((words + words[::-1]) * 8 + [f"ip link set {ports[0]} up"]))
    ready.run("ip", "link", "set", ports[1], "down")
    try:
        until(
            lambda: ready.ask("client.health()")["links_down"] == ["AMS>NYC", "NYC>AMS"],
            "only the last state counts",
        )
        ready.ask("client.wait_ready(20, links_up=False)")
        assert all(ready.pings(a, b) for a, b in PAIRS)
    finally:
        ready.run("ip", "link", "set", ports[1], "up")
    ready.ask("client.wait_ready(20)")


def test_a_switch_that_leaves_is_missed_and_keeps_forwarding(ready: SwitchLab) -> None:
    bridge = ready.bridge("LON")
    ready.vsctl("set-controller", bridge, NOBODY)
    until(
        lambda: ready.ask("client.health()")["not_confirmed"] == ["LON"],
        "the controller misses LON",
    )
    assert ready.pings("AMS", "NYC")
    ready.vsctl("set-controller", bridge, CONTROLLER)
    ready.ask("client.wait_ready(30)")


def test_rules_that_somebody_deleted_come_back_with_the_next_port_status(
    ready: SwitchLab,
) -> None:
    ready.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", _management(ready, "LON"))
    assert _flows(ready, "LON") == []
    ready.run("ip", "link", "set", ready.port("LON", "NYC"), "down")
    until(lambda: bool(ready.ask("client.health()")["links_down"]), "the port is reported down")
    ready.run("ip", "link", "set", ready.port("LON", "NYC"), "up")
    until(lambda: len(_flows(ready, "LON")) == 6, "LON holds its six rules again")
    ready.ask("client.wait_ready(20)")
    assert ready.pings("AMS", "NYC")


def test_a_new_controller_takes_over_without_touching_the_rules(ready: SwitchLab) -> None:
    ready.stop_controller()
    ready.ensure_controller()
    ages_s = [float(re.findall(r"duration=([\d.]+)s", line)[0]) for line in _flows(ready, "LON")]
    up_s = ready.ask("__import__('time').time() - client.events()[0]['time_s']")
    assert min(ages_s) > up_s, "every rule is older than the second controller"


def test_a_strange_switch_is_refused_and_reported(ready: SwitchLab) -> None:
    ready.vsctl(
        *("add-br", "br99", "--", "set", "bridge", "br99", "datapath_type=netdev"),
        *("protocols=OpenFlow13", "fail_mode=secure"),
        *("other_config:datapath-id=0000000000000063",),
        *("--", "set-controller", "br99", CONTROLLER),
    )
    try:
        until(
            lambda: ready.ask("client.health()")["unknown_datapaths"] != {},
            "the stranger is reported",
        )
        health = ready.ask("client.health()")
        assert health["unknown_datapaths"] == {"0000000000000063": "127.0.0.1"}
        assert health["ready"]
        rules = ready.run(
            "ovs-ofctl", "-O", "OpenFlow13", "dump-flows", f"unix:{ready.directory}/br99.mgmt"
        )
        assert "cookie=" not in rules
    finally:
        ready.vsctl("del-br", "br99")


def test_a_storm_of_arp_is_cut_at_the_switch(ready: SwitchLab) -> None:
    send = textwrap.dedent("""
        import socket, time
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        link.bind(("wan0", 0))
        mac = bytes.fromhex("020000000001")
        frame = (b"\\xff" * 6 + mac + bytes.fromhex("0806" "0001080006040001")
                 + mac + bytes([10, 0, 0, 1]) + bytes(6) + bytes([10, 0, 0, 2]))
        for _ in range(200):
            for _ in range(20):
                link.send(frame)
            time.sleep(0.005)
    """)
    ready.on_island("AMS", sys.executable, "-c", send)
    text = ready.run(
        "ovs-ofctl", "-O", "OpenFlow13", "meter-stats", _management(ready, "AMS"), "meter=1"
    )
    arrived, dropped = (int(n) for n in re.findall(r"packet_(?:in_)?count:(\d+)", text))
    assert arrived > 1000, text
    assert dropped > arrived / 2, text
    assert ready.ask("client.health()")["ready"]
    assert ready.pings("AMS", "NYC")


def test_a_multicast_tree_copies_once_to_each_receiver(bare: SwitchLab) -> None:
    script = textwrap.dedent("""
        import sys
        from controller.library import make_cooperative
        make_cooperative()
        from controller.intents import least_delay_tree
        from controller.launcher import Address, serve_topology
        from topologies.files import load
        from topologies.routing import least_delay_routes
        topology = load(sys.argv[1])
        tree = least_delay_tree(
            least_delay_routes(topology), 5, "239.192.0.1", "AMS", ["LON", "NYC"]
        )
        serve_topology(
            topology, Address("127.0.0.1", 6653), Address("127.0.0.1", 8080), trees=(tree,)
        )
    """)
    process = bare.start_python("-c", script, str(bare.topology_file), name="multicast")
    bare.ask("client.wait_ready(40)")
    groups = bare.ask("client.switch_groups()")
    assert groups["LON"] == [
        {"group_id": 5, "kind": "all", "buckets": [[{"output": 1}], [{"output": 3}]]}
    ]
    assert (groups["AMS"], groups["NYC"]) == ([], [])
    before = bare.ask("client.ports()")
    send = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        "s.setsockopt(0, socket.IP_MULTICAST_TTL, 8);"
        "s.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton('10.0.0.1'));"
        "[s.sendto(bytes(1000), ('239.192.0.1', 5000)) for _ in range(10)]"
    )
    bare.on_island("AMS", sys.executable, "-c", send)
    until(lambda: _sent(bare, before)["NYC>NYC.island"] >= 10_420, "the last receiver has all")
    sent = _sent(bare, before)
    for direction in ("AMS>LON", "LON>NYC", "LON>LON.island", "NYC>NYC.island"):
        assert 10_420 <= sent[direction] < 11_400, direction
    for direction in ("AMS>AMS.island", "AMS>NYC", "NYC>AMS", "LON>AMS", "NYC>LON"):
        assert sent[direction] < 1_000, direction
    bare.stop(process)


def _sent(lab: SwitchLab, before: dict[str, dict[str, int]]) -> dict[str, int]:
    """Bytes sent since, by direction; ten datagrams are 10 x (1000 + 8 + 20 + 14) = 10,420."""
    now = lab.ask("client.ports()")
    return {way: int(row["tx_bytes"]) - before[way]["tx_bytes"] for way, row in now.items()}


def test_an_application_written_for_ryu_runs_unchanged(bare: SwitchLab) -> None:
    loop = bare.port("AMS", "NYC")
    bare.run("ip", "link", "set", loop, "down")
    for site in bare.fabric.codes:
        bare.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", _management(bare, site))
    application = bare.start_controller("run", str(LEARNING_SWITCH), *LISTEN, name="learning")
    try:
        until(lambda: bare.pings("AMS", "NYC", count=1), "the learning switches have learnt")
        assert all(bare.pings(a, b) for a, b in PAIRS)
        assert any("dl_dst=02:00:00:00:00:03" in line for line in _flows(bare, "LON"))
    finally:
        bare.stop(application)
        bare.run("ip", "link", "set", loop, "up")


def test_a_second_controller_on_the_same_address_says_so_in_one_line(ready: SwitchLab) -> None:
    words = [sys.executable, "-W", "ignore", "-m", "controller", str(ready.topology_file), *LISTEN]
    second = ready.start_inside(words, "busy")
    assert second.wait(timeout=30) == 1
    (line,) = [row for row in ready.log("busy").splitlines() if row.startswith("controller:")]
    assert line == "controller: cannot listen on 127.0.0.1:6653: Address already in use"
