"""The HTTP interface and its client, over a real socket on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from controller.app import FabricController
from controller.asking import Asking
from controller.client import NorthboundClient
from controller.fabric import Fabric
from controller.northbound import create_app, listening_socket, serve
from controller.readout import Readout
from tests.controller.memory_switch import datapath_of
from tests.controller.networks import triangle
from topologies.errors import MachineError, RunError, UserError


@pytest.fixture()
def controller() -> FabricController:
    return FabricController(topology=triangle())


@pytest.fixture()
def client(controller: FabricController) -> Iterator[NorthboundClient]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = serve(controller, "127.0.0.1", port)
    yield NorthboundClient(f"http://127.0.0.1:{port}")
    server.shutdown()
    server.server_close()


def _connect_all(controller: FabricController) -> None:
    fabric = Fabric.of(triangle())
    for code in fabric.codes:
        datapath_of(fabric, code).connect(controller)


def test_waiting_ends_when_all_is_confirmed(
    client: NorthboundClient, controller: FabricController
) -> None:
    _connect_all(controller)
    assert client.wait_ready(5.0)["ready"] is True


def test_waiting_in_vain_names_the_switches(client: NorthboundClient) -> None:
    with pytest.raises(RunError, match="AMS not connected; LON not connected; NYC not connected"):
        client.wait_ready(0.2)


def test_waiting_in_vain_names_a_link_that_is_down(
    client: NorthboundClient, controller: FabricController
) -> None:
    _connect_all(controller)
    controller.view = controller.view.with_port(controller.fabric, "NYC", 3, up=False)
    controller._reconcile()
    with pytest.raises(RunError, match="link LON>NYC is down; link NYC>LON is down"):
        client.wait_ready(0.2)


def test_the_path_of_a_pair_comes_with_its_delay(client: NorthboundClient) -> None:
    assert client.path("AMS", "NYC") == {"path": ["AMS", "LON", "NYC"], "one_way_delay_ms": 3.0}
    assert len(client.paths()) == 6


def test_the_topology_shows_numbers_rates_and_state(client: NorthboundClient) -> None:
    shown = client.topology()
    assert shown["sites"]["LON"]["dpid"] == 2
    assert shown["sites"]["LON"]["ports"] == {"1": "LON.island", "2": "AMS", "3": "NYC"}
    assert shown["directions"]["AMS>LON"] == {
        "rate_mbps": 100.0,
        "one_way_delay_ms": 1.0,
        "up": True,
    }


def test_flows_show_what_each_switch_read_out(
    client: NorthboundClient, controller: FabricController
) -> None:
    _connect_all(controller)
    flows = client.flows()["LON"]
    to_nyc = next(row for row in flows if row["match"].get("ipv4_dst") == "10.0.0.3")
    assert to_nyc["actions"] == [{"output": 3}]
    assert to_nyc["intent"] == "unicast"
    assert client.switch_groups() == {"AMS": [], "LON": [], "NYC": []}


def test_events_after_a_number_are_only_newer_ones(
    client: NorthboundClient, controller: FabricController
) -> None:
    _connect_all(controller)
    events = client.events()
    assert events[0]["kind"] == "connect"
    last = events[-1]["number"]
    assert [event["number"] for event in client.events(after=last - 1)] == [last]


def test_an_unknown_site_is_the_users_mistake(client: NorthboundClient) -> None:
    with pytest.raises(UserError, match="no site 'PAR' in this topology; it has AMS, LON, NYC"):
        client.path("AMS", "PAR")


def test_a_controller_that_is_not_there_is_named() -> None:
    with pytest.raises(RunError, match=r"controller at http://127\.0\.0\.1:1: (?i:.*refused)"):
        NorthboundClient("http://127.0.0.1:1").health()


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/paths/AMS/PAR", 404),
        ("/nothing", 404),
        ("/events?after=x", 400),
        ("/events?after=inf", 400),
        ("/ports?max_age_s=-1", 400),
        ("/flows/NYC", 503),
    ],
)
def test_each_mistake_has_its_status_and_one_line(
    controller: FabricController, url: str, status: int
) -> None:
    reply = create_app(Readout(controller), Asking(controller)).test_client().get(url)
    assert reply.status_code == status
    assert "\n" not in json.loads(reply.data)["error"]


def test_it_cannot_be_written_to(controller: FabricController) -> None:
    reply = create_app(Readout(controller), Asking(controller)).test_client().post("/flows")
    assert reply.status_code == 405


def test_a_busy_address_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=f"127.0.0.1:{port}: Address already in use"):
            listening_socket("127.0.0.1", port)
