"""Files in and out of islands as tar archives.

One archive is one transfer, whatever the number of files, and keeps their modes. What comes back
from an island is not trusted: files and folders are unpacked, nothing else, and a name that leads
out of the target folder is refused. Python's own filters do this too (PEP 706), but the Python of
Debian 12 is older than they are.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from topologies.errors import RunError, UserError

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
    """Unpack the files and folders of an archive that an island made into `folder`.

    Raises:
        RunError: for a name that leads out of `folder`.
    """
    with tarfile.open(archive, "r") as tar:
        members = tar.getmembers()
        for member in members:
            _refuse_escape(member.name)
        folder.mkdir(parents=True, exist_ok=True)
        for member in members:
            _unpack_member(tar, member, folder / member.name)


def _refuse_escape(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise RunError(f"an island sent a file named {name!r}, which leads out of its folder")


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None  # only links and devices have none
        target.parent.mkdir(parents=True, exist_ok=True)
        with content, target.open("wb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(member.mode & 0o777)
