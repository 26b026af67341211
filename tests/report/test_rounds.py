from __future__ import annotations

from testbed.report.phases import COMPUTE, EXCHANGE, WAIT, Phase, phases_of, shares
from testbed.report.rounds import (
    Clique,
    column,
    elapsed_s,
    planned_rounds,
    rounds_of,
    sent_bytes,
)
from testbed.report.timeline import fault_spans
from topologies.files import load

from .records import ORIGIN_S, TRIPLES, Record

RECORD = Record(load("nine_city"), TRIPLES, 6)


def nine_rounds() -> list[dict[str, object]]:
    return RECORD.rounds()


def test_a_row_tells_its_cliques_itself() -> None:
    rounds = rounds_of(nine_rounds(), {}, ())
    assert [clique.sites for clique in rounds[2].cliques] == [("AMS", "NYC"), ("LAX", "TYO")]
    assert rounds[2].kinds == ("exchange",)
    assert rounds[5].plan_round == 2


def test_without_cliques_in_the_row_they_are_those_of_the_plans_cycle() -> None:
    rows = [{"round": n, "start": 0.0, "end": 1.0} for n in range(3)]
    plan = {
        "rounds": [
            {"cliques": [["A", "B"], ["C"]], "collective": "ring"},
            {"cliques": [["B", "C"]], "collective": "multicast"},
        ],
        "cycle": [1, 0],
    }
    rounds = rounds_of(rows, {"plan": plan}, ("A", "B", "C"))
    assert [one.plan_round for one in rounds] == [1, 0, 1]
    assert rounds[0].cliques == (Clique(("B", "C"), "multicast"),)
    assert rounds[1].cliques == (Clique(("A", "B"), "ring"),)
    assert planned_rounds({"plan": plan})[0] == (Clique(("A", "B"), "ring"),)


def test_without_plan_and_cliques_everybody_exchanged() -> None:
    (one,) = rounds_of([{"round": 0, "start": 0.0, "end": 1.0}], {}, ("A", "B"))
    assert [clique.sites for clique in one.cliques] == [("A", "B")]


def test_an_idle_round_has_no_cliques() -> None:
    (one,) = rounds_of([{"round": 0, "start": 0.0, "end": 1.0, "cliques": []}], {}, ("A", "B"))
    assert one.cliques == ()


def test_null_and_unfinished_figures_are_none() -> None:
    rows = [
        {"round": 0, "start": 0.0, "end": 1.0, "train_loss": None, "sync_s": 0.5},
        {"round": 1, "start": 1.0},
    ]
    rounds = rounds_of(rows, {}, ())
    assert len(rounds) == 1
    assert column(rounds, "train_loss") == [None]
    assert column(rounds, "sync_s") == [0.5]


def test_bytes_count_only_links_between_cities() -> None:
    rows = [
        {"round": n, "start": n, "end": n + 1.0, "link_bytes": {"A>B": 5, "A.island>A": 9}}
        for n in range(2)
    ]
    rounds = rounds_of(rows, {}, ())
    assert sent_bytes(rounds) == [5, 10]
    assert elapsed_s(rounds) == [1.0, 2.0]


# --- phases ---------------------------------------------------------------------------------------


def worker(site: str, *numbers: int) -> list[dict[str, object]]:
    return [RECORD.worker_round(site, number) for number in numbers]


def test_a_worker_waits_for_the_slowest_of_its_clique_and_for_nobody_else() -> None:
    workers = {site: worker(site, 0) for site in RECORD.topology.codes}
    rounds = rounds_of(nine_rounds(), {}, ())
    ams = [phase for phase in phases_of(workers, rounds) if phase.site == "AMS"]
    # AMS computes 4.0 s; LON, the fifth of the cities and the slowest of its three, 4.4 s.
    assert [
        (p.kind, round(p.start_s - ORIGIN_S, 3), round(p.end_s - ORIGIN_S, 3)) for p in ams
    ] == [
        (COMPUTE, 0.0, 4.0),
        (WAIT, 4.0, 4.4),
        (EXCHANGE, 4.4, 6.4),
    ]


def test_the_slowest_does_not_wait() -> None:
    workers = {site: worker(site, 0) for site in ("AMS", "FRA", "LON")}
    rounds = rounds_of(nine_rounds(), {}, ())
    assert WAIT not in {p.kind for p in phases_of(workers, rounds) if p.site == "LON"}


def test_an_idle_island_only_computes() -> None:
    workers = {site: worker(site, 2) for site in RECORD.topology.codes}
    rounds = rounds_of(nine_rounds(), {}, ())
    assert [p.kind for p in phases_of(workers, rounds) if p.site == "BAR"] == [COMPUTE]


def test_a_round_that_only_some_finished_is_shown_with_everybody_as_its_clique() -> None:
    workers = {"AMS": worker("AMS", 0), "FRA": worker("FRA", 0), "LON": []}
    phases = phases_of(workers, [])
    assert {p.site for p in phases} == {"AMS", "FRA"}
    waits = [p for p in phases if p.kind == WAIT]
    assert [(p.site, round(p.seconds, 3)) for p in waits] == [("AMS", 0.2)]


def test_fragments_are_exchanges_of_their_own() -> None:
    row = worker("AMS", 0)[0] | {
        "fragments": [{"start": 1.0, "end": 2.0}, {"start": 2.5, "end": 3}]
    }
    found = [p for p in phases_of({"AMS": [row]}, []) if p.kind == EXCHANGE]
    assert [(p.start_s, p.end_s) for p in found] == [(1.0, 2.0), (2.5, 3.0)]


def test_shares_add_up_each_kind() -> None:
    phases = [Phase("A", 0, COMPUTE, 0, 2), Phase("A", 1, COMPUTE, 3, 4), Phase("A", 0, WAIT, 2, 3)]
    assert shares(phases) == {"A": {COMPUTE: 3, WAIT: 1, EXCHANGE: 0}}


def test_a_fault_lasts_until_the_same_is_over_or_to_the_end() -> None:
    events = [
        {"time": 1.0, "event": "fault", "link": "A-B"},
        {"time": 2.0, "event": "fault", "accelerator": "A"},
        {"time": 3.0, "event": "fault_over", "link": "A-B"},
    ]
    assert fault_spans(events, 9.0) == [(1.0, 3.0), (2.0, 9.0)]
