"""What came of a run, worked out from its records alone; no input or output here.

The summary says whether the run is *valid*, and if not, why: a figure of an invalid run must not be
cited. A run is invalid when workers ended with different parameters or did not end, when a link
carried other bytes than the plan says, when witnesses of the same bytes disagree, or for reasons
that the caller adds, such as a machine that was too slow for what it emulated.

Payload is taken from counters as bytes minus one header of 66 bytes a frame (see
`measure.predict`), so it includes retransmissions and excludes acknowledgements.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.measure.crosscheck import CrossCheckRow, disagreements
from testbed.measure.predict import ExpectedBytes, TimeBound, payload_estimate, traversals
from testbed.measure.reach import Reachability
from testbed.measure.series import Counts, Series, traffic_between
from testbed.measure.windows import (
    RoundTimes,
    RoundWindow,
    WorkerRow,
    WorkerRows,
    round_rows,
    round_times,
    round_windows,
)
from topologies.model import Direction

FORMAT = 1
# Beside the collective, workers exchange a little: rendezvous, barriers, library headers.
PAYLOAD_TOLERANCE = 0.03
PAYLOAD_TOLERANCE_BYTES = 64 * 1024
# A dropped frame is sent again, and TCP may send one more that had arrived (RFC 2018, section 5).
RESENT_BYTES_PER_DROP = 2 * 9000

Summary = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """Everything a summary is worked out from.

    Attributes:
        sites: islands that took part.
        workers: for each site the rows of its worker.
        links: for each direction its counters over time.
        message_bytes: what each island contributes to a round.
        expected: for each direction what one round puts on it.
        bound: the least time of a round's collective.
        reach: round trips of all pairs, if they were measured.
        cross_check: what the witnesses of bytes said, if they were asked.
        target_loss: the held-out loss whose time is wanted.
        further_reasons: why the run is invalid beside what is found here.
        machine_reasons: why the machine, not the network, may have made its figures.
    """

    sites: Sequence[str]
    workers: WorkerRows
    links: Mapping[Direction, Series]
    message_bytes: int
    expected: Mapping[Direction, ExpectedBytes]
    bound: TimeBound
    reach: Reachability | None = None
    cross_check: Sequence[CrossCheckRow] = ()
    target_loss: float | None = None
    further_reasons: Sequence[str] = ()
    machine_reasons: Sequence[str] = ()


def summarize(evidence: Evidence) -> Summary:
    """Return the summary of a run, ready to be written as JSON."""
    rounds = finished_rounds(evidence)
    link_bytes = _link_bytes(evidence, len(rounds))
    reasons = invalid_reasons(evidence, link_bytes)
    return {
        "format": FORMAT,
        "valid": not reasons,
        "reasons": reasons,
        "machine_reasons": list(evidence.machine_reasons),
        "islands": len(evidence.sites),
        "message_bytes": evidence.message_bytes,
        "rounds": rounds,
        "collective": _collective(rounds, evidence.bound),
        "link_bytes": link_bytes,
        "traversals": _traversals(evidence, link_bytes, len(rounds)),
        "training_loss": _first_and_last(rounds, "train_loss"),
        "held_out_loss": _first_and_last(rounds, "held_out_loss"),
        "consensus_distance": _first_and_last(rounds, "consensus_distance"),
        "time_to_target": _time_to_target(evidence, rounds),
        "parameters_sha256": _common_hash(evidence),
        "peak_memory_bytes": _ends_field(evidence, "peak_rss_bytes"),
        "round_trips": None if evidence.reach is None else round_trips(evidence.reach),
        "cross_check": [{**asdict(row), "agree": row.agree} for row in evidence.cross_check],
    }


def finished_rounds(evidence: Evidence) -> list[dict[str, Any]]:
    """Return one row for each round that every island finished.

    Seconds are those of `RoundTimes`; losses are means over the islands, the held-out loss weighed
    by the windows that each island evaluated; bytes are those that entered each direction in the
    round's window.
    """
    workers = _participants(evidence)
    windows = {window.number: window for window in round_windows(workers)}
    return [_round(evidence, times, windows[times.number]) for times in round_times(workers)]


def settled_rounds(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the finished rounds whose bytes can no longer change, while the run goes on.

    The last one is left out: its window may still grow until the next round's quiet phase.
    """
    return finished_rounds(evidence)[:-1]


def _participants(evidence: Evidence) -> WorkerRows:
    return {site: evidence.workers.get(site, ()) for site in evidence.sites}


def _round(evidence: Evidence, times: RoundTimes, window: RoundWindow) -> dict[str, Any]:
    carried = traffic_between(evidence.links, window.start_s, window.end_s)
    rows = [round_rows(rows)[times.number] for rows in _participants(evidence).values()]
    return {
        "round": times.number,
        "start": window.start_s,
        "end": window.end_s,
        "local_s": times.longest_local_s,
        "wait_s": times.wait_s,
        "sync_s": times.sync_s,
        "round_s": times.round_s,
        "bound_s": evidence.bound.total_s,
        "ratio": _ratio(times.sync_s, evidence.bound.total_s),
        "train_loss": _mean(rows, "train_loss"),
        "held_out_loss": _mean(rows, "held_out_loss", weight="held_out_windows"),
        "consensus_distance": _mean(rows, "consensus_distance"),
        "link_bytes": {str(direction): counts.bytes for direction, counts in carried.items()},
    }


def _mean(rows: Iterable[WorkerRow], name: str, weight: str | None = None) -> float | None:
    """Return the mean over the islands that have a value; None without any, or if one diverged."""
    weighed = [
        (float(row[name]), row.get(weight, 1) if weight else 1)
        for row in rows
        if row.get(name) is not None
    ]
    total = sum(w for _, w in weighed)
    mean = sum(x * w for x, w in weighed) / total if total else math.nan
    return mean if math.isfinite(mean) else None


def _ratio(measured: float, expected: float) -> float | None:
    return measured / expected if expected > 0 else None


def _collective(rounds: Sequence[Mapping[str, Any]], bound: TimeBound) -> dict[str, Any]:
    median_s = statistics.median(row["sync_s"] for row in rounds) if rounds else None
    return {
        "median_s": median_s,
        "bound_s": bound.total_s,
        "bound_transfer_s": bound.transfer_s,
        "bound_latency_s": bound.latency_s,
        "bound_statement": bound.statement,
        "ratio": None if median_s is None else _ratio(median_s, bound.total_s),
    }


def _link_bytes(evidence: Evidence, rounds: int) -> dict[str, dict[str, Any]]:
    """Return for each direction all rounds' bytes, measured and predicted."""
    windows = round_windows(_participants(evidence))
    if not windows:
        return {}
    carried = traffic_between(evidence.links, windows[0].start_s, windows[-1].end_s)
    return {
        str(direction): _link_row(carried[direction], expected.times(rounds))
        for direction, expected in sorted(evidence.expected.items())
        if direction in carried
    }


def _link_row(measured: Counts, predicted: ExpectedBytes) -> dict[str, Any]:
    payload = payload_estimate(measured.bytes, measured.packets)
    return {
        "measured_bytes": measured.bytes,
        "measured_packets": measured.packets,
        "measured_payload_bytes": payload,
        "predicted_bytes": round(predicted.on_wire),
        "predicted_payload_bytes": round(predicted.payload),
        "ratio": _ratio(payload, predicted.payload),
        "wire_ratio": _ratio(measured.bytes, predicted.on_wire),
        "drops": measured.drops,
    }


def _traversals(
    evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]], rounds: int
) -> dict[str, float | None]:
    """Return messages that crossed WAN links in a round, as measured and as predicted."""
    payload = {
        Direction.parse(name): row["measured_payload_bytes"] for name, row in link_bytes.items()
    }
    predicted = {direction: x.payload for direction, x in evidence.expected.items()}
    whole = traversals(payload, evidence.message_bytes)
    return {
        "measured": whole / rounds if rounds else None,
        "predicted": traversals(predicted, evidence.message_bytes),
    }


def _first_and_last(rounds: Sequence[Mapping[str, Any]], name: str) -> dict[str, float | None]:
    values = [row[name] for row in rounds if row[name] is not None]
    return {"first": values[0] if values else None, "last": values[-1] if values else None}


def _time_to_target(
    evidence: Evidence, rounds: Sequence[Mapping[str, Any]]
) -> dict[str, float | None] | None:
    """Return the seconds from the first local step until the held-out loss reached its target."""
    if evidence.target_loss is None:
        return None
    times = {x.number: x for x in round_times(_participants(evidence))}
    reached = (
        times[row["round"]].sync_end - times[rounds[0]["round"]].local_start
        for row in rounds
        if row["held_out_loss"] is not None and row["held_out_loss"] <= evidence.target_loss
    )
    return {"target_loss": evidence.target_loss, "seconds": next(reached, None)}


def _ends(evidence: Evidence) -> dict[str, WorkerRow]:
    """Return the closing row of each worker that reached its end."""
    return {
        site: row
        for site, rows in _participants(evidence).items()
        for row in rows
        if row.get("event") == "end"
    }


def _ends_field(evidence: Evidence, name: str) -> dict[str, Any]:
    return {site: row[name] for site, row in _ends(evidence).items() if name in row}


def _common_hash(evidence: Evidence) -> str | None:
    hashes = set(_ends_field(evidence, "parameters_sha256").values())
    return hashes.pop() if len(hashes) == 1 else None


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


def invalid_reasons(evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return why the run is invalid, one line for each reason; none for a valid run."""
    checks: Sequence[Callable[[Evidence], list[str]]] = (
        _unfinished_workers,
        _different_parameters,
        _unreached_pairs,
        _uncounted_directions,
        lambda x: disagreements(x.cross_check),
    )
    found = [reason for check in checks for reason in check(evidence)]
    return [
        *found,
        *_odd_links(link_bytes),
        *evidence.further_reasons,
        *evidence.machine_reasons,
    ]


def _unfinished_workers(evidence: Evidence) -> list[str]:
    reasons = []
    unfinished = [site for site in evidence.sites if site not in _ends(evidence)]
    if unfinished:
        reasons.append(f"workers did not end: {', '.join(unfinished)}")
    if not round_times(_participants(evidence)):
        reasons.append("no round was finished by every island")
    return reasons


def _different_parameters(evidence: Evidence) -> list[str]:
    ends = _ends(evidence)
    hashes = {site: row.get("parameters_sha256") for site, row in ends.items()}
    without = [site for site, value in hashes.items() if not value]
    if without:
        return [f"workers gave no hash of their parameters: {', '.join(without)}"]
    if len(set(hashes.values())) <= 1:
        return []
    groups = (
        " ".join(site for site in hashes if hashes[site] == value)
        for value in sorted({str(value) for value in hashes.values()})
    )
    return [f"final parameters differ between islands: {' | '.join(groups)}"]


def _unreached_pairs(evidence: Evidence) -> list[str]:
    pairs = evidence.reach.unreachable if evidence.reach else ()
    return [f"pairs not reached: {', '.join(f'{a}>{b}' for a, b in pairs)}"] if pairs else []


def _uncounted_directions(evidence: Evidence) -> list[str]:
    missing = sorted(set(evidence.expected) - set(evidence.links))
    return [f"no counters of {', '.join(map(str, missing))}"] if missing else []


def _odd_links(link_bytes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the directions whose payload is not what was predicted, within the tolerance."""
    dropped = sum(row["drops"] for row in link_bytes.values())
    return [
        f"{name} carried {row['measured_payload_bytes']} bytes of payload, predicted "
        f"{row['predicted_payload_bytes']}; {dropped} dropped frames in all do not explain it"
        for name, row in link_bytes.items()
        if not payload_is_as_predicted(
            row["measured_payload_bytes"],
            row["predicted_payload_bytes"],
            RESENT_BYTES_PER_DROP * dropped,
        )
    ]


def payload_is_as_predicted(
    measured_bytes: int, predicted_bytes: int, resent_bytes: int = 0
) -> bool:
    """Return whether payload is within 3 % and 64 KiB of its prediction, but for what was resent.

    A frame that was dropped anywhere is sent again along its whole way, so it may explain bytes
    too many at every direction before the place where it was lost.
    """
    allowed = PAYLOAD_TOLERANCE * predicted_bytes + PAYLOAD_TOLERANCE_BYTES
    return -allowed <= measured_bytes - predicted_bytes <= allowed + resent_bytes
