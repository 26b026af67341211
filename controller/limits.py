"""How much a switch holds: its own word, or less if the run says so.

Open vSwitch has room for millions of rules and groups, switching silicon often for a few thousand
rules and a few hundred groups. A network that is to behave like the latter is given its limits at
the start of the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.rules import SwitchState
from controller.view import Plan
from topologies.errors import UserError


@dataclass(frozen=True)
class Limits:
    """The most rules and groups a switch may hold, None without limit; negative is a UserError."""

    most_rules: int | None = None
    most_groups: int | None = None

    def __post_init__(self) -> None:
        for number in (self.most_rules, self.most_groups):
            if number is not None and number < 0:
                raise UserError(f"a switch cannot hold {number} entries; limits start at 0")

    def at_most(self, groups: int | None) -> Limits:
        """These limits, and the number of groups that a switch says it has room for."""
        known = [number for number in (self.most_groups, groups) if number is not None]
        return Limits(self.most_rules, min(known, default=None))

    def excess(self, site: str, state: SwitchState) -> str | None:
        """What a switch would hold too much of, in one line, or None."""
        for kind, count, most in (
            ("rules", len(state.rules), self.most_rules),
            ("groups", len(state.groups), self.most_groups),
        ):
            if most is not None and count > most:
                return f"{site}: {count} {kind}, at most {most} fit in its switch"
        return None


def check(limits: Mapping[str, Limits], states: Mapping[str, SwitchState]) -> None:
    """Raise UserError, naming switch and limit, if a switch would hold more than it may."""
    for site, state in states.items():
        excess = limits[site].excess(site, state)
        if excess is not None:
            raise UserError(excess)


def fit(
    plan: Plan,
    states_of: Callable[[Plan], Mapping[str, SwitchState]],
    limits: Mapping[str, Limits],
) -> tuple[Plan, Mapping[str, str]]:
    """The plan without the groups that do not fit, the latest first, and why each is left out.

    What was asked of the northbound interface was refused there if it did not fit. But a host's
    IGMP report cannot be refused, and a reroute may need more room than there was.
    """
    left_out: dict[str, str] = {}
    for group in (*reversed(plan.view.groups), None):
        try:
            check(limits, states_of(plan))
            break
        except UserError as error:
            if group is not None:
                left_out[group.group_ip] = str(error)
                plan = plan.without_group(group.group_ip)
    return plan, left_out
