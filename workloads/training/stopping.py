"""How a training is ended early: a file that says after which round.

Nobody counts rounds for all workers, and a worker that stopped by itself would leave its cliques
waiting. So whoever watches, and sees the loss that was asked for, chooses a round that no worker
has finished, and puts `{"after_round": K}` on every island. All end after round K, or, if the file
came too late for one of them, that one says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from workloads.errors import UsageError, WorkloadError


def numbers_until_stopped(rounds: int, stop_file: Path | None) -> Iterator[int]:
    """Yield the numbers of the rounds to do; the file is looked for before each.

    Raises:
        WorkloadError: the file asks to end after a round that is not the last one done.
        UsageError: what it says is no round.
    """
    for number in range(rounds):
        last = None if stop_file is None else read_stop(stop_file)
        if last is not None and last < number:
            if last == number - 1:
                return
            raise WorkloadError(
                f"{stop_file}: asks to end after round {last}, but round {number - 1} is done; "
                "name a round that no worker has finished"
            )
        yield number


def read_stop(path: Path) -> int | None:
    """Return the round after which to end; None while there is no file, or only half of one.

    Raises:
        UsageError: it is a JSON object without a whole number "after_round".
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or still being written: looked for again
        return None
    last = document.get("after_round") if isinstance(document, dict) else None
    if type(last) is not int or last < 0:
        raise UsageError(f'{path}: {document!r}; give {{"after_round": K}}, K from 0')
    return last
