"""How near forecasts of round times come to what is measured, on the default experiments.

    sudo .venv/bin/python bench/prediction.py [--repeat 2] [--only NAME] [--json FILE] [--plot DIR]

Each experiment is a training by `atoll run`, on a network of its own: islands only replay their
computing, so that they begin rounds together and the network is all that takes time. Predicted is
what the run says before it starts, measured the median over its passes after the first; the error
is the one over the other, and the first figure of a group is the mean over all. `nine_city` has the
plans whose order the paper is about; the other networks have other delays, sizes and speeds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

# Ahead of this file's own folder, where a bench may have the name of a package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _report import Figure, Goal, Row, Samples, arguments, conclude, measure, row_of

ROOT = Path(__file__).resolve().parents[1]
MEAN_ERROR, WORST_ERROR = "mean error", "largest error"
TIME_LIMIT_S = 1800
COMPUTE_MS = 700  # a pass forward; twice as long backward
BOTH = "multicast+aggregation"
CAPABILITIES = {"multicast": "multicast", "aggregation": "aggregation", "innetwork": BOTH}
KINDS = ("exchange", "multicast", "aggregation", "innetwork")


@dataclass(frozen=True)
class Setting:
    """A network and the message that each island sends in a round."""

    topology: str
    rate_scale: float
    message_bytes: int

    def __str__(self) -> str:
        return self.topology


SETTINGS = (
    Setting("nine_city", 0.005, 2_000_000),
    Setting("abilene", 0.005, 1_000_000),
    Setting("b4", 0.0005, 1_000_000),
    Setting("three_city", 0.01, 1_000_000),
)


def variants(setting: Setting) -> list[dict[str, Any]]:
    """The ring and one clique of everyone by each kind; the best plans too, where they differ."""
    full: dict[str, Any] = {"full_clique": True}
    found: list[dict[str, Any]] = [{"name": "ring", "collective": "ring", "plan": full}]
    for kind in KINDS:
        common: dict[str, Any] = {
            "collective": kind,
            "capability": CAPABILITIES.get(kind, "unicast"),
        }
        found.append({"name": kind, "plan": full, **common})
        if setting.topology == "nine_city" and kind != "innetwork":
            rotating: dict[str, Any] = {"plan": {"objective": "mean"}, "rounds": 6}
            found.append({"name": f"{kind}-rotating", **common, **rotating})
    return found


def carry_out(setting: Setting) -> dict[str, float]:
    """Run all variants of a setting on one standing network; return errors and times."""
    with tempfile.TemporaryDirectory() as folder:
        layers = Path(folder, "layers.csv")
        numbers = setting.message_bytes // 4
        layers.write_text(
            f"layer,numel,forward_ms,backward_ms\nall,{numbers},{COMPUTE_MS},{2 * COMPUTE_MS}\n"
        )
        experiment = {
            "name": f"prediction-{setting}",
            "topology": setting.topology,
            "rate_scale": setting.rate_scale,
            "workload": {"kind": "replay", "layers": str(layers)},
            "local_steps": 1,
            "rounds": 3,
            "variants": variants(setting),
        }
        file = Path(folder, "experiment.yaml")
        file.write_text(json.dumps(experiment))  # JSON is YAML
        _atoll("run", file, "--no-calibrate", "--no-report", "--runs", folder)
        return figures(setting, Path(folder, "latest"))


def _atoll(*words: object) -> None:
    """Run a command; what it prints is for whoever looks on, and a failed one ends the bench."""
    command = [str(Path(sys.executable).with_name("atoll")), *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, timeout=TIME_LIMIT_S, check=False)
    if done.returncode not in (0, 1):  # 1 is a run that the machine disturbed: its figures count
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")


def figures(setting: Setting, run: Path) -> dict[str, float]:
    """Return error, prediction and measurement of one pass through each variant's rounds."""
    found: dict[str, float] = {}
    for file in sorted(run.glob("variants/*/1/summary.json")):
        cycle: Mapping[str, Any] = json.loads(file.read_text())["cycle"]
        name = f"{setting}: {json.loads((file.parent / 'manifest.json').read_text())['variant']}"
        found[f"{name}: predicted"] = cycle["predicted_s"]
        found[f"{name}: measured"] = cycle["median_s"]
        found[f"{name}: error"] = cycle["error_pct"]
    if not found:
        raise SystemExit(f"{run} has no finished training")
    return found


def figure_of(name: str) -> Figure:
    """What is known of a figure before it is measured."""
    setting = name.partition(":")[0]
    if name == MEAN_ERROR:
        return Figure("%", "prediction error", Goal(10))
    if name == WORST_ERROR or name.endswith(": error"):
        return Figure("%", "prediction error", Goal(25))
    return Figure("s", f"{setting} seconds for an exact mean")


def rows_of(samples: Samples) -> list[Row]:
    """The mean and the largest error of every repetition, then each figure."""
    errors = [values for name, values in samples.items() if name.endswith(": error")]
    each = [[abs(error) for error in repetition] for repetition in zip(*errors, strict=True)]
    overall = {
        MEAN_ERROR: [sum(repetition) / len(repetition) for repetition in each],
        WORST_ERROR: [max(repetition) for repetition in each],
    }
    return [
        row_of(name, values, figure_of(name)) for name, values in {**overall, **samples}.items()
    ]


def main(argv: Sequence[str]) -> int:
    """Measure and report; the exit code says whether every goal was met."""
    options = arguments(str(__doc__).partition("\n")[0], repeat=1).parse_args(argv)
    chosen = [one for one in SETTINGS if options.only in str(one)]
    samples = measure([partial(carry_out, one) for one in chosen], options.repeat)
    return conclude(rows_of(samples), "prediction", options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
