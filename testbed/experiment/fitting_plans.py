"""Plans that a variant cannot run: asked for in two ways at once, or read from a wrong file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from schedules.capabilities import (
    AGGREGATION,
    INNETWORK,
    MULTICAST,
    TREE_COLLECTIVES,
    Capabilities,
)
from schedules.plan import Plan, PlannedRound
from testbed.experiment.misfit import Found, no_site
from testbed.experiment.model import PlanChoice, Variant
from topologies.checks import listed
from topologies.document import Path as Place
from topologies.errors import UserError
from topologies.model import Topology

WAYS = ("objective", "rounds", "file")
SIZES = ("clique_size", "min_clique", "max_clique")
SEARCHED = ("objective", "full_clique", *SIZES, "max_round_s", "time_limit_s")


def plan_misfits(variant: Variant, topology: Topology) -> Iterator[Found]:
    """Yield what is wrong with a variant's plan."""
    choice = variant.plan
    yield from _in_two_ways(choice)
    yield from _clique_limits(choice, topology)
    for place, one in enumerate(choice.rounds or ()):
        yield from _cliques(one.cliques, ("plan", "rounds", place, "cliques"), topology)
    if choice.file is not None:
        yield from _plan_file(Path(choice.file), variant, topology)


def _in_two_ways(choice: PlanChoice) -> Iterator[Found]:
    """Yield what leaves open which plan is meant: rounds or a file leave nothing to search."""
    given = [name for name in WAYS if getattr(choice, name) is not None]
    if len(given) > 1:
        yield ("plan", given[1]), f"{given[0]} is given too", "keep one of them"
    for fixed in ("rounds", "file"):
        if getattr(choice, fixed) is not None:
            for name in SEARCHED:
                if getattr(choice, name):
                    yield ("plan", name), f"{fixed} is given too", "keep one of them"


def _clique_limits(choice: PlanChoice, topology: Topology) -> Iterator[Found]:
    sizes = [name for name in SIZES if getattr(choice, name)]
    if choice.full_clique and sizes:
        yield ("plan", sizes[0]), "full_clique is given too", "keep one of them"
    if choice.clique_size is not None and len(sizes) > 1:
        yield ("plan", sizes[1]), "clique_size is given too", "keep one of them"
    for name in sizes:
        if getattr(choice, name) > len(topology.codes) and name != "max_clique":
            wrong = f"{getattr(choice, name)} is more than {topology.name} has"
            yield ("plan", name), wrong, f"it has {len(topology.codes)} islands"
    fewest, most = choice.min_clique, choice.max_clique
    if fewest is not None and most is not None and most < fewest:
        wrong = f"{most} is less than min_clique, {fewest}"
        yield ("plan", "max_clique"), wrong, f"give {fewest} or more"


def _cliques(cliques: Iterable[Iterable[str]], path: Place, topology: Topology) -> Iterator[Found]:
    seen: set[str] = set()
    for number, clique in enumerate(cliques):
        members = list(clique)
        if len(members) < 2:
            yield (*path, number), "a clique of fewer than two", "leave an island out: it is idle"
        for code in members:
            if code not in topology.codes:
                yield (*path, number), *no_site(code, topology)
            elif code in seen:
                yield (*path, number), f"{code} is in the round twice", "cliques are disjoint"
            seen.add(code)


# --- a plan from a file ---------------------------------------------------------------------------


def _plan_file(file: Path, variant: Variant, topology: Topology) -> Iterator[Found]:
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
    for wrong, right in (*_not_permitted(found, variant), *_incomplete(found, topology)):
        yield where, f"{file.name} {wrong}", right


def read_plan(file: Path) -> Plan:
    """Read a plan; raises UserError when there is none."""
    try:
        return Plan.from_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def plan_sites(plan: Plan) -> set[str]:
    """Return every site that a plan names."""
    return {code for one in plan.rounds for clique in one.cliques for code in clique}


def _not_permitted(plan: Plan, variant: Variant) -> Iterator[tuple[str, str]]:
    """Yield kinds that the variant's network cannot do, or that it does not ask for."""
    permitted = Capabilities.parse(variant.capability).collectives
    for kind in dict.fromkeys(one.collective for one in plan.rounds):
        if kind not in permitted:
            wrong = f"uses {kind}, which capability {variant.capability} does not permit"
            yield wrong, f"it permits {listed(permitted)}"
        elif variant.collective not in (None, kind):
            yield f"uses {kind}, and collective is {variant.collective}", "leave collective out"


def _incomplete(plan: Plan, topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield what a plan lacks that was written whole, and changed since."""
    whole = "make it anew with `atoll plan`"
    lacking = sorted(set(topology.codes) - set(plan.ring.order))
    if lacking:
        yield f": ring.order lacks {listed(lacking)}", whole
    links = {frozenset((link.a, link.b)) for link in topology.links}
    for number, one in enumerate(plan.rounds):
        for place, tree in enumerate(one.trees):
            for a, b in tree.hops:
                if frozenset((a, b)) not in links:
                    yield f": rounds.{number}.trees.{place}: no link {a}-{b}", whole
        for missing in trees_missing(one):
            yield f": rounds.{number} has no tree for {missing}", whole


def trees_missing(planned: PlannedRound) -> Iterator[str]:
    """Yield whose tree a round lacks: every member's own, or one of each kind for all of a clique.

    Members of `multicast` send down a tree of their own, those of `aggregation` hear one; sums in
    the network go up one tree of the clique and down another.
    """
    kind = planned.collective
    if kind not in TREE_COLLECTIVES:
        return
    for number, clique in enumerate(planned.cliques):
        trees = [tree for tree in planned.trees if tree.clique == number]
        if kind == INNETWORK:
            there = {tree.kind for tree in trees}
            yield from (",".join(clique) for one in (AGGREGATION, MULTICAST) if one not in there)
        else:
            roots = {tree.root for tree in trees if tree.kind == kind}
            yield from (site for site in clique if site not in roots)
