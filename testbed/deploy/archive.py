"""Files in and out of islands as tar archives.

One archive is one transfer, whatever the number of files, and keeps their modes. What comes back
from an island is unpacked with Python's `data` filter (PEP 706), which refuses paths that leave the
target folder: nothing that an island sends can write elsewhere on the host.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

from topologies.errors import UserError

_LEFT_OUT = frozenset({"__pycache__", ".git", ".venv", ".mypy_cache", ".ruff_cache"})


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if _LEFT_OUT & set(Path(member.name).parts):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def pack(sources: Iterable[Path], archive: Path) -> int:
    """Write files and folders, each under its own name, into a new tar archive.

    Caches, virtual environments and version control data inside folders are left out.

    Returns:
        The archive's size in bytes.

    Raises:
        UserError: when a source does not exist.
    """
    with tarfile.open(archive, "w") as tar:
        for source in sources:
            if not source.exists():
                raise UserError(f"{source}: no such file or folder to push to the islands")
            tar.add(source, arcname=source.name, filter=_wanted)
    return archive.stat().st_size


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that an island made into `folder`, and nowhere else."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r") as tar:
        tar.extractall(folder, filter="data")
