"""What a worker is told: its rank, its peers and the interface it must use. Pure.

The names are those that `torchrun` sets, so a script which runs under `torchrun` runs here
unchanged. Gloo is given one concrete interface, because by default it listens on whatever its host
name resolves to, which on many machines is a loopback address that no peer can reach.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from controller.fabric import ISLAND_INTERFACE, Fabric
from topologies.errors import UserError

MASTER_PORT = 29500


def worker_environments(
    fabric: Fabric,
    rank_order: Sequence[str],
    *,
    master_port: int = MASTER_PORT,
    python_path: Iterable[Path] = (),
    threads: int = 1,
    extra: Mapping[str, str] | None = None,
) -> dict[str, dict[str, str]]:
    """Return the environment of the worker at each site, one worker an island.

    Args:
        fabric: addresses of the islands.
        rank_order: site codes; a site's place is its rank, and rank 0 hosts the rendezvous.
        master_port: TCP port of the rendezvous.
        python_path: folders for PYTHONPATH, as seen on the island.
        threads: threads a worker may compute with.
        extra: further variables, the same everywhere; they win.

    Raises:
        UserError: for an empty or repeating order, or a site that the fabric lacks.
    """
    if not rank_order:
        raise UserError("a training needs at least one site")
    if len(set(rank_order)) != len(rank_order):
        raise UserError(f"a site has two ranks in {', '.join(rank_order)}; each site has one")
    shared = {
        "WORLD_SIZE": str(len(rank_order)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": fabric.island_management_ip(rank_order[0]),
        "MASTER_PORT": str(master_port),
        "GLOO_SOCKET_IFNAME": ISLAND_INTERFACE,
        "TP_SOCKET_IFNAME": ISLAND_INTERFACE,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "ATOLL_SITES": ",".join(rank_order),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(map(str, python_path)),
        **(extra or {}),
    }
    for site in rank_order:
        fabric.index(site)
    return {
        site: {"RANK": str(rank), "ATOLL_SITE": site, **shared}
        for rank, site in enumerate(rank_order)
    }


def command_line(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> str:
    """Return one shell command that runs `argv` with an environment, in a folder.

    Every word is quoted, so nothing in it is taken for shell syntax.
    """
    settings = [f"{name}={value}" for name, value in sorted((environment or {}).items())]
    command = shlex.join(["env", *settings, *argv] if settings else list(argv))
    return command if directory is None else f"cd {shlex.quote(directory)} && {command}"
