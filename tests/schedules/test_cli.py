"""The commands: what they print, the JSON they write, the one line they answer a mistake with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from schedules.cli import main, progress_text
from schedules.plan import Plan
from schedules.watch import Progress
from testbed.cli import app as atoll


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("\n") == 1
    return caught.err


def test_atoll_has_plan_and_bounds() -> None:
    names = {command.name for command in atoll.registered_commands}
    assert {"plan", "bounds"} <= names


def test_plan_prints_cliques_value_proof_ring_and_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(
        capsys, "plan", "nine_city", "--collective", "exchange", "--no-latency", "--json"
    )
    assert Plan.from_json(text).value_units == pytest.approx(9)
    table = printed(capsys, "plan", "nine_city", "--collective", "exchange", "--no-latency")
    assert "{AMS FRA LON} {BAR LAX NYC} {SEO SIN TYO}" in table
    assert "9 per message time" in table
    assert "proved optimal" in table
    assert "ring of everyone (50.625; this plan is 0.222 times as good)" in table
    assert "multicast and aggregation, access ports" in table


def test_out_writes_the_plan_that_json_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    text = printed(capsys, "plan", "three_city", "--json", "--out", str(file))
    assert Plan.from_json(file.read_text()) == Plan.from_json(text)


def test_compare_has_a_row_for_every_capability(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "plan", "three_city", "--compare", "--json"))["rows"]
    assert len(rows) == 9
    fields = {"capability", "collective", "cliques", "value", "gap_pct", "optimal", "ring_ratio"}
    assert all(fields <= set(row) for row in rows)
    best = {row["capability"]: row["value"] for row in rows if row["collective"] == "best"}
    assert best["unicast"] <= best["multicast"] <= best["multicast+aggregation"]
    table = printed(capsys, "plan", "three_city", "--compare")
    assert "best: innetwork" in table


def test_compare_tells_which_rows_the_limits_forbid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("plan", "three_city", "--compare", "--max-groups", "1")
    rows = json.loads(printed(capsys, *arguments, "--json"))["rows"]
    assert [row["collective"] for row in rows if "infeasible" in row] == [
        "multicast",
        "aggregation",
        "innetwork",
    ]
    # A table may break the reason over lines, but never leaves it out.
    assert printed(capsys, *arguments).count("infeasible") == 3


def test_bounds_prints_every_bound_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "bounds", "nine_city", "--json"))["rows"]
    assert all(row["source"] and row["seconds"] > 0 for row in rows)
    units = {row["name"]: row["units"] for row in rows}
    assert units["multicast and aggregation, access ports"] == pytest.approx(1)
    assert "Patarasuk and Yuan 2009" in printed(capsys, "bounds", "nine_city")


def test_rates_scale_and_messages_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(*more: str) -> float:
        plan = Plan.from_json(printed(capsys, "plan", "three_city", "--json", *more))
        return plan.rounds[0].predicted.transfer_s

    assert seconds("--rate-scale", "0.1") == pytest.approx(10 * seconds())


def test_options_reach_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "--capability multicast+aggregation --accelerators AMS,LON --accelerator-mbps 5000 "
        "--fan-in 2 --max-groups 7 --multicast-links AMS-LON,AMS-FRA "
        "--clique-size 2-3 --max-round-s 90 --compute-s 0.5 "
        "--straggler AMS=2 --message-mb 10 --objective fair"
    )
    plan = Plan.from_json(printed(capsys, "plan", "three_city", "--json", *options.split()))
    offered = plan.capabilities.read()
    assert sorted(offered.accelerators or {}) == ["AMS", "LON"]
    accelerator = (offered.accelerators or {})["AMS"]
    assert (accelerator.rate_mbps, accelerator.fan_in, offered.max_groups) == (5000, 2, 7)
    assert offered.multicast_links == {("AMS", "LON"), ("AMS", "FRA")}
    assert (plan.constraints.min_clique, plan.constraints.max_clique) == (2, 3)
    assert (plan.constraints.max_round_s, plan.constraints.compute_s) == (90, 0.5)
    assert plan.constraints.compute_factor == {"AMS": 2}
    assert (plan.message_bytes, plan.objective) == (1e7, "fair")


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_plot_draws_the_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"plan{ending}"
    printed(capsys, "plan", "three_city", "--capability", "multicast", "--plot", str(file))
    start = file.read_bytes()[:5]
    assert start == (b"\x89PNG\r" if ending == ".png" else b"<?xml")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("atlantis", "atlantis: no such topology"),
        ("nine_city --capability telepathy", "capability 'telepathy' is none of unicast"),
        ("nine_city --collective gossip", "collective 'gossip' is none of exchange"),
        ("nine_city --collective innetwork", "not possible with capability unicast"),
        ("nine_city --objective beauty", "objective 'beauty' is none of exchange"),
        (
            "nine_city --capability aggregation --accelerators PAR",
            "accelerator at PAR: no such site in nine_city",
        ),
        ("nine_city --accelerators NYC", "capability unicast has no aggregation"),
        ("nine_city --fan-in 3", "unicast has no aggregation"),
        ("nine_city --multicast-links LON", "'LON' is not A-B"),
        ("nine_city --multicast-links LON-SIN", "multicast link LON-SIN: no such link"),
        ("nine_city --message-mb 0", "message of 0 bytes"),
        ("nine_city --message-mb nan", "message of nan bytes"),
        ("nine_city --rate-scale 0", "--rate-scale 0 is not above zero"),
        ("nine_city --clique-size few", "--clique-size 'few' is neither"),
        ("nine_city --clique-size 5-3", "--clique-size 5-3: 3 is below 5"),
        ("nine_city --clique-size 10", "--clique-size from 10 is above the 9 islands"),
        ("nine_city --compute-s 1 --straggler NYC", "--straggler 'NYC' is not SITE=FACTOR"),
        ("nine_city --compute-s 1 --straggler PAR=2", "--straggler: PAR is no site"),
        ("nine_city --compute-s 1 --straggler NYC=2 --straggler NYC=3", "NYC is 2 already"),
        ("nine_city --message-mb 1e300", "message of 1e+306 bytes: it must be above zero, and at"),
        ("nine_city --straggler NYC=2", "--straggler needs --compute-s"),
        ("three_city --max-round-s 0.1", "--max-round-s 0.1 cannot be kept"),
        ("nine_city --time-limit-s 0", "--time-limit-s 0 is not above zero"),
        ("nine_city --plot plan.bmp", "plan.bmp: no such picture format"),
        ("nine_city --compare --collective ring", "--compare takes no"),
        ("three_city --out /nowhere/plan.json", "/nowhere/plan.json: cannot be written"),
        ("nine_city --beautiful", "No such option: --beautiful"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], options: str, told: str
) -> None:
    assert told in complaint(capsys, "plan", *options.split())


def test_a_file_of_a_disconnected_network_is_refused_before_planning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "apart.yaml"
    file.write_text(
        "name: apart\nsource: a test\nlicence: none\n"
        "defaults: {link: {rate_mbps: 100, one_way_delay_ms: 1}, access: {rate_mbps: 100}}\n"
        "sites:\n"
        + "".join(
            f"  - {{code: {code}, city: {code}, latitude: 1, longitude: {n}}}\n"
            for n, code in enumerate(["AA", "BB", "CC", "DD"])
        )
        + "links: [{a: AA, b: BB}, {a: CC, b: DD}]\n"
    )
    for command in ("plan", "bounds"):
        text = complaint(capsys, command, str(file))
        assert "AA" in text
        assert "CC" in text


def test_bounds_refuses_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert "message of -1" in complaint(capsys, "bounds", "nine_city", "--message-mb", "-1e-6")


def test_progress_says_how_far_how_good_and_how_long() -> None:
    line = progress_text(Progress("comparing cycles", 120, 4000, 3.2, 12.0, 4.25))
    assert line == "comparing cycles 120 of 4,000, gap at most 4.25 %, 3 s so far, 12 s left"


def test_the_documented_example_prints_what_the_document_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", document, flags=re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", document, flags=re.DOTALL)
    exec(compile(code, "docs/schedules.md", "exec"), {})
    assert capsys.readouterr().out == output


@pytest.mark.parametrize("option", ["--plot", "--out"])
def test_a_file_that_cannot_be_written_is_refused_before_the_search(
    capsys: pytest.CaptureFixture[str], option: str, tmp_path: Path
) -> None:
    there = str(tmp_path / "nowhere" / "plan.png")
    assert f"{option} {there}: cannot be written" in complaint(capsys, "plan", "b4", option, there)
    assert "cannot be written" in complaint(capsys, "plan", "b4", option, str(tmp_path))


def test_every_site_may_be_named_by_one_word_and_no_site_by_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("plan", "three_city", "--capability", "aggregation", "--json", "--accelerators")
    everywhere = Plan.from_json(printed(capsys, *words, "all"))
    assert everywhere.capabilities.accelerators is None
    assert "--accelerators ''" in complaint(capsys, *words, "")
