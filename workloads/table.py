"""Tables that users write: CSV with the columns named in its first line, told off line by line.

Whatever spreadsheets write is read: a byte order mark, any ends of lines, spaces around cells.
Empty lines, and lines that begin with #, are passed over.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from workloads.errors import UsageError

Line = tuple[str, dict[str, str]]


def read_table(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> list[Line]:
    """Return for each line its place, as `FILE:LINE`, and its cells by column; one at least.

    Args:
        path: of the file.
        required: columns that it must have.
        optional: columns that it may have.

    Raises:
        UsageError: there is no such file, or it is no such table; the text names the line.
    """
    right = f"the columns are {', '.join(required)}" + "".join(f"[, {x}]" for x in optional)
    rows = list(_rows(_text(path), path))
    if not rows:
        raise UsageError(f"{path}:1: no column {required[0]}; {right}")
    (place, header), lines = rows[0], rows[1:]
    _require_columns(place, header, required, optional, right)
    if not lines:
        raise UsageError(f"{place}: nothing below the columns; {right}")
    for where, cells in lines:
        if len(cells) != len(header):
            raise UsageError(f"{where}: {len(cells)} values for {len(header)} columns")
    return [(where, dict(zip(header, cells, strict=True))) for where, cells in lines]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; save it as CSV in UTF-8") from None


def _rows(text: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that say something, with their places."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                yield f"{path}:{reader.line_num}", cells
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}") from None


def _require_columns(
    place: str, header: list[str], required: Sequence[str], optional: Sequence[str], right: str
) -> None:
    for name in header:
        if name not in (*required, *optional):
            raise UsageError(f"{place}: unknown column {name[:40]!r}; {right}")
        if header.count(name) > 1:
            raise UsageError(f"{place}: more than one column {name}; {right}")
    for name in required:
        if name not in header:
            raise UsageError(f"{place}: no column {name}; {right}")
