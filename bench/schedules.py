"""How soon plans are found and how close they are to what nothing can beat, against stated goals.

    .venv/bin/python bench/schedules.py [--only WORD] [--json FILE] [--plot DIRECTORY]

Messages are of 1 GB and every rate is 10 Gbit/s or the bundled topology's own, latency counts.
Random networks are Waxman's, from a fixed seed. Each search runs once in a process of its own, so
that peak memory is its own and nothing is remembered from another.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OBJECTIVES = ("exchange", "fair", "mean", "consensus")
CAPABILITIES = ("unicast", "multicast", "aggregation", "multicast+aggregation")
MESSAGE_BYTES = 1e9
SEED = 1


@dataclass(frozen=True)
class Row:
    """One figure beside its goal."""

    what: str
    value: float
    unit: str
    goal: str
    met: bool


@dataclass(frozen=True)
class Case:
    """A search to run: on which network, for what, for how long, and what is hoped for."""

    network: str
    capability: str
    objective: str
    limit_s: float | None
    most_s: float = math.inf
    most_gap_pct: float = math.inf
    most_memory_mb: float = math.inf
    collective: str | None = None

    @property
    def name(self) -> str:
        """What the rows of this case begin with."""
        collective = f", {self.collective} only" if self.collective else ""
        return f"{self.network}, {self.capability}{collective}, {self.objective}"


def cases() -> list[Case]:
    """Every search with its goals."""
    found = []
    for capability in CAPABILITIES:
        for objective in OBJECTIVES:
            found += [
                Case("nine_city", capability, objective, None, most_s=3, most_gap_pct=1e-4),
                Case("b4", capability, objective, 50, most_s=60, most_gap_pct=2),
                Case("50 sites", capability, objective, 50, most_s=60, most_gap_pct=10),
            ]
    for collective in ("exchange", "ring", "multicast", "aggregation", "innetwork"):
        found += [
            Case("50 sites", CAPABILITIES[-1], o, 50, 60, 10, collective=collective)
            for o in OBJECTIVES
        ]
    for capability in (CAPABILITIES[0], CAPABILITIES[-1]):
        for objective in OBJECTIVES:
            found += [
                Case("200 sites", capability, objective, 7, most_s=10),
                Case("1000 sites", capability, objective, 60, most_s=120, most_memory_mb=2000),
            ]
    return found


def network_of(name: str) -> object:
    """Return a bundled topology, or a random one of so many sites and twice as many links."""
    from bench.networks import waxman
    from topologies.files import load

    count = name.partition(" ")[0]
    return waxman(int(count), 2 * int(count), SEED) if count.isdigit() else load(name)


def solve(case: Case) -> dict[str, float]:
    """Run one search in this process; the clock starts once the network is read or drawn."""
    import resource

    from schedules.capabilities import Capabilities
    from schedules.constraints import Constraints
    from schedules.network import Network
    from schedules.problem import Problem
    from schedules.solve import solve as solve_problem
    from schedules.watch import Watch
    from topologies.model import Topology

    topology = network_of(case.network)
    assert isinstance(topology, Topology)
    began, used = time.monotonic(), time.process_time()
    problem = Problem(
        Network.of(topology),
        Capabilities.parse(case.capability),
        case.objective,
        case.collective,
        MESSAGE_BYTES,
        Constraints(),
        True,
    )
    solved = solve_problem(problem, Watch(limit_s=case.limit_s))
    assert solved is not None
    return {
        "seconds": time.monotonic() - began,
        "processor seconds": time.process_time() - used,
        "gap": solved.solution.gap_pct,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run(case: Case) -> list[Row]:
    """Run a search in a process of its own and hold it against its goals."""
    command = [sys.executable, str(Path(__file__).resolve()), "--case", json.dumps(asdict(case))]
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2", "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{case.name}: {done.stderr.strip().splitlines()[-1:]}")
    answer = json.loads(done.stdout)
    rows = [
        row(f"{case.name}: gap", answer["gap"], "%", case.most_gap_pct),
        row(f"{case.name}: time", answer["seconds"], "s", case.most_s),
    ]
    if case.most_memory_mb < math.inf:
        rows.append(row(f"{case.name}: memory", answer["memory"], "MB", case.most_memory_mb))
    return rows


def row(what: str, value: float, unit: str, most: float) -> Row:
    goal = f"<= {most:g}" if most < math.inf else ""
    return Row(what, round(value, 4), unit, goal, value <= most)


def evaluations() -> list[Row]:
    """How many rounds of nine_city a second are costed, one at a time; the median of five."""
    import statistics

    from schedules.capabilities import Capabilities
    from schedules.evaluation import RoundTable
    from schedules.partitions import all_partitions
    from topologies.files import load

    both = Capabilities.parse(CAPABILITIES[-1])
    table = RoundTable.of(load("nine_city"), "multicast", both)
    rounds = [[int(mask) for mask in row if mask] for row in all_partitions(9)]
    rounds = [masks for masks in rounds if masks]
    rates = []
    for _ in range(5):
        began = time.perf_counter()
        for masks in rounds:
            table.cost(masks)
        rates.append(len(rounds) / (time.perf_counter() - began))
    rate = statistics.median(rates)
    return [Row("rounds of nine_city costed", round(rate), "a second", ">= 20000", rate >= 20_000)]


def measure(only: str) -> list[Row]:
    """Run everything whose name contains a word, telling each figure as it comes."""
    works: list[tuple[str, Callable[[], list[Row]]]] = [("rounds costed", evaluations)]
    works += [(case.name, lambda case=case: run(case)) for case in cases()]
    rows: list[Row] = []
    for name, work in works:
        if only in name:
            for one in work():
                print(f"  {one.what}: {one.value:g} {one.unit}", file=sys.stderr, flush=True)
                rows.append(one)
    return rows


def show(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "measured", "unit", "goal", "met")
    for one in rows:
        met = ("PASS" if one.met else "miss") if one.goal else ""
        table.add_row(one.what, f"{one.value:g}", one.unit, one.goal, met)
    Console(width=120).print(table)


def plot(rows: Sequence[Row], directory: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    for kind, unit, file in (
        ("gap", "%", "schedules-gap.png"),
        ("time", "s", "schedules-time.png"),
    ):
        chosen = [one for one in rows if one.what.endswith(f": {kind}")]
        if not chosen:
            continue
        figure, axes = pyplot.subplots(figsize=(10, 0.3 * len(chosen) + 1), layout="constrained")
        axes.barh([one.what for one in chosen], [one.value for one in chosen])
        axes.set_xlabel(f"{kind} in {unit}")
        axes.invert_yaxis()
        figure.savefig(directory / file, dpi=120)
        pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="run what has this in its name")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(solve(Case(**json.loads(options.case)))))
        return 0
    rows = measure(options.only)
    show(rows)
    if options.json:
        options.json.write_text(json.dumps({"rows": [asdict(one) for one in rows]}, indent=1))
    if options.plot:
        plot(rows, options.plot)
    return 0 if all(one.met for one in rows) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
