"""The application with in-memory switches: readiness, reroutes, refusals, reconnects."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from controller.app import FabricController
from controller.client import describe
from controller.fabric import Fabric
from controller.readout import Readout
from controller.session import ANSWER_TIMEOUT_S, Status
from controller.shim import ofproto
from tests.controller.memory_switch import MemoryDatapath, datapath_of
from tests.controller.networks import triangle
from tests.controller.pipeline import PipelineNetwork
from topologies.errors import RunError


@pytest.fixture()
def controller() -> FabricController:
    return FabricController(topology=triangle())


def _connect_all(controller: FabricController) -> dict[str, MemoryDatapath]:
    fabric = Fabric.of(triangle())
    datapaths = {code: datapath_of(fabric, code) for code in fabric.codes}
    for datapath in datapaths.values():
        datapath.connect(controller)
    return datapaths


def _path(datapaths: dict[str, MemoryDatapath], a: str, b: str) -> set[tuple[str, str]]:
    fabric = Fabric.of(triangle())
    network = PipelineNetwork(fabric, {code: d.switch for code, d in datapaths.items()})
    packet = {
        "eth_type": 0x0800,
        "ipv4_src": fabric.island_ip(a),
        "ipv4_dst": fabric.island_ip(b),
    }
    journey = network.send(a, packet)
    assert journey.islands == {b: 1}
    return set(journey.links)


def test_it_is_ready_when_the_last_switch_confirmed_and_not_before(
    controller: FabricController,
) -> None:
    fabric = Fabric.of(triangle())
    for code in fabric.codes:
        assert not controller.ready
        datapath_of(fabric, code).connect(controller)
    assert controller.ready


def test_switches_that_are_missing_are_named(controller: FabricController) -> None:
    datapath_of(Fabric.of(triangle()), "LON").connect(controller)
    health = Readout(controller).health()
    assert health["not_confirmed"] == ["AMS", "NYC"]
    assert describe(health) == "AMS not connected; NYC not connected"


def test_packets_take_the_least_delay_path(controller: FabricController) -> None:
    datapaths = _connect_all(controller)
    assert _path(datapaths, "AMS", "NYC") == {("AMS", "LON"), ("LON", "NYC")}


def test_an_unknown_datapath_is_refused_and_reported(controller: FabricController) -> None:
    stranger = MemoryDatapath(99, datapath_of(Fabric.of(triangle()), "AMS").switch, {})
    stranger.connect(controller)
    assert stranger.closed
    assert stranger.programmed() == []
    health = Readout(controller).health()
    assert health["unknown_datapaths"] == {"0000000000000063": "127.0.0.1"}
    assert "datapath 0000000000000063" in Readout(controller).events()[-1]["text"]


def test_an_island_cannot_pass_for_a_switch(controller: FabricController) -> None:
    fabric = Fabric.of(triangle())
    switch, island = datapath_of(fabric, "NYC"), datapath_of(fabric, "NYC")
    switch.address = (fabric.switch_management_ip("NYC"), 40001)
    island.address = (fabric.island_management_ip("NYC"), 40002)
    switch.connect(controller)
    island.connect(controller)
    assert island.closed and not switch.closed
    assert controller.switches["NYC"].datapath is switch
    last = Readout(controller).events()[-1]
    assert last["text"].endswith("is not at the address of the switch of NYC")


def test_a_port_down_moves_traffic_to_the_remaining_links(controller: FabricController) -> None:
    datapaths = _connect_all(controller)
    datapaths["LON"].port_status(controller, 3, up=False)
    assert not controller.ready
    controller._reconcile()
    for datapath in datapaths.values():
        datapath.deliver(controller)
    assert controller.ready
    assert _path(datapaths, "AMS", "NYC") == {("AMS", "NYC")}
    assert _path(datapaths, "LON", "NYC") == {("LON", "AMS"), ("AMS", "NYC")}
    assert Readout(controller).health()["links_down"] == ["LON>NYC", "NYC>LON"]


def test_a_port_up_again_moves_traffic_back(controller: FabricController) -> None:
    datapaths = _connect_all(controller)
    for up in (False, True):
        datapaths["LON"].port_status(controller, 3, up)
        controller._reconcile()
        for datapath in datapaths.values():
            datapath.deliver(controller)
    assert controller.ready
    assert _path(datapaths, "AMS", "NYC") == {("AMS", "LON"), ("LON", "NYC")}


def test_a_port_status_has_the_switch_checked_again(controller: FabricController) -> None:
    datapaths = _connect_all(controller)
    datapaths["LON"].switch.flows.clear()
    datapaths["LON"].port_status(controller, 1, up=True)
    controller._reconcile()
    datapaths["LON"].deliver(controller)
    assert controller.ready
    assert _path(datapaths, "AMS", "NYC") == {("AMS", "LON"), ("LON", "NYC")}


def test_a_port_missing_when_the_switch_connects_counts_as_down(
    controller: FabricController,
) -> None:
    fabric = Fabric.of(triangle())
    datapath = datapath_of(fabric, "NYC")
    del datapath.ports_up[fabric.port_to("NYC", "LON")]
    datapath.connect(controller)
    assert Readout(controller).health()["links_down"] == ["LON>NYC", "NYC>LON"]


def test_a_switch_that_refuses_its_rules_is_named_with_its_reason(
    controller: FabricController,
) -> None:
    datapath = datapath_of(Fabric.of(triangle()), "NYC")
    datapath.refuse_with = (ofproto.OFPET_FLOW_MOD_FAILED, ofproto.OFPFMFC_TABLE_FULL)
    datapath.connect(controller)
    assert controller.switches["NYC"].session.status is Status.FAILED
    text = describe(Readout(controller).health())
    assert "NYC switch says FLOW_MOD_FAILED TABLE_FULL" in text


def test_a_switch_that_reconnects_with_its_rules_is_left_alone(
    controller: FabricController,
) -> None:
    datapaths = _connect_all(controller)
    datapaths["LON"].lose(controller)
    assert not controller.ready
    again = datapath_of(Fabric.of(triangle()), "LON", datapaths["LON"].switch)
    again.connect(controller)
    assert controller.ready
    assert again.programmed() == []


def test_a_switch_that_was_restarted_gets_everything_again(controller: FabricController) -> None:
    datapaths = _connect_all(controller)
    datapaths["LON"].lose(controller)
    datapaths["LON"] = datapath_of(Fabric.of(triangle()), "LON")
    datapaths["LON"].connect(controller)
    assert controller.ready
    assert _path(datapaths, "AMS", "NYC") == {("AMS", "LON"), ("LON", "NYC")}


def test_a_link_that_failed_while_a_switch_was_away_is_routed_around(
    controller: FabricController,
) -> None:
    datapaths = _connect_all(controller)
    datapaths["LON"].lose(controller)
    again = datapath_of(Fabric.of(triangle()), "LON", datapaths["LON"].switch)
    again.ports_up[3] = False
    datapaths["LON"] = again
    again.connect(controller)
    controller._reconcile()
    for datapath in datapaths.values():
        datapath.deliver(controller)
    assert controller.ready
    assert _path(datapaths, "AMS", "NYC") == {("AMS", "NYC")}


def test_the_end_of_an_older_connection_does_not_count(controller: FabricController) -> None:
    datapaths = _connect_all(controller)
    again = datapath_of(Fabric.of(triangle()), "LON", datapaths["LON"].switch)
    again.connect(controller)
    assert datapaths["LON"].closed
    datapaths["LON"].lose(controller)
    assert controller.ready


def test_a_silent_switch_loses_its_connection(controller: FabricController) -> None:
    datapath = datapath_of(Fabric.of(triangle()), "LON")
    controller.state_changed(SimpleNamespace(datapath=datapath, state="main"))
    controller._reconcile()
    assert not datapath.closed
    controller.switches["LON"].session.since_s -= ANSWER_TIMEOUT_S + 1
    controller._reconcile()
    assert datapath.closed


def test_a_switch_without_meters_gets_none(controller: FabricController) -> None:
    datapath = datapath_of(Fabric.of(triangle()), "LON", max_meter=0)
    datapath.connect(controller)
    assert controller.switches["LON"].session.status is Status.CONFIRMED
    assert datapath.switch.meters == {}


def test_a_handler_that_fails_is_recorded_and_raises_nothing(controller: FabricController) -> None:
    controller.packet_in(SimpleNamespace(msg=None))
    last = Readout(controller).events()[-1]
    assert last["kind"] == "error" and last["text"].startswith("packet_in:")


def test_counters_name_directions_by_their_source(controller: FabricController) -> None:
    readout = Readout(controller)
    datapaths = _connect_all(controller)
    _answer_while_asked(controller, datapaths)
    ports = readout.ports()
    assert set(ports) == {
        *("AMS>AMS.island", "AMS>LON", "AMS>NYC"),
        *("LON>LON.island", "LON>AMS", "LON>NYC"),
        *("NYC>NYC.island", "NYC>AMS", "NYC>LON"),
    }
    assert ports["NYC>LON"]["rx_bytes"] == 300
    assert ports["NYC>LON"]["tx_bytes"] == 7
    assert ports["NYC>LON"]["time_s"] > 0


def test_counters_of_a_switch_that_is_gone_are_an_error_that_names_it(
    controller: FabricController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.app.REQUEST_TIMEOUT_S", 0.2)
    datapaths = _connect_all(controller)
    _answer_while_asked(controller, datapaths)
    datapaths["LON"].lose(controller)
    with pytest.raises(RunError, match=r"no answer about ports from LON$"):
        Readout(controller).ports(max_age_s=0)
    assert "NYC>AMS" in Readout(controller).ports(max_age_s=0, partial=True)


def _answer_while_asked(controller: FabricController, datapaths: dict[str, MemoryDatapath]) -> None:
    """From here on, in-memory switches answer as soon as they are asked."""
    for datapath in datapaths.values():
        send = datapath.send_msg

        def send_and_deliver(
            message: object, send: object = send, datapath: MemoryDatapath = datapath
        ) -> None:
            send(message)  # type: ignore[operator]
            datapath.deliver(controller)

        datapath.send_msg = send_and_deliver  # type: ignore[method-assign]
