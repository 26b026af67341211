import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from rich.console import Console

import testbed.comparing
from testbed.comparing.compare import compare, write_comparison
from testbed.comparing.table import closing_lines, print_comparison
from topologies.errors import UserError

if TYPE_CHECKING:
    from tests.comparing.conftest import Experiment

SCHEMA = Path(testbed.comparing.__file__).parent / "comparison.schema.json"


def printed(experiment: "Experiment") -> str:
    console = Console(width=110, file=io.StringIO())
    print_comparison(console, compare(experiment.path))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_medians_and_intervals_are_those_of_the_repetitions(usual: "Experiment") -> None:
    found = compare(usual.path).variant("pairs").metrics
    assert found["seconds_per_cycle"].values == (3.0, 3.3, 2.7)
    assert (found["seconds_per_cycle"].low, found["seconds_per_cycle"].high) == (2.7, 3.3)
    assert found["time_to_target_s"].median == 30.0
    assert found["round_s"].median == pytest.approx(3.0 / 2 + 1)
    assert found["ratio"].median == 1.25


def test_bytes_are_those_of_a_whole_cycle_on_wan_links(usual: "Experiment") -> None:
    comparison = compare(usual.path)
    # Two rounds with 100 and 200 bytes; one round with 100.
    assert comparison.variant("pairs").metrics["wan_bytes"].median == 300
    assert comparison.variant("pairs").link_bytes == {"AMS>FRA": 300}
    assert comparison.variant("exchange").metrics["wan_bytes"].median == 100


def test_variants_keep_the_order_of_the_experiment(usual: "Experiment") -> None:
    assert [x.name for x in compare(usual.path).variants] == ["exchange", "ring", "pairs", "both"]


def test_the_references_are_found_by_their_plans(usual: "Experiment") -> None:
    comparison = compare(usual.path)
    assert (comparison.naive, comparison.ring) == ("exchange", "ring")
    assert comparison.variant("pairs").plan == "2 rounds of 2"
    assert comparison.variant("both").plan == "one clique of 3"


def test_ratios_are_of_the_runs_of_one_repetition(usual: "Experiment") -> None:
    found = compare(usual.path).pair("both", "exchange", "seconds_per_cycle")
    assert found is not None
    assert found.ratio == pytest.approx(1 / 6)
    assert found.within_noise is False
    assert found.pairs == 3


def test_the_best_plan_and_the_full_clique_of_a_collective_are_set_against_each_other(
    experiment: "Experiment",
) -> None:
    experiment.variant("full", [4.0], collective="multicast")
    experiment.variant("rotating", [2.0], collective="multicast", rounds=[[["AMS", "FRA"]]] * 2)
    found = compare(experiment.path).pair("full", "rotating", "seconds_per_cycle")
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    back = compare(experiment.path).pair("rotating", "full", "seconds_per_cycle")
    assert back is not None
    assert back.ratio == pytest.approx(0.5)
    lines = " ".join(closing_lines(compare(experiment.path)))
    assert "rotating (2 rounds of 2) takes 0.50 times as long to a mean as full" in lines
    assert "rotating wins" in lines


def test_an_interval_is_turned_round_with_its_ratio(usual: "Experiment") -> None:
    there = compare(usual.path).pair("pairs", "exchange", "seconds_per_cycle")
    back = compare(usual.path).pair("exchange", "pairs", "seconds_per_cycle")
    assert there is not None
    assert back is not None
    assert there.low is not None
    assert back.high == pytest.approx(1 / there.low)


def test_both_speed_ups_are_printed(usual: "Experiment") -> None:
    text = printed(usual)
    assert "both, a mean: 6.00 x over the naive exchange and 2.00 x over the best ring." in text
    assert "both, to the target: 6.00 x over the naive exchange" in text
    assert "75 of 100" in text
    assert "as predicted, none inverted" in text


def test_a_difference_within_the_noise_is_marked(experiment: "Experiment") -> None:
    experiment.variant("exchange", [6.0, 6.5, 5.5])
    experiment.variant("ring", [5.8, 6.9, 5.4], collective="ring")
    assert "~" in printed(experiment)


def test_figures_of_invalid_runs_are_left_out_and_named(experiment: "Experiment") -> None:
    experiment.variant("exchange", [6.0, 60.0, 6.2], invalid=[2])
    experiment.variant("ring", [2.0, 2.0, 2.0], collective="ring")
    comparison = compare(experiment.path)
    assert comparison.variant("exchange").metrics["seconds_per_cycle"].values == (6.0, 6.2)
    assert comparison.repetitions == 2
    assert comparison.valid
    pair = comparison.pair("exchange", "ring", "seconds_per_cycle")
    assert pair is not None
    assert pair.pairs == 2
    lines = list(closing_lines(comparison))
    assert "INVALID, left out: variants/exchange/2: the machine was busy" in lines


def test_a_variant_without_a_valid_run_is_shown_and_must_not_be_cited(
    experiment: "Experiment",
) -> None:
    experiment.variant("exchange", [6.0], invalid=[1])
    comparison = compare(experiment.path)
    assert not comparison.valid
    assert comparison.variant("exchange").metrics["seconds_per_cycle"].median == 6.0
    assert "exchange has no valid run" in "\n".join(closing_lines(comparison))


def test_a_target_that_was_never_reached_is_null_and_said(experiment: "Experiment") -> None:
    experiment.variant("exchange", [6.0, 6.0, 6.0], targets=[None, None, 50.0])
    written = write_comparison(experiment.path).to_json()
    found = written["variants"][0]["metrics"]["time_to_target_s"]
    assert found["median"] is None
    assert found["values"] == [None, None, 50.0]
    assert "never" in printed(experiment)


def test_without_a_target_there_is_no_time_to_it(experiment: "Experiment") -> None:
    experiment.variant("exchange", [6.0], asked=False)
    comparison = compare(experiment.path)
    assert comparison.target_loss is None
    assert "time_to_target_s" not in comparison.variant("exchange").metrics


def test_an_inverted_order_is_told(experiment: "Experiment") -> None:
    experiment.variant("a", [6.0, 6.0, 6.0])
    experiment.variant("b", [5.0, 5.0, 5.0], collective="ring")
    for number in (1, 2, 3):
        file = experiment.path / "variants" / "b" / str(number) / "summary.json"
        changed = json.loads(file.read_text())
        changed["cycle"]["predicted_s"] = 13.2
        file.write_text(json.dumps(changed))
    text = " ".join(printed(experiment).split())
    assert "ORDER INVERTED: b was predicted to take 2.00 times as long as a and took 0.83" in text


def test_what_is_written_keeps_to_its_schema(usual: "Experiment") -> None:
    usual.variant("lost", [4.0], targets=[None])
    write_comparison(usual.path)
    written = json.loads((usual.path / "comparison.json").read_text())
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(written, schema)
    assert written["target_loss"] == 3.5


def test_a_run_that_did_not_come_to_a_summary_is_no_figure(usual: "Experiment") -> None:
    (usual.path / "variants" / "ring" / "3" / "summary.json").unlink()
    comparison = compare(usual.path)
    assert len(comparison.variant("ring").figures) == 2
    assert len(comparison.variant("ring").runs) == 3


def test_a_plain_run_has_nothing_to_compare(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="no variants to compare"):
        compare(tmp_path)
