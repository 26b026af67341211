"""What the judge of the run in the machine lets pass, and what not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from testbed.measure.series import Counts, Series
from tests.vm.run_judge import demands
from topologies.model import Direction

MANIFEST = {"datapath": "kernel", "link_backend": "netem"}
TRAINED = ["start", "round", "end"]
WORKERS = {"AMS": TRAINED, "FRA": TRAINED, "LON": TRAINED}
PORTS = [f"{s}>{s}.island" for s in WORKERS] + [f"{s}.island>{s}" for s in WORKERS]
LINKS = ["AMS>FRA", "FRA>AMS", "AMS>LON", "LON>AMS"]
SLOW = "the switch daemon of AMS had no time left: 99 % of a core between 1 s and 7 s"


EXCHANGE_BYTES = 204_170
ODD = "AMS>FRA carried 94286 bytes of payload, predicted 204170; 0 dropped frames do not explain it"


def expected(payload_bytes: int) -> dict[str, int]:
    return {"predicted_payload_bytes": payload_bytes}


def summary(**changed: Any) -> dict[str, Any]:
    return {
        "round_trips": {"pairs": 6, "unreachable": []},
        "rounds": [{"sync_s": 1.5}],
        "final": {"held_out_loss": 2.3},
        "parameters_sha256": "0123456789abcdef",
        "link_bytes": {
            **{name: expected(EXCHANGE_BYTES) for name in PORTS + LINKS},
            **{name: expected(0) for name in ("FRA>LON", "LON>FRA")},
        },
        "reasons": [],
        "machine_reasons": [],
        **changed,
    }


def readings(**odd: int) -> dict[Direction, Series]:
    """Counters that stood at 3,000 bytes, and then carried so much payload in 100 frames."""
    found = {}
    for name in (*PORTS, *LINKS, "FRA>LON", "LON>FRA"):
        series = Series()
        series.append(0.0, Counts(3_000, 30, 0))
        payload_bytes = odd.get(name.replace(">", "_"), 2 * EXCHANGE_BYTES + 4_000)
        series.append(9.0, Counts(3_000 + payload_bytes + 100 * 66, 130, 0))
        found[Direction.parse(name)] = series
    return found


def unmet(
    of: Mapping[str, Any],
    manifest: Mapping[str, Any] = MANIFEST,
    workers: Mapping[str, Any] = WORKERS,
    links: Mapping[Direction, Series] | None = None,
) -> list[str]:
    found = demands(manifest, of, workers, readings() if links is None else links)
    return [demand.what for demand in found if not demand.met]


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
        ({"link_bytes": {}}, "the links carried what the plan says"),
    ],
)
def test_whatever_else_is_wrong_is_told(changed: dict[str, Any], expected: str) -> None:
    assert unmet(summary(**changed)) == [expected]


def test_bytes_are_judged_over_the_whole_training() -> None:
    missing = unmet(summary(), links=readings(AMS_FRA=EXCHANGE_BYTES))
    assert missing == ["the links carried what the plan says"]


def test_bytes_that_the_run_itself_calls_odd_are_no_fault_of_the_machine() -> None:
    assert unmet(summary(reasons=[ODD])) == ["nothing but the machine is wrong"]


def test_another_kind_of_switch_or_link_is_not_what_was_to_be_proved() -> None:
    elsewhere = {"datapath": "userspace", "link_backend": "linkd"}
    assert unmet(summary(), elsewhere) == ["switches are the kernel's", "links are netem's"]


def test_an_island_without_an_end_did_not_train() -> None:
    workers = {**WORKERS, "LON": ["start", "error"]}
    assert unmet(summary(), workers=workers) == ["LON trained one round"]
