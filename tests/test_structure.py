"""The house rules that a program can check: sizes, who may import whom, what is never written."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from schedules import capabilities
from workloads.collectives import names

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("topologies", "schedules", "controller", "workloads", "testbed")
OUTSIDE_THE_PRODUCT = ("tests", "bench", "docs", "scripts", "vm")
LONGEST_FUNCTION = 80

OWN_ROOMS_ALLOWED = {
    "topologies": set(),
    "schedules": {"topologies"},
    "controller": {"topologies", "schedules"},
    "workloads": set(),
    "testbed": {"topologies", "schedules", "controller", "workloads"},
}
EMULATION = {"mininet"}
OPENFLOW = {"os_ken", "ryu"}
TRAINING = {"torch"}
LIBRARIES_FORBIDDEN = {
    "topologies": EMULATION | OPENFLOW | TRAINING,
    "schedules": EMULATION | OPENFLOW | TRAINING,
    "controller": EMULATION | TRAINING,
    "workloads": EMULATION | OPENFLOW,
    "testbed": set(),
}
WORKLOAD_LIBRARIES = {"numpy", "torch"}
# ryu needs an environment of its own; pydantic fixes the one pydantic_core that fits it.
UNDECLARED = {"ryu", "pydantic_core"}


@cache
def tracked() -> tuple[Path, ...]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout: no telling which files are the project's")
    return tuple(Path(name) for name in done.stdout.split("\0") if (ROOT / name).is_file() and name)


@cache
def sources() -> dict[Path, ast.Module]:
    return {
        path: ast.parse((ROOT / path).read_text(), str(path), feature_version=(3, 10))
        for path in tracked()
        if path.suffix == ".py"
    }


def product() -> dict[Path, ast.Module]:
    return {path: tree for path, tree in sources().items() if path.parts[0] in ROOMS}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def imported(tree: ast.Module) -> set[str]:
    """Return every module that a file imports, with its dots."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {node.module}
    return names


def top_level(tree: ast.Module) -> set[str]:
    return {name.partition(".")[0] for name in imported(tree)}


# --- sizes ---------------------------------------------------------------------------------------


def test_no_function_is_over_80_lines() -> None:
    too_long = [
        f"{path}:{function.lineno} {function.name}: {length(function)} lines"
        for path, tree in sources().items()
        for function in functions(tree)
        if length(function) > LONGEST_FUNCTION
    ]
    assert too_long == []


def test_functions_are_small_nine_times_in_ten() -> None:
    lengths = [length(function) for tree in product().values() for function in functions(tree)]
    assert statistics.median(lengths) <= 12
    assert statistics.quantiles(lengths, n=10)[-1] <= 28


# --- who may import whom -------------------------------------------------------------------------


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_it_may(room: str) -> None:
    allowed = OWN_ROOMS_ALLOWED[room] | {room}
    wrong = [
        f"{path} imports {name}"
        for path, tree in product().items()
        if path.parts[0] == room
        for name in sorted(top_level(tree) & {*ROOMS, *OUTSIDE_THE_PRODUCT} - allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_nothing_of_the_libraries_it_must_not(room: str) -> None:
    wrong = [
        f"{path} imports {name}"
        for path, tree in product().items()
        if path.parts[0] == room
        for name in sorted(top_level(tree) & LIBRARIES_FORBIDDEN[room])
    ]
    assert wrong == []


def test_workloads_need_only_numpy_and_torch_so_that_they_run_anywhere() -> None:
    allowed = WORKLOAD_LIBRARIES | {"workloads"} | set(sys.stdlib_module_names)
    wrong = [
        f"{path} imports {name}"
        for path, tree in product().items()
        if path.parts[0] == "workloads"
        for name in sorted(top_level(tree) - allowed)
    ]
    assert wrong == []


def declared_distributions() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text()
    section = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    names = re.findall(r'^\s*"([A-Za-z0-9._-]+?)(?=[<>=~!"\[ ])', section, flags=re.MULTILINE)
    return {name.lower().replace("_", "-") for name in names}


def test_every_imported_library_is_declared() -> None:
    known = packages_distributions()
    declared = declared_distributions()
    ours = {*ROOMS, *OUTSIDE_THE_PRODUCT, *sys.stdlib_module_names, *UNDECLARED}
    wrong = [
        f"{path} imports {name}"
        for path, tree in sources().items()
        for name in sorted(top_level(tree) - ours)
        if not (ROOT / path.parent / f"{name}.py").exists()
        and not {dist.lower().replace("_", "-") for dist in known.get(name, [])} & declared
    ]
    assert wrong == []


# --- what two rooms say that may not import each other -------------------------------------------


def test_planner_and_workers_know_the_same_kinds_of_collectives() -> None:
    assert set(names.ALL_KINDS) == set(capabilities.COLLECTIVES)
    assert names.NETWORK_KINDS == capabilities.TREE_COLLECTIVES


# --- what is never used --------------------------------------------------------------------------


def test_mininets_own_clean_up_is_never_called() -> None:
    # It ends ping, mnexec and ryu-manager by name, whoever started them.
    wrong = [
        str(path)
        for path, tree in sources().items()
        if any(name.startswith("mininet.clean") for name in imported(tree))
    ]
    assert wrong == []


def test_no_process_is_ended_by_its_name() -> None:
    by_name = re.compile(r"\b(p" + r"kill|kill" + r"all)\s+[-\w]")
    wrong = [
        f"{path}:{number}"
        for path in tracked()
        if path.suffix in {".py", ".sh", ""} and path.name not in {"LICENSE"}
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if by_name.search(line)
    ]
    assert wrong == []


def test_nothing_that_runs_code_is_read_from_a_file_or_socket() -> None:
    wrong = [
        f"{path} imports {name}"
        for path, tree in product().items()
        for name in sorted(top_level(tree) & {"pickle", "marshal", "shelve", "dill"})
    ]
    assert wrong == []


# --- what every file has and none has ------------------------------------------------------------


def test_every_module_says_what_it_is() -> None:
    silent = [str(path) for path, tree in product().items() if not ast.get_docstring(tree)]
    assert silent == []


def text_of(path: Path) -> str:
    try:
        return (ROOT / path).read_text()
    except UnicodeDecodeError:
        return ""


def test_no_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    folders = re.compile("|".join(["/" + name + "/" for name in ("work", "root", "home/[a-z]+")]))
    wrong = [
        f"{path}:{number}: {line.strip()[:80]}"
        for path in tracked()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if folders.search(line)
    ]
    assert wrong == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    hosts = [
        ".".join(parts)
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("deb", "debian", "org"),
            ("security", "debian", "org"),
            ("archive", "ubuntu", "com"),
            ("registry", "npmjs", "org"),
            ("download", "pytorch", "org"),
        )
    ]
    wrong = [f"{path}: {host}" for path in tracked() for host in hosts if host in text_of(path)]
    assert wrong == []


def relative_links(markdown: str) -> Iterator[str]:
    prose = re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not re.match(r"[a-z]+:|#", target):
            yield target.partition("#")[0]


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = [
        f"{path} -> {target}"
        for path in tracked()
        if path.suffix == ".md"
        for target in relative_links(text_of(path))
        if not (ROOT / path.parent / target).exists()
    ]
    assert broken == []
