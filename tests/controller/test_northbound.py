"""The HTTP interface and its client, over a real socket on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.app import FabricController
from controller.asking import Asking
from controller.client import NorthboundClient, tree_request
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


@pytest.fixture()
def steering() -> FabricController:
    """A controller with accelerators at two of its three sites."""
    return FabricController(topology=triangle(), accelerators=["LON", "NYC"])


UP = {
    "kind": "aggregation",
    "root": "NYC",
    "at_island": False,
    "members": ["AMS", "LON", "NYC"],
    "hops": [["NYC", "LON"], ["LON", "AMS"]],
    "sums_at": ["LON", "NYC"],
}
DOWN = {"kind": "multicast", "root": "NYC", "at_island": False, "members": ["AMS", "LON", "NYC"]}


def _ask(controller: FabricController, method: str, path: str, body: object) -> tuple[int, Any]:
    client = create_app(Readout(controller), Asking(controller)).test_client()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = client.open(path, method=method, data=data)
    return reply.status_code, json.loads(reply.data)


def test_trees_are_asked_for_together_and_tell_who_sums_what(steering: FabricController) -> None:
    status, answer = _ask(steering, "POST", "/trees", {"trees": [UP, DOWN]})
    up, down = answer["trees"]
    assert status == 200
    assert (up["tree_id"], up["address"]) == (1, "10.2.0.2")
    assert up["sums"]["LON"] == {
        "from": [
            {"end": "AMS.island", "ip": "10.0.0.1"},
            {"end": "LON.island", "ip": "10.0.0.2"},
        ],
        "to": {"end": "NYC.accelerator", "ip": "10.1.0.3"},
    }
    assert up["sums"]["NYC"]["to"] is None
    assert (down["tree_id"], down["address"]) == (2, "239.192.0.1")
    assert down["source"] == {"end": "NYC.accelerator", "ip": "10.1.0.3"}
    assert down["hops"] == [["LON", "AMS"], ["NYC", "LON"]], "least delay"


def test_the_client_adds_moves_and_removes_trees(
    client: NorthboundClient, controller: FabricController
) -> None:
    tree = {"kind": "multicast", "root": "AMS", "members": ["NYC"]}
    (row,) = client.add_trees([tree])
    moved = client.move_tree(row["tree_id"], {**tree, "hops": [["AMS", "NYC"]]})
    assert moved["hops"] == [["AMS", "NYC"]] and moved["group_ip"] == row["group_ip"]
    assert [kept["hops"] for kept in client.trees()] == [[["AMS", "NYC"]]]
    assert client.remove_tree(row["tree_id"])["tree_id"] == row["tree_id"]
    assert client.trees() == []


def test_the_client_adds_and_removes_groups(client: NorthboundClient) -> None:
    row = client.add_group(["NYC"], senders=["AMS"])
    assert [kept["group_ip"] for kept in client.groups()] == [row["group_ip"]] == ["239.192.0.1"]
    client.remove_group(row["group_ip"])
    assert client.groups() == []
    with pytest.raises(UserError, match=r"no group 239\.192\.0\.1"):
        client.remove_group(row["group_ip"])


def test_what_is_not_there_is_told_with_what_is(client: NorthboundClient) -> None:
    for number in range(1, 15):
        client.add_group(["NYC"], group_ip=f"239.1.1.{number}")
    with pytest.raises(UserError, match=r"no group foo; there is 239\.1\.1\.1, .* and 2 more$"):
        client.remove_group("foo")


@pytest.mark.parametrize("path", ["/no such", "/n\r\nX: y", "/größe", "/#", "/%2F", "//x"])
def test_a_path_of_any_letters_is_told_in_one_line(client: NorthboundClient, path: str) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*Not Found; there are /events, /flows") as told:
        client.get(path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("address", ["a/b", "a b", "..", "", "ä", "a\nb", "?x=1", "239.1.1.1#"])
def test_a_group_of_any_letters_is_told_in_one_line(client: NorthboundClient, address: str) -> None:
    with pytest.raises(UserError, match=r"there (is|are) |it takes") as told:
        client.remove_group(address)
    assert "\n" not in str(told.value)


def test_an_answer_that_is_no_http_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RunError, match=f"controller at http://127.0.0.1:{port}: 220 mail"):
            NorthboundClient(f"http://127.0.0.1:{port}").health()
        thread.join()


def test_a_tree_of_a_plan_becomes_a_request() -> None:
    plan = pytest.importorskip("schedules.plan")
    tree = plan.PlannedTree(
        *("aggregation", 0, "NYC", False, ("LON", "NYC"), (("NYC", "LON"),), ("NYC",), 1.0)
    )
    assert tree_request(tree, fan_in={"NYC": 4, "LON": 2}) == {
        "kind": "aggregation",
        "root": "NYC",
        "at_island": False,
        "members": ["LON", "NYC"],
        "hops": [["NYC", "LON"]],
        "sums_at": ["NYC"],
        "fan_in": {"NYC": 4},
    }


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "request: Invalid JSON"),
        (b"[]", "request: Input should be an object"),
        ({"trees": []}, "trees: Tuple should have at least 1 item"),
        ({"trees": [{**UP, "kind": "anycast"}]}, "trees.0.kind: Input should be 'multicast' or"),
        ({"trees": [UP, {**UP, "speed": 9}]}, "trees.1.speed: Extra inputs are not permitted"),
        ({"trees": [{**UP, "at_island": "no"}]}, "trees.0.at_island: Input should be a valid bool"),
        ({"trees": [{**UP, "hops": [["NYC"]]}]}, "trees.0.hops.0.1: Field required"),
        ({"trees": [{**UP, "tree_id": 20001}]}, "trees.0.tree_id: Input should be less than or"),
        ({"trees": [{**UP, "root": "PAR"}]}, "trees.0: no site 'PAR' in this topology"),
        ({"trees": [{**UP, "hops": []}]}, "trees.0: tree 1: AMS, LON not reached from NYC"),
        ({"trees": [{**UP, "group_ip": "239.1.1.1"}]}, "trees.0: group_ip: means nothing for"),
        ({"trees": [{**DOWN, "group_ip": "10.0.0.1"}]}, "no IPv4 multicast address"),
        ({"trees": [{**DOWN, "sums_at": ["NYC"]}]}, "trees.0: sums_at: means nothing for"),
        ({"trees": [{**UP, "tree_id": 5}, {**UP, "tree_id": 5}]}, "trees.1: tree_id: there is a"),
        (
            {"trees": [{**UP, "sums_at": ["AMS", "NYC"]}]},
            "AMS has no accelerator",
        ),
        (
            {"trees": [{**DOWN, "group_ip": "239.1.1.1"}, {**DOWN, "group_ip": "239.1.1.1"}]},
            "two intents claim the packets",
        ),
    ],
)
def test_what_cannot_be_laid_out_is_refused_in_one_line_and_leaves_no_trace(
    steering: FabricController, body: object, complaint: str
) -> None:
    status, answer = _ask(steering, "POST", "/trees", body)
    assert status == 400
    assert complaint in answer["error"] and "\n" not in answer["error"]
    assert steering.view.trees == ()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "complaint"),
    [
        ("POST", "/groups", {"members": ["PAR"]}, 400, "no site 'PAR'"),
        ("POST", "/groups", {}, 400, "members: Field required"),
        ("POST", "/groups", {"members": [], "group_ip": "224.0.0.9"}, 400, "224.0.1.0 to"),
        ("POST", "/groups", {"members": [], "group_ip": "me"}, 400, "'me' is not within"),
        ("DELETE", "/groups/239.1.1.1", {}, 404, "no group 239.1.1.1; there is none"),
        ("DELETE", "/trees/7", {}, 404, "no tree 7; there is none"),
        ("PUT", "/trees/7", DOWN, 404, "no tree 7; there is none"),
        ("DELETE", "/trees/seven", {}, 404, "Not Found; there are /events, /flows, /flows/<site>,"),
        ("PUT", "/trees", DOWN, 405, "Method Not Allowed; it takes GET, HEAD, OPTIONS, POST"),
        ("POST", "/groups", b"[" * 5_000_000, 413, "send 4194304 bytes at most"),
    ],
)
def test_each_mistake_in_a_request_has_its_status(
    steering: FabricController, method: str, path: str, body: object, status: int, complaint: str
) -> None:
    got, answer = _ask(steering, method, path, body)
    assert got == status
    assert complaint in answer["error"]


def test_islands_may_read_and_change_nothing(steering: FabricController) -> None:
    client = create_app(Readout(steering), Asking(steering)).test_client()
    for address, allowed in (("10.255.0.2", False), ("10.255.0.1", True), ("127.0.0.1", True)):
        sender = {"REMOTE_ADDR": address}
        assert client.get("/trees", environ_base=sender).status_code == 200
        reply = client.post("/groups", data=b'{"members": []}', environ_base=sender)
        assert reply.status_code == (200 if allowed else 403)
        assert allowed or b"islands may read, and change nothing" in reply.data


NAMES = st.sampled_from([*UP, "trees", "fan_in", "group_ip"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("NYC"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=8),
    max_leaves=12,
)


def test_no_json_is_the_controllers_fault(steering: FabricController) -> None:
    client = create_app(Readout(steering), Asking(steering)).test_client()

    @settings(max_examples=60, deadline=None)
    @given(ANY_JSON)
    def ask(body: object) -> None:
        for asked in (body, {"trees": [body]}, {"trees": [{**UP, "members": body}]}):
            reply = client.post("/trees", data=json.dumps(asked))
            assert reply.status_code in (200, 400), reply.data

    ask()


def test_other_paths_cannot_be_written_to(controller: FabricController) -> None:
    assert _ask(controller, "POST", "/flows", {})[0] == 405


def test_a_busy_address_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=f"127.0.0.1:{port}: Address already in use"):
            listening_socket("127.0.0.1", port)
