"""Which experiment a comparison is of: a file, or the default one on somebody's topology.

On another topology than its own, the default experiment keeps its emulated rates: links of another
network are scaled until the fastest of them is as fast as the fastest in the file's own network.
So the machine has the same work, whatever the network's real rates are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

import testbed
from schedules.capabilities import RING
from testbed.experiment.file import load_experiment
from testbed.experiment.model import Experiment, PlanChoice, Variant
from testbed.launch import default_rate_scale
from topologies.document import read_yaml
from topologies.errors import UserError
from topologies.files import available, load, read_file
from topologies.model import Topology

DEFAULT_NAME = "experiments/compare.yaml"
SITES = "sites"


def default_file() -> Path:
    """Return the experiment that is compared when none is named."""
    folders = (Path(), Path(testbed.__file__).resolve().parents[1])
    for folder in folders:
        if (folder / DEFAULT_NAME).is_file():
            return folder / DEFAULT_NAME
    raise UserError(f"{DEFAULT_NAME} is not here; name an experiment's file")


def comparison_asked(
    what: str,
    *,
    repetitions: int | None = None,
    rate_scale: float | None = None,
    settings: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> Experiment:
    """Return the experiment that somebody wants compared, a ring of everybody among its variants.

    Args:
        what: an experiment's file, or a topology's name or file for the default experiment.
        repetitions: of every variant, in place of the file's.
        rate_scale: emulated rate / real rate, in place of the file's.
        settings: as `rounds=1`, in place of what the file says.
        variants: names of those that are wanted; all without any.

    Raises:
        UserError: there is no such thing, or something in it is wrong.
    """
    file, path, asked = default_file(), Path(what), list[str]()
    if what not in available() and path.is_file() and not _is_topology(path):
        file = path
    else:
        asked += _on(what, load_experiment(file))
    asked += settings  # later ones win
    if repetitions is not None:
        asked.append(f"repetitions={repetitions}")
    if rate_scale is not None:
        asked.append(f"rate_scale={rate_scale!r}")
    whole = load_experiment(file, asked)
    return with_ring(load_experiment(file, asked, _wanted(whole, variants)))


def _wanted(experiment: Experiment, names: Sequence[str]) -> list[str]:
    """Return the names of the variants that are wanted, and of the ring that comes with them."""
    rings = [x.name for x in experiment.variants if is_ring(x) and x.name not in names]
    return [*names, *rings[:1]] if names else []


def _is_topology(path: Path) -> bool:
    data = read_yaml(read_file(str(path)), str(path)).data
    return isinstance(data, dict) and SITES in data


def _on(what: str, default: Experiment) -> list[str]:
    """Return the settings that carry the default experiment over to another topology."""
    own, other = load(default.topology), load(what)
    rate_scale = default.rate_scale or default_rate_scale(own)
    name = what if what in available() else str(Path(what).resolve())
    scaled = rate_scale * _fastest_mbps(own) / _fastest_mbps(other)
    return [f"topology={name}", f"rate_scale={scaled!r}"]


def _fastest_mbps(topology: Topology) -> float:
    return max(spec.rate_mbps for spec in topology.wan_directions().values())


def with_ring(experiment: Experiment) -> Experiment:
    """Return the experiment with a ring of everybody in it, which is what people use today."""
    if any(is_ring(variant) for variant in experiment.variants):
        return experiment
    taken = {variant.name for variant in experiment.variants}
    names = chain((RING, "best-ring"), (f"ring-{number}" for number in count(2)))
    name = next(n for n in names if n not in taken)
    ring = replace(
        experiment.variants[0],
        name=name,
        capability="unicast",
        collective="ring",
        plan=PlanChoice(full_clique=True),
    )
    return replace(experiment, variants=(*experiment.variants, ring))


def is_ring(variant: Variant) -> bool:
    """Whether a variant is a ring of all islands in every round."""
    return variant.collective == RING and variant.plan.full_clique
