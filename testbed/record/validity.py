"""Why a figure of a run must not be cited. Pure.

A run is invalid when workers ended with different parameters or did not end, when a link carried
other bytes than the plan says, when witnesses of the same bytes disagree, or for reasons that the
caller adds, such as a machine that was too slow for what it emulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from testbed.measure.crosscheck import disagreements
from testbed.measure.windows import WorkerRow
from testbed.record.evidence import Evidence

# Beside the collective, workers exchange a little: rendezvous, barriers, library headers.
PAYLOAD_TOLERANCE = 0.03
PAYLOAD_TOLERANCE_BYTES = 64 * 1024
# A dropped frame is sent again, and TCP may send one more that had arrived (RFC 2018, section 5).
LONGEST_PACKET_BYTES = 9000
RESENT_BYTES_PER_DROP = 2 * LONGEST_PACKET_BYTES


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
        *([] if evidence.unjudged else _odd_links(evidence, link_bytes)),
        *evidence.further_reasons,
        *evidence.machine_reasons,
    ]


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
    dropped = sum(row["drops"] for row in link_bytes.values())
    repeated = repeated_packets(evidence)
    resent_bytes = RESENT_BYTES_PER_DROP * dropped + LONGEST_PACKET_BYTES * repeated
    explanation = f"{dropped} dropped frames in all do not explain it"
    if repeated:
        explanation = f"{dropped} dropped frames and {repeated} repeated packets do not explain it"
    return [
        f"{name} carried {row['measured_payload_bytes']} bytes of payload, predicted "
        f"{row['predicted_payload_bytes']}; {explanation}"
        for name, row in link_bytes.items()
        if not payload_is_as_predicted(
            row["measured_payload_bytes"],
            row["predicted_payload_bytes"] - row["background_payload_bytes"],
            resent_bytes,
            (row["background_least_bytes"], row["background_most_bytes"]),
        )
    ]


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
