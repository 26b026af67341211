"""What is asked of the one run in the machine, by its record: `python -m tests.vm.run_judge RUN`.

An emulated processor is too slow for what is asked of it, and a run in it rightly invalid for what
the machine was (`machine_reasons`). Nothing else may be wrong with it: every island trained, all
ended with the same parameters, and every link carried the bytes that the plan predicts.

Such a machine reads its counters every few seconds, and a round's bytes between two readings are a
guess, which the run says of itself. So bytes are asked for over the whole training here, from the
first reading to the last: those of all exchanges.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.measure.predict import payload_estimate
from testbed.measure.series import Series, parse_links_csv
from testbed.record.validity import payload_is_as_predicted
from tests.vm.short_kernel import Demand, tell
from topologies.model import Direction

ISLANDS = ("AMS", "FRA", "LON")


def demands(
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    workers: Mapping[str, Sequence[str]],
    links: Mapping[Direction, Series],
) -> Iterator[Demand]:
    """Yield what is asked of a run of three cities on the kernel's switches and links.

    Args:
        manifest: `manifest.json`.
        summary: `summary.json`.
        workers: the events that each island's worker noted, in order.
        links: what the counters of each direction read, from before the training until after it.
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
    exchanges = 1 + (summary["final"] is not None)
    yield _carried(summary["link_bytes"], links, exchanges)
    machine = summary["machine_reasons"]
    others = [reason for reason in summary["reasons"] if reason not in machine]
    yield Demand(
        "nothing but the machine is wrong", not others, "; ".join(others or machine) or "nothing"
    )


def _carried(
    link_bytes: Mapping[str, Mapping[str, Any]], links: Mapping[Direction, Series], exchanges: int
) -> Demand:
    """Ask of every direction that the ring uses for the bytes of all exchanges.

    These are six directions of ports, and four of AMS-FRA and AMS-LON: over both of them is the
    shorter way from FRA to LON.
    """
    used = {
        name: exchanges * row["predicted_payload_bytes"]
        for name, row in link_bytes.items()
        if row["predicted_payload_bytes"]
    }
    carried = {name: payload_bytes(links[Direction.parse(name)]) for name in used}
    odd = [name for name in used if not payload_is_as_predicted(carried[name], used[name])]
    told = ", ".join(f"{name} {carried[name]} of {used[name]} bytes" for name in odd or used)
    return Demand("the links carried what the plan says", len(used) == 10 and not odd, told)


def payload_bytes(readings: Series) -> int:
    """Return what a direction carried from the first reading of its counters to the last."""
    frames = readings.packets[-1] - readings.packets[0]
    return payload_estimate(readings.bytes[-1] - readings.bytes[0], frames)


def read(run: Path) -> Iterator[Demand]:
    """Yield the demands on a run record."""
    manifest, summary = (
        json.loads((run / f"{name}.json").read_text()) for name in ("manifest", "summary")
    )
    workers = {
        path.stem: [json.loads(line)["event"] for line in path.read_text().splitlines()]
        for path in sorted((run / "workers").glob("*.jsonl"))
    }
    links = parse_links_csv((run / "links.csv").read_text())
    yield from demands(manifest, summary, workers, links)


if __name__ == "__main__":
    sys.exit(tell([*read(Path(sys.argv[1]))]))
