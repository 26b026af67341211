"""Something in an experiment that does not fit, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topologies.checks import closest, listed
from topologies.document import Path as Place
from topologies.model import Topology

Found = tuple[Place, str, str]


@dataclass(frozen=True)
class Misfit:
    """Something that does not fit, where, and what would; `variant` None is the experiment."""

    variant: int | None
    path: Place
    wrong: str
    right: str


def no_site(site: str, topology: Topology) -> tuple[str, str]:
    """Return what to say of a site that a network does not have."""
    guess = closest(site, topology.codes)
    hint = f"did you mean {guess}? sites" if guess else "sites"
    return f"no site {site!r} in {topology.name}", f"{hint} are {listed(topology.codes)}"


def repeated(names: Sequence[str], path: Place) -> Iterator[Found]:
    """Yield names that stand in a list for the second time."""
    for number, name in enumerate(names):
        if name in names[:number]:
            yield (*path, number), f"{name} is given already", "name each once"
