from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from testbed.deploy.archive import pack, unpack
from topologies.errors import RunError, UserError


def test_files_and_folders_come_back_under_their_own_names(tmp_path: Path) -> None:
    tree = tmp_path / "code/inner"
    tree.mkdir(parents=True)
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    (tmp_path / "shard.bin").write_bytes(bytes(range(256)))
    archive = tmp_path / "a.tar"
    assert pack([tmp_path / "code", tmp_path / "shard.bin"], archive) == archive.stat().st_size
    unpack(archive, tmp_path / "there")
    assert (tmp_path / "there/shard.bin").read_bytes() == bytes(range(256))
    assert (tmp_path / "there/code/inner/run.sh").stat().st_mode & 0o777 == 0o755


def test_caches_and_environments_stay_behind(tmp_path: Path) -> None:
    for name in ("code/__pycache__", "code/.git", "code/.venv/bin", "code/room"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("x")
    pack([tmp_path / "code"], tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert {m.name for m in tar if m.isfile()} == {"code/room/file"}


def test_a_source_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: no such file"):
        pack([tmp_path / "nowhere"], tmp_path / "a.tar")


@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped", "/tmp/escaped"])
def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    with pytest.raises(RunError, match="leads out of its folder"):
        unpack(tmp_path / "evil.tar", tmp_path / "there")
    assert not (tmp_path / "escaped").exists()
    assert not Path("/tmp/escaped").exists()


def test_a_link_in_an_archive_leads_nowhere(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        link = tarfile.TarInfo("door")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        through = tarfile.TarInfo("door/escaped")
        tar.addfile(through, io.BytesIO(b""))
    unpack(tmp_path / "evil.tar", tmp_path / "there")
    assert not (tmp_path / "escaped").exists()
    assert (tmp_path / "there/door/escaped").exists()
