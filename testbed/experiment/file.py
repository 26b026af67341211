"""Reads an experiment file: what is wrong is one line, `FILE:LINE: field: what; what is right`.

A row of `variants` is laid over what the top of the file says: a mapping such as `workload` key by
key, unless it names another `kind`; `plan` as a whole. Settings (`--set rounds=1`) replace what the
file says, in every variant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from testbed.experiment.fitting import misfits
from testbed.experiment.model import Experiment, Variant
from testbed.experiment.schema import (
    NAME,
    VARIANTS,
    experiment_format,
    head_fields,
    rule_at,
    variant_fields,
    variant_format,
)
from topologies.checks import closest, listed, shown
from topologies.document import Document, read_yaml
from topologies.document import Path as Place
from topologies.errors import UserError
from topologies.files import available, load, read_file

Raw = dict[str, Any]
T = TypeVar("T")
WHOLE = ("plan",)
SETTINGS = "--set"


def load_experiment(path: Path, settings: Sequence[str] = ()) -> Experiment:
    """Read an experiment file, check it against its topology, and return it.

    Args:
        path: the file.
        settings: as `rounds=1` or `workload.preset=tiny`, in place of what the file says.

    Raises:
        UserError: one line with file, line and field of the first mistake.
    """
    document = read_yaml(_text(path), str(path))
    if not settings:
        return checked(document, path.parent)
    _resolved(document, path.parent)
    return checked(Document(SETTINGS, with_settings(document.data, settings), {}), path.parent)


class CommandLine(Document):
    """What was said by options; a mistake names the option."""

    def mistake(self, path: Place, wrong: str, right: str) -> UserError:
        """Return the one-line error for a mistake at `path`."""
        return UserError(f"{option_of(path)}: {wrong}; {right}")


def option_of(path: Place) -> str:
    """Return the option of `atoll emulate` that says a field of an experiment."""
    first, *inside = (str(step) for step in path) if path else ("",)
    words = inside[:1] if first == "plan" else [first, *inside[:1]]
    named = [word for word in words if word not in ("kind", "sites")]
    return "--" + "-".join(named).replace("accelerators-", "accelerator-").replace("_", "-")


def experiment_of(data: Mapping[str, Any]) -> Experiment:
    """Return the experiment that options describe; raises UserError that names the option."""
    return checked(CommandLine(SETTINGS, dict(data), {}), Path())


def checked(document: Document, folder: Path) -> Experiment:
    """Return a document's experiment, found to fit its topology; raises UserError."""
    reading = _resolved(document, folder)
    experiment = reading.experiment
    for wrong in misfits(experiment, load(experiment.topology)):
        raise document.mistake(reading.place(wrong.variant, wrong.path), wrong.wrong, wrong.right)
    return experiment


def to_data(experiment: Experiment) -> Raw:
    """Return an experiment as plain data, everything filled in, that `from_data` reads back."""
    data: Raw = experiment_format().dump_python(experiment, mode="json")
    return data


def from_data(data: Mapping[str, Any]) -> Experiment:
    """Return the experiment that `to_data` wrote."""
    return experiment_format().validate_python(data)


def _text(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no such experiment; give a file such as experiments/default.yaml")
    return read_file(str(path))


@dataclass(frozen=True)
class _Reading:
    """An experiment and where its variants come from.

    Attributes:
        rows: what each variant's row says for itself; empty without rows.
    """

    experiment: Experiment
    rows: tuple[Raw, ...]

    def place(self, variant: int | None, path: Place) -> Place:
        """Return where in the file a field of a variant stands."""
        if variant is None or not self.rows or not _holds(self.rows[variant], path):
            return path
        return (VARIANTS, variant, *path)


def _resolved(document: Document, folder: Path) -> _Reading:
    data = document.data
    if not isinstance(data, dict):
        raise document.mistake((), "no mapping", "its top is 'topology: ...', 'rounds: ...'")
    _refuse_unknown(document, (), data, (*head_fields(), *variant_fields(), VARIANTS))
    head = {key: value for key, value in data.items() if key in head_fields()}
    base = {key: value for key, value in data.items() if key in variant_fields()}
    experiment = _read(experiment_format(), head, document, ())
    shared = _read(variant_format(), {**base, NAME: experiment.name}, document, ())
    rows = _rows(document)
    variants = [_variant(document, base, row, place) for place, row in enumerate(rows)]
    found = replace(experiment, variants=tuple(variants) or (shared,))
    return _Reading(_with_paths(found, folder), rows)


def _rows(document: Document) -> tuple[Raw, ...]:
    rows = document.data.get(VARIANTS, [])
    if not isinstance(rows, list) or (VARIANTS in document.data and not rows):
        raise document.mistake((VARIANTS,), f"{shown(rows)} is no list", "give a list of variants")
    names: dict[str, int] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or NAME not in row:
            raise document.mistake((VARIANTS, place), "has no name", "give each variant a name")
        _refuse_unknown(document, (VARIANTS, place), row, (NAME, *variant_fields()))
        if names.setdefault(str(row[NAME]), place) != place:
            wrong = f"{row[NAME]} is the name of two variants"
            raise document.mistake((VARIANTS, place, NAME), wrong, "give each a name of its own")
    return tuple(rows)


def _variant(document: Document, base: Raw, row: Raw, place: int) -> Variant:
    try:
        return _read(variant_format(), merged(base, row), document, (VARIANTS, place))
    except UserError:
        # The field may be one that the row leaves to the top of the file, which is sound by itself.
        _read(variant_format(), row, document, (VARIANTS, place))
        raise


def merged(base: Mapping[str, Any], row: Mapping[str, Any]) -> Raw:
    """Return what a variant's row leaves of the file's top, laid under the row."""
    found = dict(base)
    for key, value in row.items():
        found[key] = value if key in WHOLE else _laid_over(found.get(key), value)
    return found


def _laid_over(below: Any, value: Any) -> Any:
    if not (isinstance(value, dict) and isinstance(below, dict)):
        return value
    same_kind = value.get("kind", below.get("kind")) == below.get("kind")
    return {**below, **value} if same_kind else value


def _refuse_unknown(document: Document, path: Place, data: Raw, known: Sequence[str]) -> None:
    for key in data:
        if key not in known:
            raise document.mistake((*path, key), *_unknown(key, known))


def _unknown(key: str, known: Sequence[str]) -> tuple[str, str]:
    guess = closest(key, known)
    return "unknown key", f"did you mean {guess!r}?" if guess else f"known are {listed(known)}"


def _read(adapter: TypeAdapter[T], data: Raw, document: Document, path: Place) -> T:
    """Let pydantic read plain data; its first complaint becomes the user's one line."""
    try:
        return adapter.validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
    place = (*path, *first["loc"])
    raise document.mistake(place, *_worded(place, first)) from None


def _worded(place: Place, error: Any) -> tuple[str, str]:
    """Return what was wrong and what is right."""
    kind, value = error["type"], error["input"]
    if kind == "unexpected_keyword_argument":
        return _unknown(str(place[-1]), list(rule_at(place[:-1]).get("properties", {})))
    if kind == "missing":
        return "missing", f"give {_right(place)}"
    wrong = "a list" if isinstance(value, list) else shown(value)
    wrong = "a mapping" if isinstance(value, dict) else wrong
    return f"{wrong} does not fit", f"give {_right(place)}"


def _right(place: Place) -> str:
    rule = rule_at(place)
    if choices := rule.get("enum"):
        return f"one of {listed(choices)}"
    if "properties" in rule:
        return f"keys among {listed(rule['properties'])}"
    words = {"boolean": "true or false", "array": "a list", "string": "a text"}
    return str(rule.get("description") or words.get(str(rule.get("type")), "another value"))


# --- settings -------------------------------------------------------------------------------------


def with_settings(data: Raw, settings: Sequence[str]) -> Raw:
    """Return a file's data with some fields replaced, in every variant; raises UserError."""
    found: Raw = json.loads(json.dumps(data))
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not (key and equals and text):
            raise UserError(f"{SETTINGS} {setting}: give FIELD=VALUE, such as rounds=1")
        path = key.split(".")
        _put(found, path, read_yaml(text, f"{SETTINGS} {key}").data)
        if path[0] != VARIANTS:
            for row in found.get(VARIANTS, ()):
                _drop(row, path)
    return found


def _put(data: Raw, path: Sequence[str], value: Any) -> None:
    for step in path[:-1]:
        inside = data.setdefault(step, {})
        if not isinstance(inside, dict):
            raise UserError(f"{SETTINGS} {'.'.join(path)}: {step} has no fields")
        data = inside
    data[path[-1]] = value


def _drop(row: Any, path: Sequence[str]) -> None:
    for step in path[:-1]:
        row = row.get(step) if isinstance(row, dict) else None
    if isinstance(row, dict):
        row.pop(path[-1], None)


def only_variants(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """Return the experiment with these of its variants; raises UserError for an unknown name."""
    known = {one.name: one for one in experiment.variants}
    for name in names:
        if name not in known:
            raise UserError(f"--variant: no variant {name!r}; there are {listed(known)}")
    return (
        replace(experiment, variants=tuple(known[name] for name in names)) if names else experiment
    )


# --- paths ----------------------------------------------------------------------------------------


def _holds(row: Raw, path: Place) -> bool:
    return bool(path) and path[0] in row


def _with_paths(experiment: Experiment, folder: Path) -> Experiment:
    """Return the experiment with its files as absolute paths, as a run needs them."""
    variants = tuple(
        replace(
            one,
            plan=replace(one.plan, file=_absolute(one.plan.file, folder)),
            workload=replace(one.workload, layers=_absolute(one.workload.layers, folder)),
        )
        for one in experiment.variants
    )
    return replace(
        experiment,
        topology=_topology(experiment.topology, folder),
        traffic_matrix=_absolute(experiment.traffic_matrix, folder),
        variants=variants,
    )


def _absolute(name: str | None, folder: Path) -> str | None:
    return None if name is None else str((folder / name).resolve())


def _topology(name: str, folder: Path) -> str:
    """Return a bundled name as it is, a file beside the experiment or else from here as a path."""
    if name in available():
        return name
    beside = folder / name
    if beside.is_file():
        return str(beside.resolve())
    return str(Path(name).resolve()) if Path(name).is_file() else name
