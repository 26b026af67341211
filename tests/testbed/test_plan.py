from controller.fabric import Fabric
from testbed.emulation.plan import NodeEnd, plan_wires, port_mac
from testbed.emulation.settings import (
    IslandSettings,
    TcpSettings,
    island_commands,
    largest_bdp_bytes,
    tcp_buffer_bytes,
)
from testbed.emulation.switches import SwitchSpec, bridge_transaction
from topologies.files import load
from topologies.model import Direction
from topologies.routing import least_delay_routes

NINE = load("nine_city")


def test_nine_cities_need_nine_access_wires_and_eleven_links() -> None:
    wires = plan_wires(NINE, Fabric.of(NINE))
    assert len(wires) == 20
    assert [wire.forward for wire in wires[:9]] == [Direction.up(code) for code in NINE.codes]
    assert all(not wire.forward.is_access for wire in wires[9:])


def test_every_interface_name_is_unique_where_it_stands_and_short_enough() -> None:
    wires = plan_wires(NINE, Fabric.of(NINE))
    at_nodes = [(end.node, end.interface) for wire in wires for end in (wire.a, wire.b)]
    in_room = [name for wire in wires for name in (wire.end_a, wire.end_b)]
    assert len(set(at_nodes)) == 40
    assert len(set(in_room)) == 40
    assert all(len(name) <= 15 for name in in_room)


def test_an_access_wire_runs_from_the_island_to_port_one() -> None:
    first = plan_wires(NINE, Fabric.of(NINE))[0]
    assert first.a == NodeEnd("AMS.island", "wan0", "02:00:00:00:00:01")
    assert first.b == NodeEnd("AMS", "p1", port_mac(1, 1))
    assert (first.end_a, first.end_b) == ("w0a", "w0b")


def test_largest_bandwidth_delay_product_of_nine_cities_is_its_longest_round_trip() -> None:
    scaled = NINE.scaled(0.01)
    routes = least_delay_routes(scaled)
    longest_ms = max(routes.one_way_delay_ms(a, b) for a in NINE.codes for b in NINE.codes)
    assert abs(longest_ms - 157.5) < 0.05
    assert largest_bdp_bytes(scaled, routes) == int(100 * 2 * longest_ms * 1000 / 8)


def test_small_products_keep_the_kernels_own_buffer_ceiling() -> None:
    slow = NINE.scaled(0.0001)
    assert tcp_buffer_bytes(slow, least_delay_routes(slow)) == 6 * 2**20


def test_islands_behind_a_userspace_switch_fill_their_own_checksums() -> None:
    settings = IslandSettings(9000, "cubic", 6 * 2**20, checksum_offload=False)
    assert ["ethtool", "-K", "wan0", "tx", "off"] in island_commands("10.0.0.1", settings)


def test_islands_keep_their_windows_over_pauses_and_offer_a_megabyte_at_once() -> None:
    settings = IslandSettings(9000, "cubic", 8 * 2**20, checksum_offload=False)
    written = [command[-1] for command in island_commands("10.0.0.1", settings)]
    assert "net.ipv4.tcp_slow_start_after_idle=0" in written
    assert "net.ipv4.tcp_rmem=4096 1048576 8388608" in written
    assert "net.ipv4.tcp_wmem=4096 131072 8388608" in written


def test_windows_fall_back_in_a_pause_where_that_is_asked_for() -> None:
    tcp = TcpSettings(slow_start_after_idle=True)
    settings = IslandSettings(9000, "cubic", 8 * 2**20, checksum_offload=False, tcp=tcp)
    written = [command[-1] for command in island_commands("10.0.0.1", settings)]
    assert "net.ipv4.tcp_slow_start_after_idle=1" in written


def test_islands_behind_the_kernel_datapath_keep_their_offloads() -> None:
    settings = IslandSettings(9000, "cubic", 6 * 2**20, checksum_offload=True)
    assert not [c for c in island_commands("10.0.0.1", settings) if c[0] == "ethtool"]


def test_a_switch_is_configured_in_one_transaction_with_asked_for_port_numbers() -> None:
    spec = SwitchSpec(6, (1, 2), "tcp:10.255.0.1:6653", "userspace", 9000)
    words = " ".join(bridge_transaction(spec))
    assert "datapath_type=netdev" in words
    assert "fail_mode=secure" in words
    assert "datapath-id=0000000000000006" in words
    assert "set interface p2 ofport_request=2 mtu_request=9000" in words
