"""Experiment files: what is read, what is filled in, and how a mistake is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
from typer.testing import CliRunner

from schedules.planner import plan
from testbed.experiment.cli import emulate_command, plan_asked
from testbed.experiment.file import (
    experiment_of,
    from_data,
    load_experiment,
    only_variants,
    to_data,
)
from testbed.experiment.model import Experiment, Outer, PlanChoice, Variant, Workload
from testbed.experiment.schema import SCHEMA_FILE, json_schema
from topologies.document import read_yaml
from topologies.errors import UserError
from topologies.files import load

MULTICAST_PLAN = plan(load("three_city"), "multicast", collective="multicast").to_json()
EXAMPLES = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))

LAYERS = "layer,numel,forward_ms,backward_ms\na,7000000,1,2\nb,7000000,1,2\n"
FULL = PlanChoice(full_clique=True)
TWO_VARIANTS = """\
topology: three_city
rounds: 3
outer: {kind: diloco, momentum: 0.8}
workload: {preset: tiny, batch_size: 4}
variants:
  - {name: a}
  - name: b
    collective: exchange
    outer: {kind: mean}
    workload: {batch_size: 2}
"""


def read(folder: Path, text: str, *settings: str) -> Experiment:
    file = folder / "experiment.yaml"
    file.write_text(text)
    return load_experiment(file, settings)


def complaint(folder: Path, text: str, *settings: str) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, text, *settings)
    return str(caught.value).replace(str(folder) + "/", "")


# --- what is read ---------------------------------------------------------------------------------


def test_everything_has_a_default(tmp_path: Path) -> None:
    assert read(tmp_path, "topology: nine_city") == Experiment()


def test_a_file_without_variants_is_one_training_named_after_it(tmp_path: Path) -> None:
    experiment = read(tmp_path, "name: alone\nrounds: 2")
    assert experiment.variants == (Variant(name="alone", rounds=2),)
    assert experiment.is_plain


def test_a_variant_is_laid_over_what_the_file_says(tmp_path: Path) -> None:
    a, b = read(tmp_path, TWO_VARIANTS).variants
    assert (a.rounds, b.rounds) == (3, 3)
    assert a.outer == Outer("diloco", momentum=0.8)
    assert b.outer == Outer("mean")  # another kind takes nothing over
    assert b.workload == Workload(preset="tiny", batch_size=2)  # the same kind does
    assert (a.collective, b.collective) == (None, "exchange")


def test_a_plan_is_replaced_as_a_whole(tmp_path: Path) -> None:
    text = (
        "plan: {objective: fair, clique_size: 2}\nvariants: [{name: a, plan: {full_clique: true}}]"
    )
    (only,) = read(tmp_path, text).variants
    assert only.plan == PlanChoice(full_clique=True)


def test_local_steps_are_ten_or_one_without_an_outer_optimizer(tmp_path: Path) -> None:
    text = "variants: [{name: a}, {name: b, outer: {kind: none}}]"
    assert [one.steps for one in read(tmp_path, text).variants] == [10, 1]


def test_paths_are_those_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "layers.csv").write_text(LAYERS)
    text = "workload: {kind: replay, layers: sub/layers.csv}"
    (only,) = read(tmp_path, text).variants
    assert only.workload.layers == str(tmp_path / "sub" / "layers.csv")


def test_a_topology_may_be_a_file_beside_it(tmp_path: Path) -> None:
    text = (Path(load.__code__.co_filename).parent / "three_city.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text)
    assert read(tmp_path, "topology: mine.yaml").topology == str(tmp_path / "mine.yaml")


def test_an_experiment_survives_its_way_into_a_run(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_VARIANTS)
    assert from_data(json.loads(json.dumps(to_data(experiment)))) == experiment


# --- settings -------------------------------------------------------------------------------------


def test_a_setting_wins_over_file_and_variants(tmp_path: Path) -> None:
    found = read(tmp_path, TWO_VARIANTS, "workload.batch_size=8", "rounds=1", "topology=nine_city")
    assert [one.workload.batch_size for one in found.variants] == [8, 8]
    assert [one.rounds for one in found.variants] == [1, 1]
    assert found.topology == "nine_city"


@pytest.mark.parametrize(
    ("setting", "of_row"),
    [
        ("workload.batch_size=4", lambda one: (one.workload.kind, one.workload.batch_size)),
        ("outer.momentum=0.5", lambda one: (one.outer.kind, one.outer.momentum)),
        ("plan.time_limit_s=3", lambda one: (one.plan.full_clique, one.plan.time_limit_s)),
    ],
)
def test_a_setting_reaches_into_a_row_that_stands_for_itself(
    tmp_path: Path, setting: str, of_row: Callable[[Variant], tuple[Any, Any]]
) -> None:
    row = "{name: a, plan: {full_clique: true}, workload: {kind: digits}, outer: {kind: diloco}}"
    (only,) = read(tmp_path, f"variants: [{row}]", setting).variants
    kind, value = of_row(only)
    assert kind in ("digits", "diloco", True)
    assert value == float(setting.partition("=")[2])


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path, TWO_VARIANTS, "rounds=none").startswith("--set: rounds: 'none'")
    assert "give FIELD=VALUE" in complaint(tmp_path, TWO_VARIANTS, "rounds")


def test_variants_can_be_chosen_by_name(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_VARIANTS)
    assert [one.name for one in only_variants(experiment, ["b"]).variants] == ["b"]
    assert only_variants(experiment, []) == experiment
    with pytest.raises(UserError, match="no variant 'c'; there are a, b"):
        only_variants(experiment, ["c"])


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("rounds: three", 1, "rounds: 'three' does not fit; give a whole number from 1"),
        ("name: a\nround: 3", 2, "round: unknown key; did you mean 'rounds'?"),
        ("workload: {kind: video}", 1, "give one of characters, digits, replay"),
        ("outer:\n  kind: diloco\n  momentun: 0.5", 3, "did you mean 'momentum'?"),
        ("outer: {momentum: 0.5}", 1, "outer.momentum: outer mean has none; only diloco has"),
        ("variants: []", 1, "give a list of variants"),
        ("variants:\n  - {rounds: 3}", 2, "give each variant a name"),
        ("variants:\n  - {name: a}\n  - {name: a}", 3, "a is the name of two variants"),
        ("variants:\n  - {name: a, rounds: 0}", 2, "variants[0].rounds: 0 does not fit"),
        ("variants: [{name: a, seed: 2}]", 1, "variants[0].seed: unknown key"),
        (
            "capability: multicast\ncollective: innetwork",
            2,
            "collective: innetwork is not possible with capability multicast; "
            "it permits exchange, ring, multicast",
        ),
        ("accelerators: {sites: [NYCC]}", 1, "no site 'NYCC' in nine_city; did you mean NYC?"),
        ("plan: {objective: mean, file: p.json}", 1, "plan.file: objective is given too"),
        ("plan: {clique_size: 10}", 1, "plan.clique_size: 10 is more than nine_city has"),
        ("plan: {rounds: [{cliques: [[NYC, LON], [LON, AMS]]}]}", 1, "LON is in the round twice"),
        ("plan: {rounds: [{cliques: [[NYC]]}]}", 1, "a clique of fewer than two"),
        ("faults: [{at_s: 1, link: NYC-SIN, down_s: 1}]", 1, "no link 'NYC-SIN' in nine_city"),
        ("faults: [{at_s: 1, link: NYC-LON}]", 1, "neither goes down nor changes"),
        ("faults: [{at_s: 1, accelerator: NYC}]", 1, "no variant has aggregation"),
        ("background: [{source: NYC, target: NYC}]", 1, "background[0]: "),
        ("tenants: [{sites: [NYC, XYZ], message_mb: 1}]", 1, "tenants[0]: no site 'XYZ'"),
        ("workload: {kind: replay}", 1, "workload.layers: missing"),
        ("workload: {kind: replay, layers: x.csv}", 1, "workload.layers: x.csv: no such file"),
        ("rounds: 1\ntraffic_matrix: x.csv", 2, "traffic_matrix: x.csv: no such file; give a path"),
        ("workload: {kind: digits, preset: tiny}", 1, "workload.preset: digits has no presets"),
        ("overlap_fragments: 2\nouter: {kind: none}", 1, "nothing overlaps with outer none"),
        ("# nothing\n", 1, "file: empty; its top is 'topology: ...'"),
        ("rounds: 2\ntopology: nine_ciy", 2, "topology: nine_ciy: no such topology; did you mean"),
        ("rate_scale: 5000", 1, "rate_scale: 5000 does not fit; give a number above 0, up to 1000"),
        ("rounds: 2\nrate_scale: 0.000001", 2, "rate_scale: AMS>AMS.island, rates scaled: rate_m"),
        ("accelerators: {sites: []}", 1, "accelerators.sites: a list does not fit; give a list of"),
        ("accelerators: {sites: [NYC, NYC]}", 1, "accelerators.sites[1]: NYC is given already"),
        ("background: [{sorce: NYC, target: LON}]", 1, "sorce: unknown key; did you mean 'source'"),
        ("background: [{source: NYC, target: LON, rate_mbps: 0}]", 1, "from 0.001 to 1000000"),
        ("tenants: [{sites: [NYC], message_mb: 1}]", 1, "sites: a list does not fit; give a list"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    said = complaint(tmp_path, text)
    assert said.startswith(f"experiment.yaml:{line}: ")
    assert says in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("full_clique: true", "plan.full_clique: rounds is given too; keep one of them"),
        ("clique_size: 2", "plan.clique_size: rounds is given too"),
        ("max_round_s: 2", "plan.max_round_s: rounds is given too"),
        ("time_limit_s: 2", "plan.time_limit_s: rounds is given too"),
    ],
)
def test_rounds_that_are_given_leave_nothing_to_search(
    tmp_path: Path, more: str, says: str
) -> None:
    given = f"plan: {{rounds: [{{cliques: [[NYC, LON]]}}], {more}}}"
    assert says in complaint(tmp_path, given)


def test_cliques_cannot_be_smaller_than_their_least_size(tmp_path: Path) -> None:
    said = complaint(tmp_path, "plan: {min_clique: 3, max_clique: 2}")
    assert said == (
        "experiment.yaml:1: plan.max_clique: 2 is less than min_clique, 3; give 3 or more"
    )


REPLAY = "workload: {kind: replay, layers: layers.csv%s}"


@pytest.mark.parametrize(
    ("more", "after", "says"),
    [
        ("", "\ntarget_loss: 2", "target_loss: a replay has no loss; leave it out, or train some"),
        (
            "",
            "\noverlap_fragments: 3",
            "overlap_fragments: 3 of the 2 messages that the layers",
        ),
        (", dirichlet_alpha: 1", "", "workload.dirichlet_alpha: replay has none; leave it out"),
        (", batch_size: 2", "", "workload.batch_size: replay has none; leave it out"),
        (", learning_rate: 0.1", "", "workload.learning_rate: replay has none; leave it out"),
    ],
)
def test_a_replay_trains_nothing(tmp_path: Path, more: str, after: str, says: str) -> None:
    (tmp_path / "layers.csv").write_text(LAYERS)
    assert says in complaint(tmp_path, REPLAY % more + after)


@pytest.mark.parametrize(
    ("capability", "more", "says"),
    [
        ("unicast", "", "p.json uses multicast, which capability unicast does not permit; it per"),
        ("multicast", "collective: exchange", "p.json uses multicast, and collective is exchange"),
    ],
)
def test_a_plan_needs_what_the_variant_has(
    tmp_path: Path, capability: str, more: str, says: str
) -> None:
    (tmp_path / "p.json").write_text(MULTICAST_PLAN)
    text = f"topology: three_city\nplan: {{file: p.json}}\ncapability: {capability}\n{more}"
    assert says in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda p: p["ring"].update(order=["AMS", "LON"]), "ring.order lacks FRA"),
        (lambda p: p["rounds"][0].update(trees=[]), "rounds.0 has no tree for AMS"),
        (
            lambda p: p["rounds"][0]["trees"][0].update(hops=[["AMS", "LON"], ["AMS", "AMS"]]),
            "rounds.0.trees.0: no link AMS-AMS",
        ),
    ],
)
def test_a_plan_that_was_edited_by_hand_is_read_with_care(
    tmp_path: Path, spoil: Callable[[Any], None], says: str
) -> None:
    spoilt = json.loads(MULTICAST_PLAN)
    spoil(spoilt)
    (tmp_path / "p.json").write_text(json.dumps(spoilt))
    text = "topology: three_city\nplan: {file: p.json}\ncapability: multicast"
    assert says in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("{at_s: 1, link: AMS-LON, down_s: 1, restore_after_s: 2}", "restore_after_s: only a chan"),
        ("{at_s: 1, link: AMS-LON, down_s: 1, restart_after_s: 2}", "restart_after_s: only an acc"),
        ("{at_s: 1, accelerator: AMS, down_s: 2}", "down_s: only a link goes down"),
        ("{at_s: 1, accelerator: AMS, restore_after_s: 2}", "restore_after_s: only a change is"),
        ("{at_s: 1, accelerator: AMS, change: {loss_pct: 1}}", "change: only a link changes"),
        ("{at_s: 1, link: AMS-LON, change: {}}", "change: nothing changes; name a field such as"),
        (
            "{at_s: 1, link: AMS-LON, change: {jitter_ms: 900}}",
            "change: AMS>LON: jitter_ms 900 is larger than one_way_delay_ms: at most",
        ),
        (
            "{at_s: 1, link: AMS-LON, change: {rate_mbps: 0.1}}",
            "change: AMS>LON: rate_mbps 0.001 is out of range: 0.064 to 10000",
        ),
        (
            "{at_s: 1, link: AMS-LON, change: {rate_mbps: 10}}",
            "change: AMS>LON: queue_ms 50 is shorter than one frame of 9000 bytes",
        ),
    ],
)
def test_a_fault_says_what_can_happen_to_what_it_names(
    tmp_path: Path, fault: str, says: str
) -> None:
    text = f"topology: three_city\ncapability: aggregation\nfaults:\n  - {fault}"
    said = complaint(tmp_path, text)
    assert said.startswith("experiment.yaml:4: faults[0].")
    assert says in said


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("link: AMS-LON, down_s: 5", "link: LON-AMS, down_s: 1"),
        ("link: AMS-LON, change: {loss_pct: 1}", "link: AMS-LON, change: {loss_pct: 2}"),
        ("accelerator: AMS, restart_after_s: 5", "accelerator: AMS"),
    ],
)
def test_one_thing_cannot_fail_twice_at_once(tmp_path: Path, first: str, second: str) -> None:
    head = "topology: three_city\ncapability: aggregation\nfaults:\n"
    rows = f"  - {{at_s: 1, {first}}}\n  - {{at_s: 5, {second}}}"
    said = complaint(tmp_path, head + rows)
    assert said.startswith("experiment.yaml:5: faults[1]: ")
    assert "is still under fault 0" in said


def test_one_thing_may_fail_again_once_it_is_mended(tmp_path: Path) -> None:
    rows = "[{at_s: 1, link: AMS-LON, down_s: 5}, {at_s: 6, link: AMS-LON, down_s: 1}]"
    assert len(read(tmp_path, f"topology: three_city\nfaults: {rows}").faults) == 2


def test_a_link_may_lose_packets_while_it_goes_down(tmp_path: Path) -> None:
    rows = "[{at_s: 1, link: AMS-LON, change: {loss_pct: 1}}, {at_s: 2, link: AMS-LON, down_s: 1}]"
    assert len(read(tmp_path, f"topology: three_city\nfaults: {rows}").faults) == 2


def test_what_is_left_out_is_not_held_against_the_file(tmp_path: Path) -> None:
    text = "topology: three_city\nvariants: [{name: a, outer: {momentum: 0.1}}, {name: b}]"
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    assert [one.name for one in load_experiment(file, [], ["b", "b"]).variants] == ["b"]
    with pytest.raises(UserError, match="outer mean has none"):
        load_experiment(file)


def test_an_accelerator_that_no_chosen_variant_has_cannot_die(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "topology: three_city\nfaults: [{at_s: 1, accelerator: AMS}]\n"
        "variants: [{name: a}, {name: b, capability: aggregation}]"
    )
    assert load_experiment(file).faults
    with pytest.raises(UserError, match="no variant has aggregation"):
        load_experiment(file, [], ["a"])


def test_a_plan_for_another_topology_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(plan(load("three_city"), "unicast").to_json())
    assert complaint(tmp_path, "plan: {file: p.json}") == (
        "experiment.yaml:1: plan.file: p.json is a plan for three_city; make one for nine_city "
        "with `atoll plan nine_city --json`"
    )
    assert read(tmp_path, "topology: three_city\nplan: {file: p.json}").variants[0].plan.file


def test_a_mistake_of_the_command_line_names_the_option() -> None:
    for asked, option in (
        ({"outer": {"kind": "magic"}}, "--outer: "),
        ({"outer": {"kind": "none"}, "local_steps": 5}, "--local-steps: "),
        ({"plan": {"objective": "best"}}, "--objective: "),
        ({"accelerators": {"fan_in": 1}}, "--accelerator-fan-in: "),
        ({"accelerators": {"sites": ["X"]}}, "--accelerators: "),
    ):
        with pytest.raises(UserError) as caught:
            experiment_of(asked)
        assert str(caught.value).startswith(option)


@pytest.mark.parametrize(
    ("asked", "capability", "collective", "plan"),
    [
        ((None, None, None), "unicast", "ring", PlanChoice(full_clique=True)),
        ((None, None, "innetwork"), "multicast+aggregation", "innetwork", FULL),
        (("multicast", None, None), "multicast", None, PlanChoice(objective="mean")),
        ((None, "fair", None), "unicast", None, PlanChoice(objective="fair")),
        (("multicast", "mean", "exchange"), "multicast", "exchange", PlanChoice(objective="mean")),
    ],
)
def test_emulate_is_an_experiment_too(
    asked: tuple[str | None, ...], capability: str, collective: str | None, plan: PlanChoice
) -> None:
    (only,) = experiment_of(
        {key: value for key, value in plan_asked(*asked).items() if value is not None}
    ).variants
    assert (only.capability, only.collective, only.plan) == (capability, collective, plan)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.yaml", "none.yaml: no such experiment; give a file such as"),
        ("trainning.yaml", "training.yaml?"),
        (".", "not a file; give one such as"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "training.yaml").write_text("rounds: 3")
    with pytest.raises(UserError, match=re.escape(says)):
        load_experiment(tmp_path / name)


# --- the published schema, and the examples -------------------------------------------------------


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(json_schema()))
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_says_what_it_asks_and_keeps_to_the_schema(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# ")
    jsonschema.validate(read_yaml(text, file.name).data, json_schema())
    assert load_experiment(file).name == file.stem


def test_a_replay_needs_a_file_which_emulate_has_not() -> None:
    runner = CliRunner()
    app = typer.Typer()
    app.command()(emulate_command)
    asked = runner.invoke(app, ["three_city", "--workload", "replay"])
    assert isinstance(asked.exception, UserError)
    assert str(asked.exception).startswith("--workload: replay needs a list of layers")
