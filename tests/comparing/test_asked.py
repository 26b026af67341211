from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.comparing.asked import comparison_asked, is_ring, with_ring
from testbed.comparing.merging import merged, without_doubles
from testbed.experiment.file import experiment_of
from testbed.experiment.model import Experiment, Variant
from testbed.experiment.schedule import Schedule
from topologies.errors import UserError
from topologies.files import dump, load


@pytest.fixture(scope="module")
def nine() -> Experiment:
    return comparison_asked("nine_city")


def test_every_kind_is_compared_as_full_clique_and_by_its_best_plan(nine: Experiment) -> None:
    asked = {(x.collective, x.plan.full_clique, x.plan.objective) for x in nine.variants}
    for kind in ("exchange", "multicast", "aggregation", "innetwork"):
        assert (kind, True, None) in asked
        assert (kind, False, "mean") in asked


def test_the_naive_exchange_and_the_best_ring_are_among_them(nine: Experiment) -> None:
    assert any(is_ring(variant) for variant in nine.variants)
    assert any(v.collective == "exchange" and v.plan.full_clique for v in nine.variants)


def test_all_variants_train_the_same_to_the_same_target(nine: Experiment) -> None:
    trained = {(x.workload, x.local_steps, x.target_loss, x.outer) for x in nine.variants}
    assert len(trained) == 1
    assert nine.variants[0].target_loss is not None


def test_another_topology_gets_the_same_emulated_rates(tmp_path: Path) -> None:
    topology = load("three_city")
    fast = replace(topology, name="fast", links=tuple(
        replace(
            link,
            forward=replace(link.forward, rate_mbps=40_000.0),
            backward=replace(link.backward, rate_mbps=40_000.0),
        )
        for link in topology.links
    ))  # fmt: skip
    file = tmp_path / "fast.yaml"
    file.write_text(dump(fast))
    default = comparison_asked("nine_city")
    assert default.rate_scale is not None
    asked = comparison_asked(str(file))
    assert asked.topology == str(file)
    assert asked.rate_scale == pytest.approx(default.rate_scale / 4)  # 40 instead of 10 Gbit/s


def test_what_the_user_sets_wins() -> None:
    asked = comparison_asked("three_city", repetitions=5, rate_scale=0.002, settings=["rounds=2"])
    assert (asked.repetitions, asked.rate_scale) == (5, 0.002)
    assert {variant.rounds for variant in asked.variants} == {2}


def test_a_setting_wins_over_what_a_topology_brings() -> None:
    assert comparison_asked("nine_city", settings=["rate_scale=0.01"]).rate_scale == 0.01


def test_a_variant_that_is_named_twice_runs_once() -> None:
    wanted = comparison_asked("three_city", variants=["multicast", "multicast"])
    assert [variant.name for variant in wanted.variants] == ["multicast", "ring"]


def test_an_experiments_file_is_compared_as_it_is_with_a_ring_added(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ntopology: three_city\nrounds: 3\n"
        "variants:\n  - {name: diloco, collective: exchange, outer: {kind: diloco}}\n"
    )
    asked = comparison_asked(str(file))
    assert [variant.name for variant in asked.variants] == ["diloco", "ring"]
    ring = asked.variants[1]
    assert is_ring(ring)
    assert (ring.rounds, ring.outer.kind) == (3, "diloco")


def test_the_variants_that_are_wanted_come_with_the_ring() -> None:
    asked = comparison_asked("three_city", variants=["multicast"])
    assert [variant.name for variant in asked.variants] == ["multicast", "ring"]
    with pytest.raises(UserError, match="no variant 'telepathy'"):
        comparison_asked("three_city", variants=["telepathy"])


def test_a_ring_that_is_there_is_not_added_again(nine: Experiment) -> None:
    assert with_ring(nine) == nine


def test_a_name_that_is_taken_is_not_given_to_the_ring() -> None:
    row = {"name": "ring", "collective": "exchange"}
    mine = experiment_of({"topology": "three_city", "variants": [row]})
    assert [variant.name for variant in with_ring(mine).variants] == ["ring", "best-ring"]
    taken = [{**row, "name": name} for name in ("ring", "best-ring", "ring-2")]
    yours = experiment_of({"topology": "three_city", "variants": taken})
    assert with_ring(yours).variants[-1].name == "ring-3"


def test_an_accelerator_dies_in_no_comparison_that_has_none(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        "topology: three_city\nfaults: [{at_s: 1, accelerator: AMS}]\n"
        "variants: [{name: a}, {name: b, capability: aggregation}]"
    )
    with pytest.raises(UserError, match="no variant has aggregation"):
        comparison_asked(str(file), variants=["a"])


def test_what_is_no_topology_and_no_file_is_refused() -> None:
    with pytest.raises(UserError, match="atlantis"):
        comparison_asked("atlantis")


def test_the_best_plan_that_is_the_full_clique_is_run_once() -> None:
    # Three cities have no two rounds that come to a mean sooner than one clique.
    asked = comparison_asked("three_city")
    kept = without_doubles(asked)
    kinds = ("exchange", "multicast", "aggregation", "innetwork")
    assert kept.same_as == {f"{kind}-rotating": kind for kind in kinds}
    assert [variant.name for variant in kept.experiment.variants] == [*kinds, "ring"]
    assert "innetwork-rotating" in kept.notes()[-1]


def schedules(by_name: dict[str, str]) -> Callable[[Variant], Schedule]:
    """Give variants of one value the same schedule."""
    return lambda variant: Schedule((), (0,), (by_name[variant.name],), {})


def test_variants_that_differ_in_more_than_their_plan_both_run() -> None:
    rows = [
        {"name": "a", "collective": "exchange", "plan": {"full_clique": True}},
        {"name": "b", "collective": "exchange", "local_steps": 7},
        {"name": "c", "collective": "exchange", "plan": {"objective": "mean"}},
        {"name": "d", "collective": "exchange", "plan": {"full_clique": True}},
    ]
    mine = experiment_of({"topology": "three_city", "variants": rows})
    kept = merged(mine, schedules(dict.fromkeys("abcd", "one")))
    # d is asked for as a is, to see the noise; b computes longer.
    assert kept.same_as == {"c": "a"}
    assert [variant.name for variant in kept.experiment.variants] == ["a", "b", "d"]


def test_plans_that_differ_both_run() -> None:
    rows = [
        {"name": "a", "collective": "exchange", "plan": {"full_clique": True}},
        {"name": "c", "collective": "exchange", "plan": {"objective": "mean"}},
    ]
    mine = experiment_of({"topology": "three_city", "variants": rows})
    assert merged(mine, schedules({"a": "one", "c": "two"})).same_as == {}
