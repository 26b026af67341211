"""Writes the record of a run of which every figure is known beforehand.

Round r takes ten seconds from r x 10: island i computes for 4 + i / 10 seconds, its clique
exchanges for two seconds from when the slowest member is ready; islands in no clique are idle. Each
member sends a message of 5 MB to each other one, on the way of least delay.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from testbed.comparing.compare import write_comparison
from topologies.files import dump, load
from topologies.model import Direction, Topology
from topologies.routing import least_delay_routes

ORIGIN_S = 1_800_000_000.0
ROUND_S, EXCHANGE_S, FIRST_COMPUTE_S, STEP_S = 10.0, 2.0, 4.0, 0.1
MESSAGE_BYTES = 5_000_000
RATE_SCALE = 0.01
TRIPLES = (
    (("AMS", "FRA", "LON"), ("BAR", "LAX", "NYC"), ("SEO", "SIN", "TYO")),
    (("AMS", "BAR", "SEO"), ("FRA", "LAX", "SIN"), ("LON", "NYC", "TYO")),
    (("AMS", "NYC"), ("LAX", "TYO")),
)
Cliques = Sequence[Sequence[str]]


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class Record:
    """A run on a topology with those rounds, repeated as a cycle."""

    def __init__(
        self, topology: Topology, plan: Sequence[Cliques], rounds: int, kind: str = "exchange"
    ) -> None:
        self.topology, self.plan, self.count, self.kind = topology, plan, rounds, kind
        self.routes = least_delay_routes(topology)
        self.carried = [self.round_bytes(number) for number in range(rounds)]

    def cliques(self, number: int) -> Cliques:
        return self.plan[number % len(self.plan)]

    def compute_s(self, site: str) -> float:
        return FIRST_COMPUTE_S + STEP_S * self.topology.codes.index(site)

    def ready_s(self, clique: Sequence[str]) -> float:
        return max(self.compute_s(site) for site in clique)

    def begin_s(self, number: int) -> float:
        return ORIGIN_S + ROUND_S * number

    def round_bytes(self, number: int) -> Counter[str]:
        carried: Counter[str] = Counter()
        for clique in self.cliques(number):
            for a in clique:
                for b in clique:
                    if a != b:
                        carried.update(dict.fromkeys(self.way(a, b), MESSAGE_BYTES))
        return carried

    def way(self, a: str, b: str) -> list[str]:
        path = self.routes.path(a, b)
        between = [str(Direction(x, y)) for x, y in pairwise(path)]
        return [str(Direction.up(a)), *between, str(Direction.down(b))]

    # --- files ---

    def write(self, folder: Path) -> Path:
        """Write all files of a complete, valid run."""
        (folder / "workers").mkdir(parents=True)
        (folder / "topology.yaml").write_text(dump(self.topology))
        self.put(folder / "manifest.json", self.manifest(folder.name))
        (folder / "rounds.jsonl").write_text(lines(self.rounds()))
        for site in self.topology.codes:
            (folder / "workers" / f"{site}.jsonl").write_text(lines(self.worker(site)))
        (folder / "links.csv").write_text(self.links())
        (folder / "events.jsonl").write_text(lines(self.events()))
        (folder / "fidelity.jsonl").write_text(lines(self.fidelity()))
        self.put(folder / "calibration.json", self.calibration())
        self.put(folder / "summary.json", self.summary())
        return folder

    @staticmethod
    def put(path: Path, value: Any) -> None:
        path.write_text(json.dumps(value, indent=1))

    def manifest(self, run_id: str) -> dict[str, Any]:
        return {
            "format": 1,
            "run_id": run_id,
            "started": "2027-01-15T08:00:00+00:00",
            "command": "atoll run experiments/rotating.yaml",
            "topology": self.topology.name,
            "rate_scale": RATE_SCALE,
            "capability": "multicast+aggregation",
            "seeds": {"run": 7},
            "datapath": "userspace",
            "link_backend": "linkd",
            "congestion_control": "cubic",
            "experiment": {"name": "rotating triples", "target_loss": 3.0},
            "plan": {
                "objective": "mean",
                "rounds": [{"cliques": c, "collective": self.kind} for c in self.plan],
                "cycle": list(range(len(self.plan))),
            },
            "settings": {"rounds": self.count, "local_steps": 10, "outer": "mean"},
            "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
            "machine": {
                "kernel": "6.1.0", "architecture": "x86_64", "system": "Debian GNU/Linux 12",
                "cores": 2, "memory_bytes": 8 * 2**30,
            },
            "versions": {"python": "3.11.7", "torch": "2.13.0"},
        }  # fmt: skip

    def rounds(self) -> list[dict[str, Any]]:
        return [self.round(number) for number in range(self.count)]

    def round(self, number: int) -> dict[str, Any]:
        cliques = [c for c in self.cliques(number) if len(c) > 1]
        members = [site for clique in cliques for site in clique]
        begin, loss = self.begin_s(number), 3.8 - 0.15 * number
        return {
            "round": number,
            "plan_round": number % len(self.plan),
            "start": begin,
            "end": begin + ROUND_S,
            "local_s": self.ready_s(self.topology.codes),
            "wait_s": STEP_S * (len(set(members)) - 1),
            "sync_s": EXCHANGE_S,
            "round_s": self.ready_s(self.topology.codes) + EXCHANGE_S,
            "bound_s": 1.6,
            "ratio": EXCHANGE_S / 1.6,
            "predicted_s": 1.9 + 0.1 * (number % len(self.plan)),
            "prediction_error_pct": 100 * (EXCHANGE_S / 1.9 - 1),
            "train_loss": loss + 0.1,
            "held_out_loss": loss,
            "consensus_distance": 5.0 * 0.7**number,
            "gradient_noise": 2.0 * 0.9**number,
            "link_bytes": {str(d): self.carried[number][str(d)] for d in self.directions()},
            "cliques": [
                {"sites": c, "kind": self.kind, "sync_s": EXCHANGE_S, "wait_s": 0.2,
                 "predicted_s": 1.9}
                for c in cliques
            ],
        }  # fmt: skip

    def worker(self, site: str) -> list[dict[str, Any]]:
        start = {"event": "start", "time": ORIGIN_S - 1, "site": site, "loss_unit": "nats a letter"}
        end = {"event": "end", "time": self.begin_s(self.count), "parameters_sha256": "ab" * 32}
        return [start, *(self.worker_round(site, number) for number in range(self.count)), end]

    def worker_round(self, site: str, number: int) -> dict[str, Any]:
        begin = self.begin_s(number)
        clique = next((c for c in self.cliques(number) if site in c and len(c) > 1), ())
        own = begin + self.compute_s(site)
        done = begin + self.ready_s(clique) + EXCHANGE_S if clique else own
        loss = 3.8 - 0.15 * number + 0.02 * self.topology.codes.index(site)
        return {
            "event": "round", "round": number, "plan_round": number % len(self.plan),
            "kind": self.kind, "clique": list(clique), "local_start": begin, "local_end": own,
            "sync_start": own, "sync_end": done, "train_loss": loss + 0.1, "held_out_loss": loss,
        }  # fmt: skip

    def directions(self) -> list[Direction]:
        return list(self.topology.directions())

    def links(self) -> str:
        rows = [
            f"{time:.6f},{direction},{count},{count // 6000},0"
            for direction in self.directions()
            for time, count in self.samples(str(direction))
        ]
        return "\n".join(["time,direction,bytes,packets,drops", *sorted(rows)]) + "\n"

    def samples(self, direction: str) -> list[tuple[float, int]]:
        """Return counters that grow from 5 to 8 seconds into each round, and stand still else."""
        total, samples = 0, [(ORIGIN_S - 1, 0)]
        for number in range(self.count):
            grown = self.carried[number][direction]
            if grown:
                begin = self.begin_s(number)
                samples += [(begin + 5.0, total), (begin + 8.0, total + grown)]
                total += grown
        return samples

    def events(self) -> list[dict[str, Any]]:
        fault = {"time": ORIGIN_S + 12, "event": "fault", "link": "LON-NYC", "down_s": 3}
        over = fault | {"time": ORIGIN_S + 15, "event": "fault_over"}
        end = {"time": self.begin_s(self.count), "event": "run_ended", "outcome": "complete"}
        start = {"time": ORIGIN_S - 2, "event": "run_started"}
        return [start, fault, over, {**end, "reason": ""}]

    def fidelity(self) -> list[dict[str, Any]]:
        return [
            {
                "time": ORIGIN_S + second, "interval_s": 1.0, "cpu_busy_pct": 70 + second % 20,
                "steal_pct": 0.2, "links_cpu_pct": 12.0, "busiest_switch_cpu_pct": 8.0,
                "releases": 1000, "lateness_p50_us": 60.0, "lateness_p99_us": 250.0 + second,
            }
            for second in range(int(ROUND_S) * self.count)
        ]  # fmt: skip

    def calibration(self) -> dict[str, Any]:
        rows = [
            {
                "direction": str(direction), "asked_rate_mbps": spec.rate_mbps * RATE_SCALE,
                "achieved_rate_mbps": spec.rate_mbps * RATE_SCALE * 1.001, "rate_error_pct": 0.1,
                "asked_delay_ms": spec.one_way_delay_ms, "delay_error_ms": 0.05,
                "achieved_delay_ms": spec.one_way_delay_ms + 0.05, "p99_delay_ms": 0.4,
            }
            for direction, spec in self.topology.directions().items()
        ]  # fmt: skip
        tolerance = {"rate_pct": 2.0, "median_delay_ms": 0.5}
        worst = {"worst_rate_error_pct": 0.1, "worst_delay_error_ms": 0.05}
        return {**worst, "tolerance": tolerance, "within_tolerance": True, "directions": rows}

    def summary(self) -> dict[str, Any]:
        total: Counter[str] = sum(self.carried, Counter())
        links = {
            str(d): {
                "measured_bytes": total[str(d)], "measured_packets": total[str(d)] // 6000,
                "measured_payload_bytes": total[str(d)], "predicted_bytes": total[str(d)],
                "predicted_payload_bytes": total[str(d)], "ratio": 1.0, "wire_ratio": 1.0,
                "drops": 0,
            }
            for d in self.directions()
        }  # fmt: skip
        predicted = [
            {"plan_round": n, "kind": self.kind, "predicted_s": 1.9 + 0.1 * n, "median_s": 2.0,
             "error_pct": 100 * (2.0 / (1.9 + 0.1 * n) - 1)}
            for n in range(len(self.plan))
        ]  # fmt: skip
        return {
            "format": 1, "valid": True, "reasons": [], "machine_reasons": [],
            "islands": len(self.topology.codes), "message_bytes": MESSAGE_BYTES,
            "rounds": self.rounds(), "link_bytes": links,
            "collective": {"median_s": 2.0, "bound_s": 1.6, "ratio": 1.25},
            "traversals": {"measured": 20.1, "predicted": 20.0},
            "time_to_target": {"target_loss": 3.0, "seconds": 61.5},
            "prediction": {"rows": predicted, "mean_abs_error_pct": 4.2},
            "cycle": {"predicted_s": 24.0, "median_s": 24.6, "error_pct": 2.5, "exact_mean": True},
            "final": {"held_out_loss": 2.88, "parameters_sha256": "ab" * 32},
            "round_trips": {"rows": []}, "cross_check": [],
            "background": [
                {"flow": "1", "source": "NYC", "target": "LON", "protocol": "udp",
                 "offered_mbps": 20.0, "sent_mbps": 20.0, "rate_mbps": 19.5,
                 "sent_bytes": 150_000_000, "lost_bytes": 3_750_000}
            ],
        }  # fmt: skip


def write_record(folder: Path, rounds: int = 6, kind: str = "exchange") -> Path:
    """Write the record of rotating cliques on the nine cities."""
    topology = load("nine_city")
    return Record(topology, TRIPLES, rounds, kind).write(folder)


def write_compared(folder: Path, repetitions: int = 3) -> Path:
    """Write the record of a comparison of two variants: rotating pairs, and a ring that is slower.

    Exchanges of repetition r take r hundredths longer, those of the ring half as long again.
    """
    topology = load("three_city")
    cliques: dict[str, Sequence[Cliques]] = {
        "pairs": ((("AMS", "FRA"),), (("FRA", "LON"),)),
        "ring": ((topology.codes,),),
    }
    for name, plan in cliques.items():
        for repetition in range(1, repetitions + 1):
            record = Record(topology, plan, 4, "ring" if name == "ring" else "exchange")
            run = record.write(folder / "variants" / name / str(repetition))
            for file in ("calibration.json", "fidelity.jsonl", "topology.yaml"):
                (run / file).unlink()
            slower = (1.5 if name == "ring" else 1.0) * (1 + repetition / 100)
            summary = record.summary()
            summary["time_to_target"]["seconds"] *= slower
            summary["cycle"]["median_s"] *= slower
            Record.put(run / "summary.json", summary)
            about = {"variant": name, "repetition": repetition}
            Record.put(run / "manifest.json", {**record.manifest(folder.name), **about})
    whole = Record(topology, cliques["ring"], 0)
    manifest = whole.manifest(folder.name)
    manifest["experiment"]["variants"] = [{"name": name} for name in cliques]
    Record.put(folder / "manifest.json", manifest)
    Record.put(folder / "calibration.json", whole.calibration())
    (folder / "fidelity.jsonl").write_text(lines(Record(topology, cliques["ring"], 4).fidelity()))
    (folder / "events.jsonl").write_text(lines(whole.events()))
    (folder / "topology.yaml").write_text(dump(topology))
    write_comparison(folder)
    return folder
