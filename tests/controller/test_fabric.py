"""The numbering contract, by hand for three sites and as properties for many."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import pytest

from controller.fabric import (
    ACCELERATOR_NETWORK,
    CONTROLLER_IP,
    GROUP_NETWORK,
    HIGHEST_TREE_ID,
    ISLAND_NETWORK,
    MANAGEMENT_NETWORK,
    TREE_NETWORK,
    WAN_NETWORK,
    Fabric,
    group_ip,
    tree_ip,
    tree_mac,
)
from topologies.errors import UserError


@dataclass(frozen=True)
class _Link:
    a: str
    b: str


@dataclass(frozen=True)
class _Topology:
    name: str
    codes: tuple[str, ...]
    links: tuple[_Link, ...]


def _fabric(codes: tuple[str, ...], *links: tuple[str, str]) -> Fabric:
    return Fabric.of(_Topology("hand", codes, tuple(_Link(a, b) for a, b in links)))  # type: ignore[arg-type]


@pytest.fixture()
def triangle() -> Fabric:
    return _fabric(("AMS", "LON", "NYC"), ("AMS", "NYC"), ("AMS", "LON"), ("LON", "NYC"))


def test_datapath_ids_count_sorted_codes_from_one(triangle: Fabric) -> None:
    assert [triangle.dpid(code) for code in ("AMS", "LON", "NYC")] == [1, 2, 3]
    assert triangle.site_of_dpid(3) == "NYC"


@pytest.mark.parametrize("dpid", [0, -1, 4, 2**64 - 1])
def test_a_strange_datapath_has_no_site(triangle: Fabric, dpid: int) -> None:
    assert triangle.site_of_dpid(dpid) is None


def test_ports_are_island_first_then_neighbours_by_code(triangle: Fabric) -> None:
    assert dict(triangle.ports("NYC")) == {1: "NYC.island", 2: "AMS", 3: "LON"}
    assert triangle.port_to("LON", "NYC") == 3
    assert triangle.end_at("LON", 9) is None
    assert triangle.direction_at("NYC", 3) == "NYC>LON"
    assert triangle.direction_at("NYC", 1) == "NYC>NYC.island"


def test_addresses_of_the_first_site_and_of_the_251st(triangle: Fabric) -> None:
    assert triangle.island_ip("AMS") == "10.0.0.1"
    assert triangle.island_mac("AMS") == "02:00:00:00:00:01"
    assert triangle.island_management_ip("AMS") == "10.255.0.2"
    assert triangle.switch_management_ip("AMS") == "10.255.0.3"
    codes = tuple(f"S{n:04d}" for n in range(300))
    many = _fabric(codes)
    assert many.island_ip("S0250") == "10.0.1.1"
    assert many.island_mac("S0255") == "02:00:00:00:01:00"
    assert many.island_management_ip("S0250") == "10.255.2.2"


def test_no_two_nodes_share_an_address() -> None:
    codes = tuple(f"S{n:04d}" for n in range(1000))
    many = _fabric(codes)
    islands = [many.island_ip(code) for code in codes]
    management = [CONTROLLER_IP]
    management += [many.island_management_ip(code) for code in codes]
    management += [many.switch_management_ip(code) for code in codes]
    macs = [many.island_mac(code) for code in codes]
    for addresses in (islands, management, macs):
        assert len(set(addresses)) == len(addresses)
    wan, out_of_band = (
        ipaddress.ip_network(ISLAND_NETWORK),
        ipaddress.ip_network(MANAGEMENT_NETWORK),
    )
    assert all(ipaddress.ip_address(address) in wan for address in islands)
    assert all(ipaddress.ip_address(address) in out_of_band for address in management)
    assert all(many.site_of_island_ip(many.island_ip(code)) == code for code in codes)


def test_an_unknown_site_or_link_is_named(triangle: Fabric) -> None:
    with pytest.raises(UserError, match=r"no site 'PAR'.*AMS, LON, NYC"):
        triangle.dpid("PAR")
    with pytest.raises(UserError, match="no link LON>LON"):
        triangle.port_to("LON", "LON")


def _with_accelerators() -> Fabric:
    links = (_Link("AMS", "LON"),)
    return Fabric.of(_Topology("hand", ("AMS", "LON"), links), ["LON"])  # type: ignore[arg-type]


def test_an_accelerator_has_port_1000_and_addresses_beside_the_islands() -> None:
    fabric = _with_accelerators()
    assert dict(fabric.ports("LON")) == {1: "LON.island", 2: "AMS", 1000: "LON.accelerator"}
    assert dict(fabric.ports("AMS")) == {1: "AMS.island", 2: "LON"}
    assert fabric.direction_at("LON", 1000) == "LON>LON.accelerator"
    assert (fabric.accelerator_ip("LON"), fabric.accelerator_mac("LON")) == (
        "10.1.0.2",
        "02:00:01:00:00:02",
    )
    assert (fabric.end_ip("LON.accelerator"), fabric.end_ip("LON.island")) == (
        "10.1.0.2",
        "10.0.0.2",
    )
    with pytest.raises(UserError, match="AMS has no accelerator"):
        fabric.port_to("AMS", "AMS.accelerator")


def test_an_accelerator_at_an_unknown_site_is_named() -> None:
    with pytest.raises(UserError, match="no site 'PAR'"):
        Fabric.of(_Topology("hand", ("AMS",), ()), ["PAR"])  # type: ignore[arg-type]


def test_the_mac_behind_every_address_of_the_wan_is_known() -> None:
    fabric = _with_accelerators()
    assert fabric.mac_of("10.0.0.1") == "02:00:00:00:00:01"
    assert fabric.mac_of("10.1.0.2") == "02:00:01:00:00:02"
    assert fabric.mac_of("10.1.0.1") is None, "AMS has no accelerator"
    assert fabric.mac_of("10.0.0.3") is None
    assert fabric.mac_of("10.2.0.2") == fabric.mac_of("10.2.0.3") == "02:00:02:ff:00:00"


def test_trees_and_groups_have_addresses_of_their_own() -> None:
    assert (tree_ip(1), tree_ip(250)) == ("10.2.0.2", "10.2.1.1")
    assert tree_mac(258, 3) == "02:00:02:03:01:02"
    assert (group_ip(1), group_ip(256)) == ("239.192.0.1", "239.192.1.0")
    for number in (1, HIGHEST_TREE_ID):
        assert ipaddress.ip_address(tree_ip(number)) in ipaddress.ip_network(TREE_NETWORK)
        assert ipaddress.ip_address(group_ip(number)) in ipaddress.ip_network(GROUP_NETWORK)
    for network in (ISLAND_NETWORK, ACCELERATOR_NETWORK, TREE_NETWORK):
        assert ipaddress.ip_network(network).subnet_of(ipaddress.ip_network(WAN_NETWORK))  # type: ignore[arg-type]
    outside = ipaddress.ip_network(MANAGEMENT_NETWORK)
    assert not outside.overlaps(ipaddress.ip_network(WAN_NETWORK))
