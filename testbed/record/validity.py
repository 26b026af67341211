"""Why a figure of a run must not be cited. Pure.

A run is invalid when workers ended with different parameters or did not end, when a link carried
other bytes than the plan says, when witnesses of the same bytes disagree, or for reasons that the
caller adds, such as a machine that was too slow for what it emulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from testbed.measure.crosscheck import disagreements
from testbed.measure.windows import WorkerRow
from testbed.record.evidence import Evidence
from topologies.model import Direction

# Beside the collective, workers exchange a little: rendezvous, barriers, library headers.
PAYLOAD_TOLERANCE = 0.03
PAYLOAD_TOLERANCE_BYTES = 64 * 1024
# A dropped frame is sent again, and TCP may send one more that had arrived (RFC 2018, section 5).
LONGEST_PACKET_BYTES = 9000
RESENT_BYTES_PER_DROP = 2 * LONGEST_PACKET_BYTES
# Counters are asked for five times a second. A machine that gets to it more seldom than this does
# not know what passed in a round, which is no fault of the network's.
LONGEST_STEP_S = 1.0


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
        *_odd_links(evidence, link_bytes),
        *evidence.further_reasons,
        *machine_reasons(evidence, link_bytes),
    ]


def machine_reasons(evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return those reasons that are the machine's: how it ran, and counters it read too seldom."""
    return [*evidence.machine_reasons, *_seldom_read_links(evidence, link_bytes)]


def ends_of(evidence: Evidence) -> dict[str, WorkerRow]:
    """Return the closing row of each worker that reached its end."""
    return {
        site: row
        for site, rows in evidence.participants.items()
        for row in rows
        if row.get("event") == "end"
    }


def _unfinished_workers(evidence: Evidence) -> list[str]:
    reasons = []
    unfinished = [site for site in evidence.sites if site not in ends_of(evidence)]
    if unfinished:
        reasons.append(f"workers did not end: {', '.join(unfinished)}")
    if not evidence.times:
        reasons.append("no round was finished by every island")
    return reasons


def _different_parameters(evidence: Evidence) -> list[str]:
    ends = ends_of(evidence)
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
    expected = {way for plan in evidence.rounds for way in plan.expected}
    missing = sorted(expected - set(evidence.links))
    return [f"no counters of {', '.join(map(str, missing))}"] if missing else []


def _odd_links(evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the directions whose payload is not what was predicted, within the tolerance."""
    dropped, repeated = _dropped_frames(link_bytes), repeated_packets(evidence)
    explanation = f"{dropped} dropped frames in all do not explain it"
    if repeated:
        explanation = f"{dropped} dropped frames and {repeated} repeated packets do not explain it"
    return [
        f"{name} carried {row['measured_payload_bytes']} bytes of payload, predicted "
        f"{row['predicted_payload_bytes']}; {explanation}"
        for name, row, step_s, _ in _odd_rows(evidence, link_bytes)
        if not step_s
    ]


def _seldom_read_links(
    evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return the directions whose bytes look odd only because counters were read too seldom."""
    return [
        f"counters of {name} were read only once in {step_s:.1f} s, so that its "
        f"{row['measured_payload_bytes']} bytes of payload, predicted "
        f"{row['predicted_payload_bytes']}, are uncertain by {step_bytes}"
        for name, row, step_s, step_bytes in _odd_rows(evidence, link_bytes)
        if step_s
    ]


def _odd_rows(
    evidence: Evidence, link_bytes: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any], float, int]]:
    """Yield each odd direction and, if that explains it, the step of its readings; else zeros."""
    if evidence.unjudged:
        return
    resent_bytes = RESENT_BYTES_PER_DROP * _dropped_frames(link_bytes)
    resent_bytes += LONGEST_PACKET_BYTES * repeated_packets(evidence)
    for name, row in link_bytes.items():
        if _row_is_as_predicted(row, resent_bytes):
            continue
        step_s, step_bytes = _step(evidence, name)
        if step_s > LONGEST_STEP_S and _row_is_as_predicted(row, resent_bytes, step_bytes):
            yield name, row, step_s, step_bytes
        else:
            yield name, row, 0.0, 0


def _step(evidence: Evidence, name: str) -> tuple[float, int]:
    """Return the longest time between readings around rounds' ends, and their bytes in all."""
    readings = evidence.links.get(Direction.parse(name))
    moments = {time_s for one in evidence.windows for time_s in (one.start_s, one.end_s)}
    steps = [readings.step_at(time_s) for time_s in moments] if readings else []
    moved = [step for step in steps if step[1]]
    return max((step[0] for step in moved), default=0.0), sum(step[1] for step in moved)


def _row_is_as_predicted(
    row: Mapping[str, Any], resent_bytes: int, uncertain_bytes: int = 0
) -> bool:
    return payload_is_as_predicted(
        row["measured_payload_bytes"],
        row["predicted_payload_bytes"] - row["background_payload_bytes"],
        resent_bytes,
        (
            row["background_least_bytes"] - uncertain_bytes,
            row["background_most_bytes"] + uncertain_bytes,
        ),
    )


def _dropped_frames(link_bytes: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(row["drops"] for row in link_bytes.values())


def repeated_packets(evidence: Evidence) -> int:
    """Return how many packets islands sent again for sums in the network, by their own counters.

    They are repeated when a result is late, which no dropped frame need be the reason of.
    """
    ends = ends_of(evidence).values()
    return sum(int(row.get("counters", {}).get("repeats", 0)) for row in ends)


def payload_is_as_predicted(
    measured_bytes: int,
    predicted_bytes: int,
    resent_bytes: int = 0,
    background_bytes: tuple[int, int] = (0, 0),
) -> bool:
    """Return whether payload is within 3 % and 64 KiB of its prediction, but for what was resent.

    A frame that was dropped anywhere is sent again along its whole way, so it may explain bytes
    too many at every direction before the place where it was lost.

    Args:
        measured_bytes: what the direction carried.
        predicted_bytes: what the training was to put there.
        resent_bytes: what dropped frames explain.
        background_bytes: the least and the most that other traffic put there.
    """
    allowed = PAYLOAD_TOLERANCE * predicted_bytes + PAYLOAD_TOLERANCE_BYTES
    least, most = (predicted_bytes + one for one in background_bytes)
    return least - allowed <= measured_bytes <= most + allowed + resent_bytes
