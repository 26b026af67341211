"""The examples, carried out in small: as variants of two runs, each on one standing WAN.

A machine that is busy makes a run rightly invalid, so what is asked is that nothing but the machine
is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import testbed.record
from testbed.experiment.file import merged
from testbed.record.reader import load_run
from topologies.document import read_yaml, write_yaml

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(900)]

ATOLL = str(Path(sys.executable).with_name("atoll"))
EXAMPLES = Path(__file__).parents[2] / "experiments"
SCHEMAS = Path(testbed.record.__file__).parent / "schemas"
SMALL = {"rounds": 2, "local_steps": 1}
TOO_LATE = {"at_s": 600, "link": "AMS-FRA", "down_s": 1}
QUICKLY = ("--no-calibrate", "--no-report")


def example(name: str) -> dict[str, Any]:
    data: dict[str, Any] = read_yaml((EXAMPLES / f"{name}.yaml").read_text(), name).data
    return data


def variants_of(name: str, *wanted: str) -> list[dict[str, Any]]:
    """Some variants of an example, each with all that its file says of it, made small."""
    data = example(name)
    shared = {key: data[key] for key in data if key in FIELDS}
    rows = [row for row in data.get("variants", [{"name": name}]) if row["name"] in wanted]
    assert len(rows) == len(wanted)
    return [small(merged(shared, row), f"{name}.{row['name']}") for row in rows]


FIELDS = ("capability", "collective", "plan", "outer", "overlap_fragments", "workload")


def small(row: dict[str, Any], name: str) -> dict[str, Any]:
    found = {**row, **SMALL, "name": name}
    if found["workload"]["kind"] == "characters":
        found["workload"] = {**found["workload"], "preset": "tiny"}
    if "layers" in found["workload"]:
        layers = (EXAMPLES / found["workload"]["layers"]).resolve()
        found["workload"] |= {"layers": str(layers), "message_scale": 1e-4, "compute_scale": 0.01}
    if found.get("outer", {}).get("kind") == "none":
        del found["local_steps"]
    return found


def run(folder: Path, data: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    file = folder / "experiment.yaml"
    file.write_text(write_yaml(data))
    command = [ATOLL, "run", str(file), "--runs", str(folder / "runs"), *QUICKLY, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)


def parts(folder: Path) -> dict[str, Path]:
    """The records of a run's trainings, by variant and repetition."""
    base = (folder / "runs" / "latest").resolve() / "variants"
    return {str(path.relative_to(base)): path for path in sorted(base.glob("*/*"))}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One variant or more of every example that needs a sound network, on one WAN."""
    folder = tmp_path_factory.mktemp("many")
    unreachable = {"target_loss": 0.01}
    variants = [
        {**variants_of("default", "default")[0], **unreachable},
        *variants_of("rotating_triples", "triples"),
        *variants_of("capabilities", "multicast", "aggregation", "innetwork"),
        *variants_of("diloco", "overlapped", "synchronous"),
        *variants_of("replay", "innetwork"),
        *variants_of("unlike_data", "unlike"),
        {
            "name": "pairs",
            "collective": "exchange",
            "plan": {"rounds": [{"cliques": [["AMS", "FRA"]]}, {"cliques": [["AMS", "LON"]]}]},
            "workload": {"preset": "tiny"},
            **SMALL,
        },
    ]
    done = run(folder, {"topology": "three_city", "variants": variants})
    assert "Record: " in done.stdout, done.stdout + done.stderr
    (folder / "said.txt").write_text(done.stdout)
    assert done.returncode == 1
    return folder


def test_each_training_is_a_complete_record_with_nothing_wrong_but_the_machine(many: Path) -> None:
    found = parts(many)
    assert len(found) == 10
    schemas = {name: read(SCHEMAS / f"{name}.schema.json") for name in ("manifest", "summary")}
    for name, path in found.items():
        summary = read(path / "summary.json")
        assert summary["reasons"] == summary["machine_reasons"], name
        assert load_run(path).state == "complete"
        assert len(load_run(path).rounds) == 2
        for kind, schema in schemas.items():
            jsonschema.validate(read(path / f"{kind}.json"), schema)


def test_a_target_that_is_not_reached_is_told_in_one_line(many: Path) -> None:
    said = (many / "said.txt").read_text().splitlines()
    (line,) = [line for line in said if "NOT REACHED: " in line]
    assert line.startswith(
        "default.default, 1: NOT REACHED: the target loss of 0.01 was not reached in 2 rounds: "
    )


def test_every_training_ends_with_one_model_for_all(many: Path) -> None:
    for name, path in parts(many).items():
        final = read(path / "summary.json")["final"]
        assert final["parameters_sha256"], name


def test_the_order_free_kinds_end_with_the_same_bits(many: Path) -> None:
    hashes = {
        read(parts(many)[f"capabilities.{kind}/1"] / "summary.json")["final"]["parameters_sha256"]
        for kind in ("multicast", "aggregation", "innetwork")
    }
    assert len(hashes) == 1


def test_islands_in_no_clique_are_idle_and_bytes_are_as_planned(many: Path) -> None:
    summary = read(parts(many)["pairs/1"] / "summary.json")
    assert [row["cliques"][0]["sites"] for row in summary["rounds"]] == [
        ["AMS", "FRA"],
        ["AMS", "LON"],
    ]
    assert summary["cycle"]["exact_mean"] is False
    assert summary["traversals"]["predicted"] == 2.0  # a message each way, over one link
    assert summary["traversals"]["measured"] == pytest.approx(2.0, rel=0.03)


def test_a_manifest_has_the_whole_experiment_and_the_plan(many: Path) -> None:
    manifest = read(parts(many)["rotating_triples.triples/1"] / "manifest.json")
    assert manifest["variant"] == "rotating_triples.triples"
    assert len(manifest["experiment"]["variants"]) == 10
    assert sorted(manifest["plan"]["rank_order"]) == ["AMS", "FRA", "LON"]
    assert manifest["predicted"][0]["predicted_s"] > 0


def test_variants_are_compared(many: Path) -> None:
    comparison = read((many / "runs" / "latest").resolve() / "comparison.json")
    assert len(comparison["variants"]) == 10


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of faults and of background traffic at once, to a target, twice."""
    folder = tmp_path_factory.mktemp("troubled")
    faults, background = example("faults"), example("background")
    data = {
        "topology": "three_city",
        "faults": [*faults["faults"], TOO_LATE],
        "background": background["background"],
        "tenants": background["tenants"],
        "workload": {"preset": "tiny"},
        "local_steps": 5,
        "rounds": 40,
        "target_loss": 3.3,
        "variants": [row for row in faults["variants"] if row["name"] == "innetwork"],
    }
    done = run(folder, {**data, "repetitions": 2})
    assert "Record: " in done.stdout, done.stdout + done.stderr
    return folder


def test_training_goes_on_through_faults_and_ends_at_its_target(troubled: Path) -> None:
    found = parts(troubled)
    assert set(found) == {"innetwork/1", "innetwork/2"}
    for path in found.values():
        summary = read(path / "summary.json")
        assert summary["reasons"] == summary["machine_reasons"]
        assert summary["time_to_target"]["seconds"] > 0
        assert 2 < len(summary["rounds"]) < 40
        assert "AMS-LON was down" in summary["bytes_unjudged"]
        assert "AMS-FRA" not in summary["bytes_unjudged"]


def test_faults_are_events_of_the_record(troubled: Path) -> None:
    events = [row["event"] for row in load_run(parts(troubled)["innetwork/1"]).events]
    assert events.count("fault") == 3
    assert events.count("fault_missed") == 1
    assert "target_reached" in events


def test_background_flows_are_counted_apart(troubled: Path) -> None:
    rows = read(parts(troubled)["innetwork/1"] / "summary.json")["background"]
    assert {(row["source"], row["target"], row["protocol"]) for row in rows} >= {
        ("AMS", "LON", "tcp"),
        ("FRA", "LON", "udp"),
    }
    assert all(row["sent_bytes"] > 0 for row in rows)


def test_repetitions_differ_by_their_seed(troubled: Path) -> None:
    seeds = [read(path / "manifest.json")["seeds"]["training"] for path in parts(troubled).values()]
    assert seeds == [1, 2]
