"""When something is compiled, and what is said where it cannot be."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.accelerator import build as accelerator
from testbed.links.linkd import build as linkd
from workloads.building import Recipe
from workloads.innetwork import build as endpoint


class NotBuiltError(Exception):
    """What the recipes of these tests raise."""


def recipe(folder: Path, source: str = "int main(void) { return 0; }") -> Recipe:
    (folder / "main.c").write_text(source)
    (folder / "main.h").write_text("")
    return Recipe(
        "it", folder / "build" / "it", (folder / "main.c",), (folder,), ("-O0",), NotBuiltError
    )


def set_age(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


@pytest.mark.parametrize("newer", ["main.c", "main.h"])
def test_a_product_is_fresh_until_a_source_or_header_is_newer(tmp_path: Path, newer: str) -> None:
    made = recipe(tmp_path)
    assert not made.is_fresh()
    set_age(made.build(), 200)
    for name in ("main.c", "main.h"):
        set_age(tmp_path / name, 100)
    assert made.is_fresh()
    set_age(tmp_path / newer, 300)
    assert not made.is_fresh()


@pytest.mark.parametrize("made", [linkd.RECIPE, accelerator.RECIPE, endpoint.RECIPE])
def test_building_twice_compiles_once(made: Recipe) -> None:
    first = made.ensure_built().stat()
    assert made.ensure_built().stat().st_mtime_ns == first.st_mtime_ns


def test_a_source_that_does_not_compile_is_told_in_one_line(tmp_path: Path) -> None:
    made = recipe(tmp_path, "int main(void) { return nothing; }")
    with pytest.raises(NotBuiltError, match=r"^it does not compile: .*nothing[^\n]*$"):
        made.build()
    assert list((tmp_path / "build").iterdir()) == []


def test_without_a_compiler_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(NotBuiltError, match="no C compiler to build it with: apt-get install gcc"):
        recipe(tmp_path).ensure_built()


@pytest.mark.parametrize("old_will_do", [False, True])
def test_without_a_compiler_an_old_product_is_taken_only_where_it_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old_will_do: bool
) -> None:
    made = replace(recipe(tmp_path), old_will_do=old_will_do)
    set_age(made.build(), 50)
    monkeypatch.setattr("shutil.which", lambda name: None)
    if old_will_do:
        assert made.ensure_built() == made.product
        return
    with pytest.raises(NotBuiltError):
        made.ensure_built()
