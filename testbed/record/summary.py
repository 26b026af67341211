"""What came of a run, worked out from its records alone; no input or output here.

The summary says whether the run is *valid*, and if not, why (`testbed.record.validity`). A figure
of an invalid run must not be cited.

Payload is taken from counters as bytes minus one header of 66 bytes a frame (see
`measure.predict`), so it includes retransmissions and excludes acknowledgements.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from testbed.experiment.background_load import BackgroundLoad
from testbed.measure.planned import RoundPlan
from testbed.measure.predict import ExpectedBytes, payload_estimate, traversals
from testbed.measure.reach import Reachability
from testbed.measure.series import Counts, traffic_between
from testbed.measure.windows import WorkerRow
from testbed.record.evidence import (
    Evidence,
    Row,
    error_pct,
    finished_rounds,
    mean_over,
    ratio,
)
from testbed.record.validity import PAYLOAD_TOLERANCE, ends_of, invalid_reasons, machine_reasons
from topologies.model import Direction

FORMAT = 1

Summary = dict[str, Any]


def summarize(evidence: Evidence) -> Summary:
    """Return the summary of a run, ready to be written as JSON."""
    rounds = finished_rounds(evidence)
    link_bytes = _link_bytes(evidence)
    reasons = invalid_reasons(evidence, link_bytes)
    return {
        "format": FORMAT,
        "valid": not reasons,
        "reasons": reasons,
        "machine_reasons": machine_reasons(evidence, link_bytes),
        "islands": len(evidence.sites),
        "message_bytes": evidence.message_bytes,
        "rounds": rounds,
        "collective": _collective(evidence, rounds),
        "prediction": _prediction(evidence, rounds),
        "cycle": _cycle(evidence, rounds),
        "link_bytes": link_bytes,
        "bytes_unjudged": evidence.unjudged or None,
        "traversals": _traversals(evidence, link_bytes, len(rounds)),
        "training_loss": _first_and_last(rounds, "train_loss"),
        "held_out_loss": _first_and_last(rounds, "held_out_loss"),
        "loss_unit": _loss_unit(evidence),
        "consensus_distance": _first_and_last(rounds, "consensus_distance"),
        "time_to_target": _time_to_target(evidence, rounds),
        "final": _final(evidence),
        "parameters_sha256": _common_hash(_ends_field(evidence, "parameters_sha256")),
        "peak_memory_bytes": _ends_field(evidence, "peak_rss_bytes"),
        "round_trips": None if evidence.reach is None else round_trips(evidence.reach),
        "cross_check": [{**asdict(row), "agree": row.agree} for row in evidence.cross_check],
    }


# --- times ----------------------------------------------------------------------------------------


def _collective(evidence: Evidence, rounds: Sequence[Row]) -> dict[str, Any]:
    """Return the median round against the bound; of several kinds of rounds, over all of them."""
    bounds = [evidence.rounds[place].bound for place in evidence.cycle]
    statements = list(dict.fromkeys(bound.statement for bound in bounds))
    ratios = [row["ratio"] for row in rounds if row["ratio"] is not None]
    return {
        "median_s": _median([row["sync_s"] for row in rounds]),
        "bound_s": statistics.mean(bound.total_s for bound in bounds),
        "bound_transfer_s": statistics.mean(bound.transfer_s for bound in bounds),
        "bound_latency_s": statistics.mean(bound.latency_s for bound in bounds),
        "bound_statement": "; ".join(statements),
        "ratio": _median(ratios),
    }


def _prediction(evidence: Evidence, rounds: Sequence[Row]) -> dict[str, Any]:
    """Return for each of the schedule's rounds what it was to take and what it took."""
    rows = [
        _prediction_row(number, plan, [row for row in rounds if row["plan_round"] == number])
        for number, plan in enumerate(evidence.rounds)
    ]
    errors = [abs(row["error_pct"]) for row in rows if row["error_pct"] is not None]
    return {"rows": rows, "mean_abs_error_pct": statistics.mean(errors) if errors else None}


def _prediction_row(number: int, plan: RoundPlan, rounds: Sequence[Row]) -> dict[str, Any]:
    """Return a round's row; its first time counts only where there is no other."""
    counted = rounds[1:] or rounds
    predicted_s = counted[0]["predicted_s"] if counted else plan.predicted_s
    median_s = _median([row["sync_s"] for row in counted])
    return {
        "plan_round": number,
        "kind": plan.kind,
        "predicted_s": predicted_s,
        "median_s": median_s,
        "error_pct": error_pct(median_s, predicted_s),
    }


def _cycle(evidence: Evidence, rounds: Sequence[Row]) -> dict[str, Any]:
    """Return what one pass through all rounds was to take and took, computing left out.

    The first pass counts only where there is no other: connections are new in it, and islands
    begin a training at different moments.
    """
    length = len(evidence.cycle)
    passes = [rounds[at : at + length] for at in range(0, len(rounds) - length + 1, length)]
    counted = passes[1:] or passes
    predicted_s = sum(evidence.rounds[place].predicted_s for place in evidence.cycle)
    if len(passes) == 1:
        predicted_s = sum(row["predicted_s"] for row in passes[0])
    median_s = _median([sum(row["sync_s"] for row in one) for one in counted])
    return {
        "rounds": length,
        "passes": len(counted),
        "predicted_s": predicted_s,
        "median_s": median_s,
        "error_pct": error_pct(median_s, predicted_s),
        "exact_mean": evidence.exact_mean,
    }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _time_to_target(
    evidence: Evidence, rounds: Sequence[Mapping[str, Any]]
) -> dict[str, float | None] | None:
    """Return the seconds from the first local step until the held-out loss reached its target."""
    if evidence.target_loss is None:
        return None
    times = {x.number: x for x in evidence.times}
    reached = (
        times[row["round"]].sync_end - times[rounds[0]["round"]].local_start
        for row in rounds
        if row["held_out_loss"] is not None and row["held_out_loss"] <= evidence.target_loss
    )
    return {"target_loss": evidence.target_loss, "seconds": next(reached, None)}


# --- bytes ----------------------------------------------------------------------------------------


def _link_bytes(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """Return for each direction all rounds' bytes, measured and predicted."""
    windows = evidence.windows
    if not windows:
        return {}
    carried = traffic_between(evidence.links, windows[0].start_s, windows[-1].end_s)
    return {
        str(way): _link_row(carried[way], expected, evidence.background.get(way, BackgroundLoad()))
        for way, expected in sorted(evidence.expected().items())
        if way in carried
    }


def _link_row(
    measured: Counts, planned: ExpectedBytes, background: BackgroundLoad
) -> dict[str, Any]:
    payload = payload_estimate(measured.bytes, measured.packets)
    predicted = planned + background.expected
    return {
        "measured_bytes": measured.bytes,
        "measured_packets": measured.packets,
        "measured_payload_bytes": payload,
        "predicted_bytes": round(predicted.on_wire),
        "predicted_payload_bytes": round(predicted.payload),
        "background_payload_bytes": round(background.expected.payload),
        "background_least_bytes": round(background.fewest_payload),
        "background_most_bytes": round(background.most_payload),
        "ratio": ratio(payload, predicted.payload),
        "wire_ratio": ratio(measured.bytes, predicted.on_wire),
        "drops": measured.drops,
    }


def _traversals(
    evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]], rounds: int
) -> dict[str, float | None]:
    """Return messages that crossed WAN links in a round, as measured and as predicted.

    Bytes of traffic beside it are known between bounds (`background_least_bytes`, `_most_bytes`);
    where these are too far apart, nothing is left to be measured.
    """
    known = rounds and _background_is_known(evidence)
    own = {
        Direction.parse(name): row["measured_payload_bytes"] - row["background_payload_bytes"]
        for name, row in link_bytes.items()
    }
    predicted = {way: expected.payload for way, expected in evidence.expected().items()}
    each = rounds or 1
    return {
        "measured": traversals(own, evidence.message_bytes) / each if known else None,
        "predicted": traversals(predicted, evidence.message_bytes) / each,
    }


def _background_is_known(evidence: Evidence) -> bool:
    """Return whether what others put on WAN links is known as well as the training's own bytes."""
    loads = [one for way, one in evidence.background.items() if not way.is_access]
    open_bytes = sum(one.most_payload - one.fewest_payload for one in loads)
    own = sum(one.payload for way, one in evidence.expected().items() if not way.is_access)
    return open_bytes <= PAYLOAD_TOLERANCE * own


# --- training -------------------------------------------------------------------------------------


def _first_and_last(rounds: Sequence[Mapping[str, Any]], name: str) -> dict[str, float | None]:
    values = [row[name] for row in rounds if row[name] is not None]
    return {"first": values[0] if values else None, "last": values[-1] if values else None}


def _loss_unit(evidence: Evidence) -> str | None:
    units = [row.get("loss_unit") for row in _events(evidence, "start").values()]
    return next((str(unit) for unit in units if unit), None)


def _final(evidence: Evidence) -> dict[str, Any] | None:
    """Return what the mean of all islands after the last round came to; None without one."""
    rows = _events(evidence, "final")
    if not rows:
        return None
    hashes = {site: row.get("parameters_sha256") for site, row in rows.items()}
    return {
        "held_out_loss": mean_over(rows.values(), "held_out_loss", weight="held_out_windows"),
        "parameters_sha256": _common_hash(hashes) if len(rows) == len(evidence.sites) else None,
    }


def _events(evidence: Evidence, kind: str) -> dict[str, WorkerRow]:
    """Return each worker's last event of a kind."""
    return {
        site: row
        for site, rows in evidence.participants.items()
        for row in rows
        if row.get("event") == kind
    }


def _ends_field(evidence: Evidence, name: str) -> dict[str, Any]:
    return {site: row[name] for site, row in ends_of(evidence).items() if name in row}


def _common_hash(hashes: Mapping[str, Any]) -> str | None:
    found = set(hashes.values())
    return found.pop() if len(found) == 1 else None


def round_trips(reach: Reachability) -> dict[str, Any]:
    """Return the round trips of all pairs, and the worst errors, ready to be written as JSON."""
    return {
        "pairs": len(reach.round_trips),
        "unreachable": [f"{a}>{b}" for a, b in reach.unreachable],
        "worst_error_ms": reach.worst_error_ms,
        "worst_error_pct": reach.worst_error_pct,
        "rows": [
            {**asdict(row), "error_ms": row.error_ms, "error_pct": row.error_pct}
            for row in reach.round_trips
        ],
    }
