"""Files that stay readable whatever kills their writer.

A file that is written whole (JSON) is written beside its place and renamed over it, so a reader
sees the old one or the new one and never half of one. A file that grows (JSON Lines) gets one
complete line in one write; a kill can at most leave an unfinished last line, which readers pass
over. Nothing is forced onto the disk: the records survive the end of a process, not of the machine.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topologies.errors import RunError

Row = dict[str, Any]


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file as one step; what is not a finite number becomes null."""
    text = json.dumps(finite(value), indent=1, allow_nan=False) + "\n"
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_json(path: Path) -> Row | None:
    """Read a JSON object, None when there is no file; raises RunError for another content."""
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise RunError(f"{path}: not a JSON object")
    return value


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON Lines; what is not a finite number becomes null."""
    return json.dumps(finite(row), allow_nan=False, separators=(",", ":")) + "\n"


def finite(value: Any) -> Any:
    """Return a value with null for NaN and infinities, which JSON (RFC 8259) has no way to write.

    They come from training that diverged, and a record must not fail for it.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value


def parse_json_lines(text: str, name: str) -> list[Row]:
    """Read JSON Lines; an unfinished last line is passed over.

    Raises:
        RunError: a line that is no JSON object, with file and line.
    """
    *lines, unfinished = text.split("\n")
    rows = [_row(line, name, number) for number, line in enumerate(lines, start=1) if line.strip()]
    try:
        return [*rows, _row(unfinished, name, len(lines) + 1)] if unfinished.strip() else rows
    except RunError:
        return rows


def _row(line: str, name: str, number: int) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RunError(f"{name}:{number}: {error}") from None
    if not isinstance(row, dict):
        raise RunError(f"{name}:{number}: not a JSON object")
    return row


def read_json_lines(path: Path) -> list[Row]:
    """Read a JSON Lines file; one that is not there has no rows."""
    if not path.is_file():
        return []
    return parse_json_lines(path.read_text(encoding="utf-8", errors="replace"), str(path))


def point_symlink(link: Path, target: str) -> None:
    """Let a symbolic link point to `target`, as one step; raises RunError if it cannot."""
    beside = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    beside.symlink_to(target)
    try:
        beside.replace(link)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise RunError(f"{link} cannot point to {target}: {error.strerror}") from None
