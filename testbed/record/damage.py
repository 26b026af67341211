"""A record whose files are there and can be read, but do not say what such files say.

Readers pass over what an older version did not write, and over the line that a kill cut off. A
value of another kind in a place where a program put a number is neither: somebody edited the file,
or the disk lost it. That is one line too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topologies.errors import AtollError, RunError

STRANGE_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def readable(record: Path) -> Iterator[None]:
    """Let a record be read; raises RunError, in one line, for values that are not what they were.

    Args:
        record: the folder of the record.
    """
    try:
        yield
    except AtollError:
        raise
    except STRANGE_VALUES as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise RunError(
            f"{record}: a value in one of its files is not of the kind that was written ({what})"
        ) from error
