import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import cli
from testbed.launch import default_rate_scale
from topologies.files import load


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    sys.argv = ["atoll", *words]
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["emulate", "nin_city"], "did you mean 'nine_city'"),
        (["emulate", "nine_city", "--rate-scale", "-1"], "--rate-scale"),
        (["emulate", "nine_city", "--rate-scale", "nan"], "--rate-scale"),
        (["emulate", "nine_city", "--links", "wet string"], "netem, linkd"),
        (["emulate", "nine_city", "--datapath", "wet string"], "kernel, userspace"),
        (["emulate", "nine_city", "--rounds", "0"], "--rounds"),
        (["emulate", "nine_city", "--outer", "magic"], "mean, diloco, none"),
        (["emulate", "nine_city", "--outer", "none", "--local-steps", "5"], "--local-steps"),
        (["emulate", "nine_city", "--congestion-control", "magic"], "--congestion-control"),
        (["emulate", "nine_city", "--frobnicate"], "--frobnicate"),
        (["emulate", "three_city", "--workload", "video"], "characters, digits, replay"),
        (
            ["emulate", "three_city", "--capability", "unicast", "--collective", "innetwork"],
            "it permits exchange, ring",
        ),
        (["run", "no-such-experiment.yaml"], "no such experiment"),
        (["frobnicate"], "frobnicate"),
        (["clean", "no-such-run"], "no-such-run"),
        (["exec", "NYC", "--run", "no-such-run", "--", "true"], "no-such-run"),
        (["topology", "check", "no-such-file.yaml"], "no-such-file.yaml"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2
    assert out == ""
    assert err.startswith("atoll: ")
    assert says in err
    assert len(err.splitlines()) == 1


FILE = """\
name: two
source: a test
licence: CC0-1.0
defaults: {access: {rate_mbps: 1000}}
sites:
  - {code: AAA, city: Aarau, latitude: 47.39, longitude: 8.04}
  - {code: BBB, city: Berne, latitude: 46.95, longitude: 7.45}
links:
  - {a: AAA, b: BBB, LINK}
"""


@pytest.mark.parametrize(
    ("link", "field"),
    [
        ("rate_mbps: 10Gbps, one_way_delay_ms: 5", "rate_mbps"),
        ("rate_mbps: fast, one_way_delay_ms: 5", "rate_mbps"),
        ("rate_mbps: 0.01, one_way_delay_ms: 5", "rate_mbps"),
        ("rate_mbps: .nan, one_way_delay_ms: 5", "rate_mbps"),
        ("rate_mbps: 100, one_way_delay_ms: 5ms", "one_way_delay_ms"),
        ("rate_mbps: 100, one_way_delay_ms: -1", "one_way_delay_ms"),
        ("rate_mbps: 100, one_way_delay_ms: 5, loss_pct: 101", "loss_pct"),
        ("rate_mbps: 100, one_way_delay_ms: 5, loss_pct: 1%", "loss_pct"),
        ("rate_mbps: 100, one_way_delay_ms: 5, jitter_ms: 6", "jitter_ms"),
        ("rate_mbps: 100, one_way_delay_ms: 5, queue_ms: 0.5", "queue_ms"),
        ("rate_mbps: 100, one_way_delay_ms: 5, loss_burst_packets: 4", "loss_pct"),
        ("rate_mbps: 100, one_way_delay_ms: 5, duplicate_pct: 1%", "duplicate_pct"),
        ("rate_mbps: 100, one_way_delay_ms: 5, corrupt_pct: 200", "corrupt_pct"),
    ],
)
def test_a_link_that_cannot_be_is_one_line_with_its_field_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, link: str, field: str
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(FILE.replace("LINK", link))
    code, out, err = run(capsys, "topology", "check", str(file))
    assert (code, out) == (2, "")
    assert err.startswith(f"atoll: {file}:9: links[0].{field}: ")
    assert len(err.splitlines()) == 1


def test_a_queue_that_is_too_short_once_rates_are_scaled_is_refused_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # A packet takes 0.07 ms at 1 Gbit/s, and 7.2 ms at the 10 Mbit/s of this scale.
    file = tmp_path / "two.yaml"
    link = "rate_mbps: 1000, one_way_delay_ms: 5, queue_ms: 1"
    file.write_text(FILE.replace("LINK", link))
    assert run(capsys, "topology", "check", str(file))[0] == 0
    code, _, err = run(capsys, "emulate", str(file), "--rate-scale", "0.01")
    assert code == 2
    assert "AAA>BBB, rates scaled: queue_ms 1 is shorter than one frame" in err
    assert len(err.splitlines()) == 1


def test_a_good_file_is_said_to_be_good(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "topology", "check", "nine_city")
    assert code == 0
    assert out.strip() == "nine_city: 9 sites, 11 links, nothing wrong"


def test_bundled_topologies_are_listed_with_their_size(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "topology", "list", "--json")
    sizes = {row["name"]: (row["sites"], row["links"]) for row in json.loads(out)["rows"]}
    assert sizes["nine_city"] == (9, 11)
    assert sizes["netstorm_nine"] == (9, 13)
    assert sizes["abilene"] == (11, 14)
    assert sizes["b4"] == (12, 19)


def test_the_doctor_tells_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "doctor", "--json")
    report = json.loads(out)
    assert code == (0 if report["can_emulate"] else 1)
    assert {row["status"] for row in report["rows"]} <= {"ok", "warn", "missing"}


@pytest.mark.parametrize(
    ("name", "scale"), [("nine_city", 0.01), ("abilene", 0.01), ("netstorm_nine", 1.0)]
)
def test_links_run_at_up_to_200_mbps_by_default(name: str, scale: float) -> None:
    assert default_rate_scale(load(name)) == pytest.approx(scale)


def test_an_application_that_python_cannot_read_is_refused_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import os\ndef (:\n")
    code, _, err = run(capsys, "up", "three_city", "--controller", str(broken))
    assert code == 2
    assert f"{broken}:2: " in err
    assert len(err.splitlines()) == 1


HEAVY = {"matplotlib", "networkx", "numpy", "pydantic", "scipy", "torch"}


@pytest.mark.parametrize(
    ("modules", "needed"),
    [
        ("testbed.cli", set()),  # which is all that `atoll --help` needs
        ("testbed.watching.view, testbed.watching.live", {"networkx", "pydantic"}),
    ],
)
def test_what_is_quickly_done_waits_for_nothing_heavy_to_load(
    modules: str, needed: set[str]
) -> None:
    words = [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert HEAVY & set(loaded.split()) <= needed
