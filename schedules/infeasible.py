"""Why no plan exists: the smallest set of limits that clash, in one line.

Limits are taken away one after the other; where there is still no plan without one, it is not to
blame and stays away. What is left clashes: taking any single one of them away makes a plan possible
(the deletion filter for irreducible infeasible subsets, Chinneck and Dravnieks, ORSA J. Computing
3, 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from schedules.problem import Problem
from schedules.solution import (
    CONSENSUS_OBJECTIVE,
    EXCHANGE_OBJECTIVE,
    FAIR_OBJECTIVE,
    MEAN_OBJECTIVE,
)
from schedules.solve import Solved, enumerable, shortest_round_s, solve
from schedules.watch import Watch

TRIAL_SECONDS = 20.0
WHAT_FAILS = {
    EXCHANGE_OBJECTIVE: "no round is possible",
    FAIR_OBJECTIVE: "some pair of islands can never meet",
    MEAN_OBJECTIVE: "no cycle of rounds gives every island the exact mean",
    CONSENSUS_OBJECTIVE: "the islands can never all agree",
}
Limits = Mapping[str, Callable[[Problem], Problem]]


def why_infeasible(problem: Problem) -> str:
    """Return which limits clash, and where one of them lies if it stands alone."""
    clashing = _clash(problem)
    names = " and ".join(clashing) or "the network itself"
    verb = "clash" if len(clashing) > 1 else "cannot be kept"
    failure = WHAT_FAILS[problem.objective]
    return f"infeasible on {problem.topology.name}: {names} {verb}: {failure}{_hint(problem)}"


def limits_of(problem: Problem) -> Limits:
    """Return every limit that a problem sets, by name and value, with what takes it away."""
    found: dict[str, Callable[[Problem], Problem]] = {}
    constraints, offered = problem.constraints, problem.capabilities
    for name, without in constraints.active().items():
        field = name.split()[0]
        found[name] = _without_constraint(field, getattr(without, field))
    if constraints.compute_s and constraints.max_round_s is not None:
        found[f"compute_s {constraints.compute_s:g}"] = _without_constraint("compute_s", 0.0)
    if problem.collective is not None:
        found[f"collective {problem.collective}"] = lambda p: p.changed(collective=None)
    for field in ("max_groups", "accelerators", "multicast_links"):
        value = getattr(offered, field)
        if value is not None:
            text = str(value) if field == "max_groups" else ",".join(map(_plain, sorted(value)))
            found[f"{field} {text or 'none'}"] = _without_capability(field)
    return found


def _plain(name: str | tuple[str, str]) -> str:
    return name if isinstance(name, str) else "-".join(name)


def _without_constraint(field: str, value: Any) -> Callable[[Problem], Problem]:
    return lambda problem: problem.changed(
        constraints=replace(problem.constraints, **{field: value})
    )


def _without_capability(field: str) -> Callable[[Problem], Problem]:
    nothing: dict[str, Any] = {field: None}
    return lambda problem: problem.changed(capabilities=replace(problem.capabilities, **nothing))


def _clash(problem: Problem) -> list[str]:
    limits = limits_of(problem)
    kept = list(limits)
    for name in list(limits):
        fewer = [other for other in kept if other != name]
        if _solved(_with_only(problem, limits, fewer)) is None:
            kept = fewer
    return kept


def _with_only(problem: Problem, limits: Limits, kept: list[str]) -> Problem:
    for name, take_away in limits.items():
        if name not in kept:
            problem = take_away(problem)
    return problem


def _solved(problem: Problem) -> Solved | None:
    return solve(problem, Watch(limit_s=TRIAL_SECONDS))


def _hint(problem: Problem) -> str:
    """Say how long a round would have to be allowed to last, where a limit on it is set."""
    if problem.constraints.max_round_s is None:
        return ""
    freed = problem.changed(constraints=replace(problem.constraints, max_round_s=None))
    if problem.objective == EXCHANGE_OBJECTIVE and enumerable(problem):
        return f" (the shortest round takes {shortest_round_s(freed):.4g} s)"
    solved = _solved(freed)
    if solved is None:
        return ""
    longest = max(one.seconds for one in solved.solution.rounds)
    return f" (without max_round_s the best plan has a round of {longest:.4g} s)"
