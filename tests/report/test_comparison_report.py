"""The report of a comparison, of a record whose every figure is known."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from testbed.report.comparison import describe, judge, key_figures, write_comparison_report
from testbed.report.comparison_tables import heat_table, inversion_lines, metric_table, pair_table
from testbed.report.headline import BAD, GOOD, OPEN
from testbed.report.variants import ComparisonView, view_comparison
from topologies.errors import UserError

from .records import write_compared

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_compared(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def view(record: Path) -> ComparisonView:
    return view_comparison(record)


def changed(record: Path, tmp_path: Path, **fields: object) -> ComparisonView:
    data = json.loads((record / "comparison.json").read_text())
    (tmp_path / "comparison.json").write_text(json.dumps(data | fields))
    return view_comparison(tmp_path)


def test_the_best_variant_leads_and_is_held_against_the_ring(view: ComparisonView) -> None:
    assert describe(view) == "2 variants on three_city, run 3 times each, in turn."
    facts = {fact.label: (fact.value, fact.note) for fact in key_figures(view)}
    # 61.5 s and 1, 2, 3 hundredths: the median is 62.73 s. Every ring takes half as long again.
    assert facts["Time to target, best"] == (f"62.7{THIN}s", "pairs, to a held-out loss of 3.00")
    value, note = facts["Speed-up over best ring"]
    assert value == f"1.50{THIN}\N{MULTIPLICATION SIGN}"
    assert note.startswith("pairs against ring")
    assert "Speed-up over naive exchange" not in facts


def test_a_comparison_is_valid_where_every_variant_is(
    view: ComparisonView, record: Path, tmp_path: Path
) -> None:
    assert judge(view).kind == GOOD
    data = json.loads((record / "comparison.json").read_text())
    data["variants"][1] |= {"valid": False}
    data["variants"][1]["runs"][0] |= {"valid": False, "reasons": ["steal", "late"]}
    found = judge(changed(record, tmp_path, variants=data["variants"]))
    assert found.kind == BAD
    assert found.reasons == ("ring, repetition 1: steal; and 1 more",)


def test_a_comparison_that_leaves_runs_out_says_how_many(record: Path, tmp_path: Path) -> None:
    data = json.loads((record / "comparison.json").read_text())
    runs = sum(len(one["runs"]) for one in data["variants"])
    data["variants"][1]["runs"][0] |= {"valid": False, "reasons": ["steal"]}
    found = judge(changed(record, tmp_path, variants=data["variants"]))
    assert (found.kind, found.word) == (OPEN, f"Valid by {runs - 1} of {runs} runs")
    assert found.reasons[-1] == "Left out: ring, repetition 1: steal"


def test_a_target_that_was_never_reached_is_said_so(record: Path, tmp_path: Path) -> None:
    data = json.loads((record / "comparison.json").read_text())
    never = {"median": None, "low": 70.0, "high": None, "values": [70.0, None, None]}
    data["variants"][0]["metrics"]["time_to_target_s"] = never
    found = changed(record, tmp_path, variants=data["variants"])
    place = metric_table(found).columns.index("time to target")
    assert metric_table(found).rows[0][place] == "not reached"
    best = found.best()
    assert best is not None
    assert best.name == "ring"


def test_pairs_say_whether_a_difference_is_noise(record: Path, tmp_path: Path) -> None:
    base = {"a": "x", "b": "y", "metric": "round_s", "ratio": 0.9, "low": 0.8, "high": 1.1}
    pairs = [base | {"within_noise": noise} for noise in (True, False, None)]
    found = pair_table(changed(record, tmp_path, pairs=pairs))
    assert [row[-1] for row in found.rows] == [
        "within the noise",
        "beyond the noise",
        "too few to say",
    ]
    assert found.rows[0][:3] == ("x", "y", "round")


def test_an_inverted_order_is_a_line(record: Path, tmp_path: Path) -> None:
    inverted = [
        {
            "faster": "a",
            "slower": "b",
            "predicted_ratio": 1.2,
            "measured_ratio": 0.9,
            "within_noise": True,
        }
    ]
    found = inversion_lines(changed(record, tmp_path, order={"metric": "m", "inverted": inverted}))
    assert found == [
        "a was predicted to be faster than b (1.20 times), and was measured 0.900 times as fast, "
        "which is within the noise."
    ]


def test_bytes_are_by_direction_and_variant(view: ComparisonView) -> None:
    heat = heat_table(view)
    assert heat is not None
    assert heat.columns == ("pairs", "ring")
    rows = dict(heat.rows)
    # Pairs: AMS and FRA 5 MB each way in a round; FRA and LON in the other, by way of AMS.
    assert rows["AMS>FRA"] == ((f"10.0{THIN}MB", 100), (f"10.0{THIN}MB", 100))
    assert rows["LON>AMS"] == ((f"5.00{THIN}MB", 50), (f"10.0{THIN}MB", 100))


def test_the_page_links_to_the_reports_that_are_there(record: Path) -> None:
    (record / "variants" / "ring" / "2" / "report.html").write_text("<!DOCTYPE html>")
    text = write_comparison_report(record).read_text()
    assert 'href="variants/ring/2/report.html"' in text
    assert 'href="variants/pairs/1/report.html"' not in text
    for name in (
        "compared_time_to_target_s",
        "compared_loss_by_time",
        "compared_wan_bytes",
        "lateness",
    ):
        assert f'id="{name}"' in text
        assert (record / "plots" / f"{name}.png").is_file()
    assert text.count('class="plan-round"') == 3
    with (record / "comparison.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "time_to_target_s"]
    assert [row["variant"] for row in rows] == ["pairs"] * 3 + ["ring"] * 3
    assert float(rows[0]["value"]) == pytest.approx(61.5 * 1.01)


def test_a_record_without_a_comparison_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no comparison\.json: compare its variants first"):
        write_comparison_report(tmp_path)
