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
from topologies.model import Topology

Raw = dict[str, Any]
T = TypeVar("T")
WHOLE = ("plan",)
UNKNOWN_KEY = "unexpected_keyword_argument"
SETTINGS = "--set"
EXAMPLE = "experiments/default.yaml"
TOP = "its top is 'topology: ...', 'rounds: ...'"


def load_experiment(
    path: Path, settings: Sequence[str] = (), variants: Sequence[str] = ()
) -> Experiment:
    """Read an experiment file, check it against its topology, and return it.

    Args:
        path: the file.
        settings: as `rounds=1` or `workload.preset=tiny`, in place of what the file says.
        variants: names of those that are wanted; all without any.

    Raises:
        UserError: one line with file, line and field of the first mistake.
    """
    document = read_yaml(_text(path), str(path))
    if settings:
        _resolved(document, path.parent)
        document = Document(SETTINGS, with_settings(document.data, settings), {})
    return checked(document, path.parent, variants)


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


def checked(document: Document, folder: Path, variants: Sequence[str] = ()) -> Experiment:
    """Return a document's experiment, with these of its variants, if it fits its topology.

    Raises:
        UserError: the first mistake; those of variants that are not wanted do not count.
    """
    reading = _resolved(document, folder)
    experiment = only_variants(reading.experiment, variants)
    for wrong in misfits(experiment, _network(experiment.topology, document)):
        name = None if wrong.variant is None else experiment.variants[wrong.variant].name
        raise document.mistake(reading.place(name, wrong.path), wrong.wrong, wrong.right)
    return experiment


def _network(name: str, document: Document) -> Topology:
    """Return an experiment's topology; a mistake inside its file is told with that file's line."""
    try:
        return load(name)
    except UserError as error:
        if Path(name).is_file():
            raise
        wrong, _, right = str(error).partition("; ")
        raise document.mistake(("topology",), wrong, right) from None


def to_data(experiment: Experiment) -> Raw:
    """Return an experiment as plain data, everything filled in, that `from_data` reads back."""
    data: Raw = experiment_format().dump_python(experiment, mode="json")
    return data


def from_data(data: Mapping[str, Any]) -> Experiment:
    """Return the experiment that `to_data` wrote."""
    return experiment_format().validate_python(data)


def _text(path: Path) -> str:
    _require_file(path)
    text = read_file(str(path))
    lines = (line.strip() for line in text.splitlines())
    if all(not line or line.startswith("#") for line in lines):
        raise UserError(f"{path}:1: file: empty; {TOP}")
    return text


def _require_file(path: Path) -> None:
    try:
        if path.is_file():
            return
        there, beside = path.exists(), {one.stem: one for one in path.parent.glob("*.yaml")}
    except OSError as error:
        raise UserError(f"{path.name[:40]}...: {error.strerror}; give an experiment") from None
    if there:
        raise UserError(f"{path}: not a file; give one such as {EXAMPLE}")
    guess = closest(path.stem, list(beside))
    right = f"did you mean {beside[guess]}?" if guess else f"give a file such as {EXAMPLE}"
    raise UserError(f"{path}: no such experiment; {right}")


@dataclass(frozen=True)
class _Reading:
    """An experiment and where its variants come from.

    Attributes:
        rows: what each variant's row says for itself; empty without rows.
    """

    experiment: Experiment
    rows: tuple[Raw, ...]

    def place(self, variant: str | None, path: Place) -> Place:
        """Return where in the file a field of a variant stands."""
        for number, row in enumerate(self.rows):
            if row[NAME] == variant and _holds(row, path):
                return (VARIANTS, number, *path)
        return path


def _resolved(document: Document, folder: Path) -> _Reading:
    data = document.data
    if not isinstance(data, dict):
        raise document.mistake((), "no mapping", TOP)
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
        # A key that is misspelt is missing too, which says less.
        first = min(error.errors(), key=lambda one: one["type"] != UNKNOWN_KEY)
    place = (*path, *first["loc"])
    raise document.mistake(place, *_worded(place, first)) from None


def _worded(place: Place, error: Any) -> tuple[str, str]:
    """Return what was wrong and what is right."""
    kind, value = error["type"], error["input"]
    if kind == UNKNOWN_KEY:
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
        value = read_yaml(text, f"{SETTINGS} {key}").data
        _put(found, path, value)
        for row in found.get(VARIANTS, ()) if path[0] != VARIANTS else ():
            if path[0] in row:
                _put(row, path, value)
    return found


def _put(data: Raw, path: Sequence[str], value: Any) -> None:
    for step in path[:-1]:
        inside = data.setdefault(step, {})
        if not isinstance(inside, dict):
            raise UserError(f"{SETTINGS} {'.'.join(path)}: {step} has no fields")
        data = inside
    data[path[-1]] = value


def only_variants(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """Return the experiment with these of its variants; raises UserError for an unknown name."""
    known = {one.name: one for one in experiment.variants}
    for name in names:
        if name not in known:
            raise UserError(f"--variant: no variant {name!r}; there are {listed(known)}")
    chosen = tuple(known[name] for name in dict.fromkeys(names))
    return replace(experiment, variants=chosen) if chosen else experiment


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
