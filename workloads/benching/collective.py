"""The command line of a benchmark's worker: `python -m workloads.benching.collective`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from workloads.benching.settings import parse
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import INTERFACE_VARIABLE, choose_interface
from workloads.collectives.roster import Roster
from workloads.command import run_and_exit


def take_part(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Measure as one of several workers, as arguments and environment say.

    Raises:
        WorkloadError: an option or a variable is wrong, or the collective failed.
    """
    settings = parse(arguments)
    endpoint = Endpoint.from_environment(environ)
    roster = Roster.from_environment(endpoint.world_size, environ)
    interface = choose_interface(environ.get(INTERFACE_VARIABLE), endpoint.address)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    from workloads.benching import worker

    worker.run(settings, endpoint, roster, interface)


if __name__ == "__main__":
    run_and_exit(take_part)
