"""What the judge of the run in the machine lets pass, and what not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.vm.run_judge import demands

MANIFEST = {"datapath": "kernel", "link_backend": "netem"}
TRAINED = ["start", "round", "end"]
WORKERS = {"AMS": TRAINED, "FRA": TRAINED, "LON": TRAINED}
PORTS = [f"{s}>{s}.island" for s in WORKERS] + [f"{s}.island>{s}" for s in WORKERS]
LINKS = ["AMS>FRA", "FRA>AMS", "AMS>LON", "LON>AMS"]
SLOW = "the switch daemon of AMS had no time left: 99 % of a core between 1 s and 7 s"


def carried(payload_bytes: int) -> dict[str, int]:
    return {"predicted_payload_bytes": 204_170, "measured_payload_bytes": payload_bytes}


def summary(**changed: Any) -> dict[str, Any]:
    unused = {"predicted_payload_bytes": 0, "measured_payload_bytes": 0}
    return {
        "round_trips": {"pairs": 6, "unreachable": []},
        "rounds": [{"sync_s": 1.5}],
        "parameters_sha256": "0123456789abcdef",
        "link_bytes": {
            **{name: carried(205_000) for name in PORTS + LINKS},
            **dict.fromkeys(("FRA>LON", "LON>FRA"), unused),
        },
        "reasons": [],
        "machine_reasons": [],
        **changed,
    }


def unmet(
    of: Mapping[str, Any],
    manifest: Mapping[str, Any] = MANIFEST,
    workers: Mapping[str, Any] = WORKERS,
) -> list[str]:
    return [demand.what for demand in demands(manifest, of, workers) if not demand.met]


def test_a_run_with_nothing_wrong_passes() -> None:
    assert unmet(summary()) == []


def test_what_the_machine_is_to_blame_for_is_no_fault() -> None:
    assert unmet(summary(reasons=[SLOW], machine_reasons=[SLOW])) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"reasons": [SLOW, "x"], "machine_reasons": [SLOW]}, "nothing but the machine is wrong"),
        ({"round_trips": {"pairs": 6, "unreachable": ["A>B"]}}, "every pair is reached"),
        ({"rounds": []}, "the islands exchanged once"),
        ({"parameters_sha256": None}, "all ended with the same parameters"),
        ({"link_bytes": {}}, "the ring's links carried it"),
        (
            {"link_bytes": {**summary()["link_bytes"], "AMS>LON": carried(0)}},
            "the ring's links carried it",
        ),
    ],
)
def test_whatever_else_is_wrong_is_told(changed: dict[str, Any], expected: str) -> None:
    assert unmet(summary(**changed)) == [expected]


def test_another_kind_of_switch_or_link_is_not_what_was_to_be_proved() -> None:
    elsewhere = {"datapath": "userspace", "link_backend": "linkd"}
    assert unmet(summary(), elsewhere) == ["switches are the kernel's", "links are netem's"]


def test_an_island_without_an_end_did_not_train() -> None:
    workers = {**WORKERS, "LON": ["start", "error"]}
    assert unmet(summary(), workers=workers) == ["LON trained one round"]
