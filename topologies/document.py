"""YAML text to plain data that still knows the line of every key.

Topology files are read with the *core schema* of YAML 1.2: only `true` and `false` are booleans
and only decimal digits make a number, so the Norwegian site `NO` and the site `ON` stay text
where YAML 1.1 would read two booleans, `010` is ten and `12:30` is not 750. What a description of
a network never needs is refused rather than interpreted: aliases (a few lines of them can unfold
to gigabytes), tags (which name types to construct), keys given twice (where the last would win in
silence), values left empty and nesting beyond any use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from topologies.errors import UserError

Path = tuple[str | int, ...]

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 12
CORE_SCALARS = (
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        list("-+.0123456789"),
    ),
    ("null", r"~|null|", ["~", "n", ""]),
)


@dataclass(frozen=True)
class Document:
    """Plain data read from a file, and where in the file each part of it stands.

    Attributes:
        file: the file's name as the user gave it.
        data: dicts, lists, strings, numbers and booleans.
        lines: the line of each key and list item; empty where the format has no lines.
    """

    file: str
    data: Any
    lines: Mapping[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int | None:
        """Return the line of a value, or of the nearest part around it that has one."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def mistake(self, path: Path, wrong: str, right: str) -> UserError:
        """Return the one-line error for a mistake at `path`."""
        line = self.line(path)
        place = self.file if line is None else f"{self.file}:{line}"
        return UserError(f"{place}: {field_name(path) or 'file'}: {wrong}; {right}")


def field_name(path: Path) -> str:
    """Return a path as users write it, `links[3].rate_mbps`; odd keys are quoted and cut."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in path)
    return text.removeprefix(".")


def _key(key: str) -> str:
    return key if re.fullmatch(r"\w{1,40}", key) else repr(key[:40])


def read_yaml(text: str, file: str) -> Document:
    """Parse one YAML document; raises UserError with the line of the first mistake."""
    lines: dict[Path, int] = {(): 1}
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(file, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(
            f"{file}:{line}: YAML: character #x{error.character:04x} is not allowed; "
            "keep to printable text"
        ) from None
    if node is None:
        raise Document(file, None, lines).mistake(
            (), "empty", "give at least name, source, licence, sites and links"
        )
    return Document(file, _Reader(file, lines).convert(node, ()), lines)


def write_yaml(data: Any) -> str:
    """Return plain data as YAML that `read_yaml` reads back unchanged."""
    return yaml.dump(
        data,
        Dumper=_CoreDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )


class _CoreLoader(yaml.SafeLoader):
    """Composes nodes with the core schema's scalar types, refusing aliases and deep nesting."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (PyYAML's own registry)
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            self._refuse(event, f"alias *{event.anchor} is not part of the format: use 'defaults'")
        if self.depth > MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _refuse(self, event: Any, problem: str) -> NoReturn:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


class _CoreDumper(yaml.SafeDumper):
    """Quotes exactly the texts that the core schema would read as something else."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (PyYAML's own registry)

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _name, _pattern, _first in CORE_SCALARS:
    for _class in (_CoreLoader, _CoreDumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first
        )


@dataclass(frozen=True)
class _Reader:
    """Turns nodes into plain data and notes the line of each key and item in `lines`."""

    file: str
    lines: dict[Path, int]

    def convert(self, node: yaml.Node, path: Path) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self.lines[path] = node.start_mark.line + 1
        return self.convert(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = self._key(key_node, path), key_node.start_mark.line + 1
            here = (*path, key)
            if key in data:
                first, self.lines[here] = self.lines[here], line
                self._refuse(here, f"given already on line {first}", "keep one of the two")
            self.lines[here] = line
            data[key] = self.convert(value_node, here)
        return data

    def _key(self, node: yaml.Node, path: Path) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(path, "a list or mapping stands where a key belongs", "keys are words")
        return str(node.value)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text, name = str(node.value), node.tag.removeprefix("tag:yaml.org,2002:")
        if name == "null":
            self._refuse(path, "left empty", "give a value or leave the key out")
        try:
            return SCALAR_TYPES[name](text)
        except (KeyError, ValueError):
            self._refuse(path, f"the tag {node.tag} is not part of the format", "leave the tag out")

    def _refuse(self, path: Path, wrong: str, right: str) -> NoReturn:
        raise Document(self.file, None, self.lines).mistake(path, wrong, right)


def _number(text: str) -> int | float:
    """Read a decimal; a long row of digits becomes a float, which range checks then refuse."""
    sign_and_digits = re.fullmatch(r"[-+]?[0-9]{1,18}", text)
    return int(text) if sign_and_digits else float(text.lower().replace(".inf", "inf"))


SCALAR_TYPES: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: {"true": True, "false": False}[text],
    "int": _number,
    "float": lambda text: _number(text.replace(".nan", "nan")),
    "str": str,
}


def _syntax_error(file: str, error: yaml.MarkedYAMLError) -> UserError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = " ".join(str(error.problem or error.context).split())
    return UserError(
        f"{file}:{line}: YAML: {problem}; "
        f"check indentation, quotes and brackets up to column {column}"
    )
