"""The records of a small experiment, written as a run writes them, with figures made up by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SITES = ["AMS", "FRA", "LON"]
FULL = [[SITES]]
PAIRS = [[["AMS", "FRA"]], [["FRA", "LON"]]]


def summary(
    seconds: float, target_s: float | None, *, rounds: int, valid: bool = True, asked: bool = True
) -> dict[str, Any]:
    rows = [
        {
            "round": n,
            "plan_round": n % rounds,
            "round_s": seconds / rounds + 1,
            "exposed_s": 0.5,
            "ratio": 1.25,
            "consensus_distance": 0.01,
            "link_bytes": {"AMS>FRA": 100 * (n % rounds + 1), "AMS.island>AMS": 999},
        }
        for n in range(4)
    ]
    return {
        "valid": valid,
        "reasons": [] if valid else ["the machine was busy"],
        "islands": 3,
        "rounds": rows,
        "link_bytes": {"AMS>FRA": {}, "AMS.island>AMS": {}},
        "time_to_target": {"target_loss": 3.5, "seconds": target_s} if asked else None,
        "cycle": {"predicted_s": 1.1 * seconds, "median_s": seconds, "error_pct": -9.0},
        "prediction": {"mean_abs_error_pct": 9.0},
    }


class Experiment:
    """A run with variants, made variant by variant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] = []

    def variant(
        self,
        name: str,
        seconds: Sequence[float],
        *,
        collective: str = "exchange",
        capability: str = "unicast",
        rounds: Sequence[Any] = FULL,
        targets: Sequence[float | None] = (),
        invalid: Sequence[int] = (),
        asked: bool = True,
    ) -> None:
        self.names.append(name)
        plan_rounds = [{"cliques": cliques, "collective": collective} for cliques in rounds]
        plan = {"rounds": plan_rounds, "cycle": list(range(len(rounds)))}
        for place, value in enumerate(seconds):
            folder = self.path / "variants" / name / str(place + 1)
            folder.mkdir(parents=True)
            manifest = {"plan": plan, "capability": capability, "seeds": {"run": 1 + place}}
            (folder / "manifest.json").write_text(json.dumps(manifest))
            target = targets[place] if targets else 10 * value
            made = summary(
                value, target, rounds=len(rounds), valid=place + 1 not in invalid, asked=asked
            )
            (folder / "summary.json").write_text(json.dumps(made))
        manifest = {
            "topology": "three_city",
            "experiment": {"name": "small", "variants": [{"name": x} for x in self.names]},
        }
        (self.path / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path)


@pytest.fixture
def usual(experiment: Experiment) -> Experiment:
    """Four variants, three repetitions of each."""
    experiment.variant("exchange", [6.0, 6.06, 5.94])
    experiment.variant("ring", [2.0, 2.02, 1.98], collective="ring")
    experiment.variant("pairs", [3.0, 3.3, 2.7], rounds=PAIRS)
    experiment.variant(
        "both", [1.0, 1.01, 0.99], collective="innetwork", capability="multicast+aggregation"
    )
    return experiment
