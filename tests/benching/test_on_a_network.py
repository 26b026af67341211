"""Three real cities: every kind of collective gives the exact mean, over the predicted links."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.root, pytest.mark.slow]

ATOLL = str(Path(sys.executable).with_name("atoll"))
KINDS = ("ring", "exchange", "multicast", "aggregation", "innetwork")


def bench(runs: Path, *words: str) -> dict[str, Any]:
    command = [ATOLL, "bench", "collective", "three_city", *words, "--json", "--runs", str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    runs = tmp_path_factory.mktemp("runs")
    words = ("--collective", ",".join(KINDS), "-b", "400KB", "-n", "2", "--no-calibrate")
    return {row["collective"]: row for row in bench(runs, *words)["rows"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_island_gets_the_exact_mean(rows: dict[str, dict[str, Any]], kind: str) -> None:
    assert rows[kind]["wrong"] == 0
    assert rows[kind]["iterations"] == 2


def test_the_plan_says_how_many_links_every_message_crosses(
    rows: dict[str, dict[str, Any]],
) -> None:
    # LON and FRA hang on AMS. Ring: 4 hops of 4/3. Exchange: 2 x 2 neighbours, 2 x 2 over AMS.
    predicted = {kind: rows[kind]["traversals_expected"] for kind in KINDS}
    assert predicted["ring"] == pytest.approx(16 / 3)
    assert predicted["exchange"] == 8
    assert predicted["multicast"] == predicted["aggregation"] == 6
    assert predicted["innetwork"] == 4


def test_links_carry_no_less_than_the_plan_says(rows: dict[str, dict[str, Any]]) -> None:
    for kind in KINDS:
        assert rows[kind]["traversals"] >= 0.97 * rows[kind]["traversals_expected"]


def test_sums_are_exact_though_every_hop_loses_and_doubles_packets(tmp_path: Path) -> None:
    words = ("--collective", "innetwork", "-b", "200KB", "-n", "2", "--no-calibrate")
    found = bench(tmp_path, *words, "--loss-pct", "2", "--duplicate-pct", "2")
    assert [row["wrong"] for row in found["rows"]] == [0]
