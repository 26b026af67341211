from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.fabric import Fabric
from controller.trees import AggregationTree
from testbed.accelerator.config import Address, TreeConfig, parse_counters
from testbed.accelerator.placement import Job, Shape, shape_of, tree_configs
from tests.accelerator.driver import Driver
from topologies.errors import UserError
from topologies.files import load

CHILD = Address("10.0.0.1", 7000)
GROUP = Address("239.0.0.1", 9000)
CONFIG = TreeConfig(1, 2, 3, window=4, leaves=1, children=(CHILD,), results=(GROUP,))
LEAST = "open job=1 tree=2 key=3 window=4 leaves=1 children=10.0.0.1:7000"


def test_a_configuration_is_written_as_settings_and_leaves_out_what_is_empty() -> None:
    assert CONFIG.words() == (
        "job=1 tree=2 key=3 window=4 leaves=1 children=10.0.0.1:7000 child=0 "
        "results=239.0.0.1:9000 notice_every=16 hold_us=5000"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"window": 0}, "window 0 is not 1 to 32768"),
        ({"job": 2**64}, "job 18446744073709551616 is not 0"),
        ({"children": ()}, "0 children, not 1 to 64"),
        ({"children": (CHILD,) * 65}, "65 children, not 1 to 64"),
        ({"results": ()}, "the root has results and no up"),
        ({"up": CHILD}, "the root has results and no up"),
        ({"notice_every": 65}, "notice_every 65 is not 1 to 64"),
    ],
)
def test_a_configuration_without_sense_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        replace(CONFIG, **change)


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", "10.0.0.256:1", "a:1", "10.0.0.1:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"address|port"):
        Address.parse(text)


REQUESTS = {
    "hello": "ok",
    f"{LEAST} up=10.0.0.9:1": "ok",
    f"{LEAST} results=239.0.0.1:1,239.0.0.2:2 members=10.0.0.1:5": "ok",
    "fault in drop=5 duplicate=6 seed=7": "ok",
    "fault out": "ok",
    "": "unknown request",
    "hallo": "unknown request",
    "hello job=1": "a setting of another request",
    "open": "job, tree, key, window, leaves and children are wanted",
    LEAST: "either up or results is wanted",
    f"{LEAST} up=10.0.0.9:1 results=239.0.0.1:1": "either up or results is wanted",
    f"{LEAST} up=10.0.0.9:1,10.0.0.8:1": "an address is written 10.0.0.1:7000, and there may be"
    " too many",
    f"{LEAST} window=4": "a setting is named twice",
    f"{LEAST} speed=4": "unknown setting",
    f"{LEAST} up": "a setting is written key=value",
    "open window=0": "a value is out of range",
    "open window=": "a value is out of range",
    "open job=18446744073709551616": "a value is out of range",
    "close job=1": "job and tree are wanted",
    "close job=1 tree=9": "no such tree is open",
    "fault": "in or out is wanted",
    "fault up drop=1": "in or out is wanted",
    "fault in drop=1000000001": "a value is out of range",
}


@pytest.mark.parametrize("line", REQUESTS)
def test_a_request_is_read_or_refused_with_the_reason(driver: Driver, line: str) -> None:
    driver.start()
    assert driver.control(line) == REQUESTS[line]


@pytest.mark.parametrize("loss_pct", [1, 30])
def test_the_injector_drops_its_share_and_repeats_itself(driver: Driver, loss_pct: int) -> None:
    def fates() -> str:
        driver.control(f"fault in drop={loss_pct * 10_000_000} duplicate=100000000 seed=3")
        return driver.ask("fates 20000")[0]

    first = fates()
    assert first == fates()
    assert first.count("0") / 20_000 == pytest.approx(loss_pct / 100, rel=0.25)
    assert first.count("2") / 20_000 == pytest.approx(0.1 * (1 - loss_pct / 100), rel=0.1)


def test_an_answer_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="answered"):
        parse_counters(["something a=1"])


# --- from the controller's tree to configurations -----------------------------------------------


def steered(**changes: object) -> tuple[AggregationTree, dict[str, Address]]:
    fabric = Fabric.of(load("three_city"), load("three_city").codes)
    codes = fabric.codes
    fields = {
        "tree_id": 1,
        "root": codes[0],
        "hops": ((codes[0], codes[1]), (codes[0], codes[2])),
        "members": codes,
        "sums_at": codes[:2],
        "at_island": False,
    }
    ends = [f"{code}.{kind}" for code in codes for kind in ("island", "accelerator")]
    addresses = {end: Address(fabric.end_ip(end), 7000) for end in ends}
    return AggregationTree(**{**fields, **changes}), addresses  # type: ignore[arg-type]


def test_a_steered_tree_tells_each_accelerator_its_place() -> None:
    tree, addresses = steered()
    a, b, c = sorted({site.partition(".")[0] for site in addresses})
    members = [f"{code}.island" for code in (a, b, c)]
    shape = shape_of(tree, 7000, addresses, members, (GROUP,))
    configs = tree_configs(Job(9, 1, 5, 16), shape)
    root, inner = configs[f"{a}.accelerator"], configs[f"{b}.accelerator"]
    children = (f"{a}.island", f"{b}.accelerator", f"{c}.island")
    assert root.children == tuple(addresses[end] for end in children)
    assert root.members == tuple(addresses[end] for end in members)
    assert (root.leaves, root.up, root.results) == (3, None, (GROUP,))
    assert inner.children == (addresses[f"{b}.island"],)
    assert (inner.leaves, inner.up, inner.child) == (1, Address(tree.address, 7000), 1)
    assert (inner.results, inner.members) == ((), ())


def test_streams_that_pass_the_last_accelerator_are_an_error() -> None:
    tree, addresses = steered()
    a, b, c = tree.members
    passing, _ = steered(members=(b, c), sums_at=(b,), at_island=True)
    with pytest.raises(UserError, match="not all streams are summed"):
        shape_of(passing, 7000, addresses, [f"{a}.island"], (GROUP,))


def test_a_tree_has_one_root() -> None:
    shape = Shape({"a": ("x",), "b": ("y",)}, ["x", "y"], {}, (GROUP,))
    with pytest.raises(UserError, match="one root, not a, b"):
        shape.root()
