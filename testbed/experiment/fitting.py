"""What in an experiment does not fit together, or not its topology; found before anything is built.

Pure but for the files an experiment names, which are read here for the first time: a plan, a list
of layers, a traffic matrix. `misfits` yields in the order of the file's sections; the first becomes
the user's line. Faults and plans have modules of their own, `fitting_faults`, `fitting_plans`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from schedules.capabilities import Capabilities
from testbed.experiment.background_model import Entry, check_entry, read_traffic_matrix
from testbed.experiment.fitting_faults import fault_misfits
from testbed.experiment.fitting_plans import plan_misfits, read_plan
from testbed.experiment.misfit import Found, Misfit, no_site, repeated
from testbed.experiment.model import Experiment, Variant
from testbed.launch import check_links, checked_scale
from topologies.checks import listed
from topologies.document import Path as Place
from topologies.errors import UserError
from topologies.model import Topology
from workloads.errors import WorkloadError
from workloads.replay.layers import bucket_sizes, load_layers

__all__ = ["Misfit", "misfits", "read_plan"]
REPLAY = "replay"


def misfits(experiment: Experiment, topology: Topology) -> Iterator[Misfit]:
    """Yield what does not fit."""
    scale = checked_scale(experiment.rate_scale, topology)
    emulated = topology.scaled(scale)
    # One after the other, so that what comes first is told before a later file is even opened.
    for found in chain(
        _links(emulated),
        _accelerators(experiment, topology),
        _beside(experiment, topology),
        fault_misfits(experiment, emulated, scale),
    ):
        yield Misfit(None, *found)
    for number, variant in enumerate(experiment.variants):
        for found in chain(
            _collectives(variant),
            plan_misfits(variant, topology),
            _workload(variant),
            _outer(variant),
        ):
            yield Misfit(number, *found)


def _links(emulated: Topology) -> Iterator[Found]:
    try:
        check_links(emulated)
    except UserError as error:
        wrong = str(error).removeprefix(f"{emulated.name}: ")
        yield ("rate_scale",), wrong, "give another scale"


def _accelerators(experiment: Experiment, topology: Topology) -> Iterator[Found]:
    sites, path = experiment.accelerators.sites or (), ("accelerators", "sites")
    for number, site in enumerate(sites):
        if site not in topology.codes:
            yield (*path, number), *no_site(site, topology)
    yield from repeated(sites, path)


def _beside(experiment: Experiment, topology: Topology) -> Iterator[Found]:
    entries: list[tuple[Place, Entry]] = [
        *((("background", number), one) for number, one in enumerate(experiment.background)),
        *((("tenants", number), one) for number, one in enumerate(experiment.tenants)),
    ]
    for place, entry in entries:
        try:
            check_entry(entry, topology)
        except UserError as error:
            wrong, _, right = str(error).partition("; ")
            yield place, wrong, right
    if experiment.traffic_matrix is not None:
        yield from _no_file(experiment.traffic_matrix, ("traffic_matrix",))
        read_traffic_matrix(Path(experiment.traffic_matrix), topology)


def _no_file(name: str, path: Place) -> Iterator[Found]:
    if not Path(name).is_file():
        yield path, f"{name}: no such file", "give a path from the folder of the experiment"


# --- variants -------------------------------------------------------------------------------------


def _collectives(variant: Variant) -> Iterator[Found]:
    permitted = Capabilities.parse(variant.capability).collectives
    named: list[tuple[Place, str | None]] = [(("collective",), variant.collective)]
    for place, one in enumerate(variant.plan.rounds or ()):
        named.append((("plan", "rounds", place, "collective"), one.collective))
    for path, kind in named:
        if kind is not None and kind not in permitted:
            wrong = f"{kind} is not possible with capability {variant.capability}"
            yield path, wrong, f"it permits {listed(permitted)}"


def _workload(variant: Variant) -> Iterator[Found]:
    workload = variant.workload
    if workload.preset is not None and workload.kind != "characters":
        wrong = f"{workload.kind} has no presets"
        yield ("workload", "preset"), wrong, "leave it out, or choose kind: characters"
    if workload.kind == REPLAY:
        yield from _replay(variant)
    else:
        for name, unset in (("layers", None), ("compute_scale", 1.0), ("message_scale", 1.0)):
            if getattr(workload, name) != unset:
                yield ("workload", name), f"{workload.kind} has none", "only replay has"


def _replay(variant: Variant) -> Iterator[Found]:
    """Yield what a replay lacks, and what it cannot have: it trains nothing."""
    if variant.workload.layers is None:
        yield ("workload", "layers"), "missing", "replay needs a CSV file of layers"
        return
    yield from _no_file(variant.workload.layers, ("workload", "layers"))
    messages = _messages(Path(variant.workload.layers))
    if variant.overlap_fragments > messages:
        wrong = f"{variant.overlap_fragments} of the {messages} messages that the layers make"
        yield ("overlap_fragments",), wrong, "give at most as many"
    for name in ("batch_size", "learning_rate", "dirichlet_alpha"):
        if getattr(variant.workload, name) is not None:
            yield ("workload", name), "replay has none", "leave it out: nothing is trained"
    if variant.target_loss is not None:
        right = "leave it out, or train something"
        yield ("target_loss",), "a replay has no loss", right


def _messages(layers: Path) -> int:
    """Return how many messages a replay's layers make; raises UserError for a wrong list."""
    try:
        return len(bucket_sizes(load_layers(layers), 1.0))
    except WorkloadError as error:
        raise UserError(str(error)) from None


def _outer(variant: Variant) -> Iterator[Found]:
    outer = variant.outer
    if outer.kind == "none" and variant.steps != 1:
        wrong = f"{variant.steps} with outer none"
        yield ("local_steps",), wrong, "gradients are averaged at each step: give 1 or leave it out"
    for name in ("learning_rate", "momentum"):
        if getattr(outer, name) is not None and outer.kind != "diloco":
            yield ("outer", name), f"outer {outer.kind} has none", "only diloco has"
    if variant.overlap_fragments and outer.kind == "none":
        wrong = "nothing overlaps with outer none"
        yield ("overlap_fragments",), wrong, "leave it out, or choose mean or diloco"
