"""What in an experiment does not fit together, or not its topology; found before anything is built.

Pure but for the files an experiment names, which are read here for the first time: a plan, a list
of layers. `misfits` yields in the order of the file's sections; the first becomes the user's line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from schedules.capabilities import Capabilities
from schedules.plan import Plan
from testbed.experiment.background_model import Entry, check_entry, read_traffic_matrix
from testbed.experiment.model import Experiment, Fault, PlanChoice, Variant
from topologies.checks import closest, listed
from topologies.document import Path as Place
from topologies.errors import UserError
from topologies.model import Topology


@dataclass(frozen=True)
class Misfit:
    """Something that does not fit, where, and what would; `variant` None is the experiment."""

    variant: int | None
    path: Place
    wrong: str
    right: str


def misfits(experiment: Experiment, topology: Topology) -> Iterator[Misfit]:
    """Yield what does not fit."""
    yield from _unknown_sites(experiment, topology)
    yield from _beside(experiment, topology)
    for number, fault in enumerate(experiment.faults):
        yield from _fault(experiment, fault, ("faults", number), topology)
    for number, variant in enumerate(experiment.variants):
        yield from _variant(variant, number, topology)


def _unknown_sites(experiment: Experiment, topology: Topology) -> Iterator[Misfit]:
    named: list[tuple[Place, str]] = []
    for number, site in enumerate(experiment.accelerators.sites or ()):
        named.append((("accelerators", "sites", number), site))
    for number, fault in enumerate(experiment.faults):
        if fault.accelerator is not None:
            named.append((("faults", number, "accelerator"), fault.accelerator))
    for place, site in named:
        if site not in topology.codes:
            yield Misfit(None, place, *_no_site(site, topology))


def _beside(experiment: Experiment, topology: Topology) -> Iterator[Misfit]:
    entries: list[tuple[Place, Entry]] = [
        *((("background", number), one) for number, one in enumerate(experiment.background)),
        *((("tenants", number), one) for number, one in enumerate(experiment.tenants)),
    ]
    for place, entry in entries:
        try:
            check_entry(entry, topology)
        except UserError as error:
            wrong, _, right = str(error).partition("; ")
            yield Misfit(None, place, wrong, right or "mend it")
    if experiment.traffic_matrix is not None:
        read_traffic_matrix(Path(experiment.traffic_matrix), topology)


def _no_site(site: str, topology: Topology) -> tuple[str, str]:
    guess = closest(site, topology.codes)
    hint = f"did you mean {guess}? sites" if guess else "sites"
    return f"no site {site!r} in {topology.name}", f"{hint} are {listed(topology.codes)}"


def _fault(
    experiment: Experiment, fault: Fault, place: Place, topology: Topology
) -> Iterator[Misfit]:
    if (fault.link is None) == (fault.accelerator is None):
        yield Misfit(None, place, "neither of one link nor of one accelerator", "give one of them")
        return
    if fault.accelerator is not None:
        yield from _accelerator_fault(experiment, fault, place, topology)
        return
    links = [f"{link.a}-{link.b}" for link in topology.links]
    if "-".join(sorted((fault.link or "").split("-"))) not in links:
        guess = closest(fault.link or "", links) or links[0]
        wrong = f"no link {fault.link!r} in {topology.name}"
        yield Misfit(None, (*place, "link"), wrong, f"give one such as {guess}")
    if (fault.down_s is None) == (fault.change is None):
        yield Misfit(None, place, "the link neither goes down nor changes, or both", "give one")


def _accelerator_fault(
    experiment: Experiment, fault: Fault, place: Place, topology: Topology
) -> Iterator[Misfit]:
    where = (*place, "accelerator")
    if fault.accelerator not in (experiment.accelerators.sites or topology.codes):
        yield Misfit(
            None, where, f"{fault.accelerator} has no accelerator", "see accelerators.sites"
        )
    if not any(variant.uses_aggregation for variant in experiment.variants):
        yield Misfit(None, where, "no variant has aggregation", "give a capability that has it")


# --- variants -------------------------------------------------------------------------------------


def _variant(variant: Variant, number: int, topology: Topology) -> Iterator[Misfit]:
    for found in (
        *_collectives(variant),
        *_plan(variant.plan, topology),
        *_workload(variant),
        *_outer(variant),
    ):
        yield Misfit(number, *found)


Found = tuple[Place, str, str]


def _collectives(variant: Variant) -> Iterator[Found]:
    permitted = Capabilities.parse(variant.capability).collectives
    named: list[tuple[Place, str | None]] = [(("collective",), variant.collective)]
    for place, one in enumerate(variant.plan.rounds or ()):
        named.append((("plan", "rounds", place, "collective"), one.collective))
    for path, kind in named:
        if kind is not None and kind not in permitted:
            wrong = f"{kind} is not possible with capability {variant.capability}"
            yield path, wrong, f"it permits {listed(permitted)}"


def _plan(choice: PlanChoice, topology: Topology) -> Iterator[Found]:
    given = [name for name in ("objective", "rounds", "file") if getattr(choice, name) is not None]
    if len(given) > 1:
        yield ("plan", given[1]), f"{given[0]} is given too", "keep one of them"
    yield from _clique_limits(choice, topology)
    for place, one in enumerate(choice.rounds or ()):
        yield from _cliques(one.cliques, ("plan", "rounds", place, "cliques"), topology)
    if choice.file is not None:
        yield from _plan_file(Path(choice.file), topology)


def _clique_limits(choice: PlanChoice, topology: Topology) -> Iterator[Found]:
    sizes = [name for name in ("clique_size", "min_clique", "max_clique") if getattr(choice, name)]
    if choice.full_clique and sizes:
        yield ("plan", sizes[0]), "full_clique is given too", "keep one of them"
    if choice.clique_size is not None and len(sizes) > 1:
        yield ("plan", sizes[1]), "clique_size is given too", "keep one of them"
    for name in sizes:
        if getattr(choice, name) > len(topology.codes) and name != "max_clique":
            wrong = f"{getattr(choice, name)} is more than {topology.name} has"
            yield ("plan", name), wrong, f"it has {len(topology.codes)} islands"


def _cliques(cliques: Iterable[Iterable[str]], path: Place, topology: Topology) -> Iterator[Found]:
    seen: set[str] = set()
    for number, clique in enumerate(cliques):
        members = list(clique)
        if len(members) < 2:
            yield (*path, number), "a clique of fewer than two", "leave an island out: it is idle"
        for code in members:
            if code not in topology.codes:
                yield (*path, number), *_no_site(code, topology)
            elif code in seen:
                yield (*path, number), f"{code} is in the round twice", "cliques are disjoint"
            seen.add(code)


def _plan_file(file: Path, topology: Topology) -> Iterator[Found]:
    where: Place = ("plan", "file")
    try:
        found = read_plan(file)
    except UserError as error:
        yield where, str(error), "give what `atoll plan --json` wrote"
        return
    strangers = sorted(plan_sites(found) - set(topology.codes))
    if found.topology != topology.name or strangers:
        wrong = f"{file.name} is a plan for {found.topology}"
        yield where, wrong, f"make one for {topology.name} with `atoll plan {topology.name} --json`"


def read_plan(file: Path) -> Plan:
    """Read a plan; raises UserError when there is none."""
    try:
        return Plan.from_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def plan_sites(plan: Plan) -> set[str]:
    """Return every site that a plan names."""
    return {code for one in plan.rounds for clique in one.cliques for code in clique}


def _workload(variant: Variant) -> Iterator[Found]:
    workload = variant.workload
    if workload.preset is not None and workload.kind != "characters":
        wrong = f"{workload.kind} has no presets"
        yield ("workload", "preset"), wrong, "leave it out, or choose kind: characters"
    if workload.kind == "replay" and workload.layers is None:
        yield ("workload", "layers"), "missing", "replay needs a CSV file of layers"
    if workload.kind != "replay":
        for name, unset in (("layers", None), ("compute_scale", 1.0), ("message_scale", 1.0)):
            if getattr(workload, name) != unset:
                yield ("workload", name), f"{workload.kind} has none", "only replay has"


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
