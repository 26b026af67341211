"""The manifest: what a run can be repeated from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest

import testbed.record
from testbed.record.manifest import (
    RunDescription,
    collect_manifest,
    first_line,
    git_state,
    machine,
    python_versions,
)

SCHEMA = json.loads(
    (Path(testbed.record.__file__).parent / "schemas" / "manifest.schema.json").read_text()
)
DESCRIPTION = RunDescription(
    run_id="20250301T000000Z-nine_city-0001",
    topology="nine_city",
    rate_scale=0.01,
    seeds={"run": 1},
    datapath="userspace",
    link_backend="linkd",
    congestion_control="cubic",
    command="atoll emulate nine_city --seed 1",
    plan={"collective": "ring", "order": ["LON", "NYC"]},
    settings={"rounds": 6},
)


def test_a_manifest_is_what_its_published_schema_says() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(collect_manifest(DESCRIPTION), SCHEMA)


def test_what_was_chosen_stands_in_the_manifest() -> None:
    manifest = collect_manifest(DESCRIPTION)
    chosen = ("run_id", "rate_scale", "seeds", "congestion_control", "command", "plan", "settings")
    assert {name: manifest[name] for name in chosen} == {
        name: getattr(DESCRIPTION, name) for name in chosen
    }


def test_the_schema_refuses_a_manifest_without_seeds() -> None:
    manifest = collect_manifest(DESCRIPTION)
    del manifest["seeds"]
    with pytest.raises(jsonschema.ValidationError, match="'seeds' is a required property"):
        jsonschema.validate(manifest, SCHEMA)


def test_versions_are_those_of_what_is_imported() -> None:
    versions = python_versions()
    assert versions["python"] == platform.python_version()
    assert versions["numpy"] == metadata.version("numpy")


def test_the_machine_is_the_one_that_runs() -> None:
    assert machine()["kernel"] == os.uname().release
    assert 1 <= machine()["cores"] <= (os.cpu_count() or 1)


def test_a_program_that_is_not_there_has_no_version() -> None:
    assert first_line(["/nonexistent/program", "--version"]) == ""


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_tree_is_dirty_as_soon_as_a_file_differs_from_its_commit(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "-q", "-m", "first")
    commit = _git(tmp_path, "rev-parse", "HEAD").strip()
    assert git_state(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("2")
    assert git_state(tmp_path) == {"commit": commit, "dirty": True}


def test_a_tree_without_git_has_no_commit(tmp_path: Path) -> None:
    assert git_state(tmp_path) == {"commit": None, "dirty": None}
