import os
from pathlib import Path

import pytest

from testbed.links.linkd import build
from topologies.errors import MachineError


def test_a_program_is_fresh_until_a_source_is_newer(tmp_path: Path) -> None:
    program, source = tmp_path / "program", tmp_path / "source.c"
    source.write_text("")
    assert not build.is_fresh(program, [source])
    program.write_text("")
    os.utime(source, (100, 100))
    os.utime(program, (200, 200))
    assert build.is_fresh(program, [source])
    os.utime(source, (300, 300))
    assert not build.is_fresh(program, [source])


def test_building_twice_compiles_once() -> None:
    first = build.ensure_built().stat()
    assert build.ensure_built().stat().st_mtime_ns == first.st_mtime_ns


def test_a_source_that_does_not_compile_is_told_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int main(void) { return nothing; }")
    with pytest.raises(MachineError, match=r"linkd does not compile: .*nothing"):
        build.compile_program(tmp_path / "program", [source])
    assert not (tmp_path / "program").exists()


def test_without_a_compiler_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(MachineError, match=r"no C compiler .*: apt-get install gcc"):
        build.compiler()
