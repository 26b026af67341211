"""Where the workers meet, and which of them this one is: the variables that `torchrun` sets.

The same four variables (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`) start a worker by
hand, under `torchrun` or on an emulated island; without any of them the worker is alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.errors import UsageError

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@dataclass(frozen=True)
class Endpoint:
    """A worker's rank, and the address at which all workers of the job meet.

    `agent_keeps_store` is true under `torchrun`, whose agent serves the store at that address;
    otherwise the worker of rank 0 does.
    """

    rank: int
    world_size: int
    address: str
    port: int
    agent_keeps_store: bool = False

    @property
    def keeps_store(self) -> bool:
        """Whether this worker is the one that serves the store."""
        return self.rank == 0 and not self.agent_keeps_store

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Endpoint:
        """Read the endpoint from the variables that `torchrun` sets.

        Raises:
            UsageError: some but not all variables are set, or one is out of its range.
        """
        given = [name for name in ALONE if environ.get(name)]
        if not given:
            environ = ALONE
        elif len(given) < len(ALONE):
            absent = ", ".join(name for name in ALONE if name not in given)
            raise UsageError(f"{', '.join(given)} set but not {absent}: set all four or none")
        world_size = _integer(environ, "WORLD_SIZE", 1, 100_000)
        return cls(
            rank=_integer(environ, "RANK", 0, world_size - 1),
            world_size=world_size,
            address=environ["MASTER_ADDR"],
            port=_integer(environ, "MASTER_PORT", 0 if world_size == 1 else 1, 65_535),
            agent_keeps_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )


def _integer(environ: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = environ[name]
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise UsageError(f"{name}={text}: give a whole number from {least} to {most}")
    return value
