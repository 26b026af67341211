"""What is asked of the one run in the machine, by its record: `python -m tests.vm.run_judge RUN`.

An emulated processor is too slow for what is asked of it, and a run in it rightly invalid for what
the machine was (`machine_reasons`). Nothing else may be wrong with it: every island trained, all
ended with the same parameters, and every link carried the bytes that the plan predicts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.vm.short_kernel import Demand, tell

ISLANDS = ("AMS", "FRA", "LON")


def demands(
    manifest: Mapping[str, Any], summary: Mapping[str, Any], workers: Mapping[str, Sequence[str]]
) -> Iterator[Demand]:
    """Yield what is asked of a run of three cities on the kernel's switches and links.

    Args:
        manifest: `manifest.json`.
        summary: `summary.json`.
        workers: the events that each island's worker noted, in order.
    """
    yield Demand(
        "switches are the kernel's", manifest["datapath"] == "kernel", manifest["datapath"]
    )
    backend = manifest["link_backend"]
    yield Demand("links are netem's", backend == "netem", backend)
    trips = summary["round_trips"]
    met = trips["pairs"] == 6 and not trips["unreachable"]
    yield Demand("every pair is reached", met, f"{trips['pairs']} pairs")
    for site in ISLANDS:
        events = workers.get(site, ())
        met = [e for e in events if e in ("start", "round", "end")] == ["start", "round", "end"]
        yield Demand(f"{site} trained one round", met, " ".join(events) or "no record")
    rounds = summary["rounds"]
    seconds = ", ".join(f"{row['sync_s']:.2f} s" for row in rounds)
    yield Demand("the islands exchanged once", len(rounds) == 1, seconds or "never")
    parameters = summary["parameters_sha256"]
    yield Demand("all ended with the same parameters", bool(parameters), f"{parameters}"[:12])
    yield _carried(summary["link_bytes"])
    machine = summary["machine_reasons"]
    others = [reason for reason in summary["reasons"] if reason not in machine]
    yield Demand(
        "nothing but the machine is wrong", not others, "; ".join(others or machine) or "nothing"
    )


def _carried(link_bytes: Mapping[str, Mapping[str, Any]]) -> Demand:
    """Ask for traffic wherever the ring's way leads.

    These are six directions of ports, and four of AMS-FRA and AMS-LON: over both of them is the
    shorter way from FRA to LON.
    """
    used = {name: row for name, row in link_bytes.items() if row["predicted_payload_bytes"]}
    silent = [name for name, row in used.items() if not row["measured_payload_bytes"]]
    total = sum(row["measured_payload_bytes"] for row in used.values())
    met = len(used) == 10 and not silent
    return Demand("the ring's links carried it", met, f"{total} bytes on {len(used)} directions")


def read(run: Path) -> Iterator[Demand]:
    """Yield the demands on a run record."""
    manifest, summary = (
        json.loads((run / f"{name}.json").read_text()) for name in ("manifest", "summary")
    )
    workers = {
        path.stem: [json.loads(line)["event"] for line in path.read_text().splitlines()]
        for path in sorted((run / "workers").glob("*.jsonl"))
    }
    yield from demands(manifest, summary, workers)


if __name__ == "__main__":
    sys.exit(tell([*read(Path(sys.argv[1]))]))
