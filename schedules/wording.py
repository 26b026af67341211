"""The planner's complaints in the words of the command line.

Constraints and capabilities call their limits by the names of fields, which is right where a
program or an experiment's file sets them. Whoever typed options is told of options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from topologies.errors import UserError

OPTIONS = {
    "min_clique": "--clique-size from",
    "max_clique": "--clique-size to",
    "max_round_s": "--max-round-s",
    "compute_s": "--compute-s",
    "compute_factor": "--straggler",
    "max_groups": "--max-groups",
    "multicast_links": "--multicast-links",
    "accelerator rate_mbps": "--accelerator-mbps",
    "accelerator fan_in": "--fan-in",
}
_FIELD = re.compile(r"\b(" + "|".join(OPTIONS) + r")\b")
_OTHER_LIMIT = re.compile(r"\b(collective|accelerators)(?= [^ ]+ (?:and|clash|cannot be kept))")


def in_options(text: str) -> str:
    """Return a complaint with options in place of fields."""
    named = _FIELD.sub(lambda found: OPTIONS[found[1]], text)
    if not text.startswith("infeasible"):
        return named
    return _OTHER_LIMIT.sub(lambda found: f"--{found[1]}", named)


@contextmanager
def options_named() -> Iterator[None]:
    """Let a user's mistake that the body finds be told in options."""
    try:
        yield
    except UserError as error:
        raise UserError(in_options(str(error))) from None
