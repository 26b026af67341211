"""The command line of a worker: `torchrun -m workloads.training.train`, or four variables.

PyTorch takes a second to load, so that a mistake in an option is told before it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import INTERFACE_VARIABLE, choose_interface
from workloads.collectives.roster import Roster
from workloads.command import run_and_exit
from workloads.training.settings import parse


def take_part(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one worker as its arguments and environment say.

    Raises:
        WorkloadError: an option or a variable is wrong, or the job failed.
    """
    endpoint = Endpoint.from_environment(environ)
    settings = parse(arguments, endpoint.rank)
    roster = Roster.from_environment(endpoint.world_size, environ)
    requested = settings.interface or environ.get(INTERFACE_VARIABLE)
    interface = choose_interface(requested, endpoint.address)
    # PyTorch prints a stack of its own for each failure that is told in one line below.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    from workloads.training import worker

    worker.run(settings, endpoint, roster, interface)


def main() -> None:
    """Run one worker and exit: 0 done, 1 failed, 2 a mistake in an option or a variable."""
    run_and_exit(take_part)


if __name__ == "__main__":
    main()
