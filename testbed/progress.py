"""What a user sees while a run goes on: one line a stage, a bar while something is counted."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PLAIN_WIDTH = 110
SPEED_PERIOD_S = 600.0  # a round may take a minute: time left is told from as many as that


def make_console(stderr: bool = False) -> Console:
    """Return a console that is wide enough for the tables where no terminal says otherwise."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, stderr=stderr)


class Stages:
    """Announces stages one after the other and says of each how long it took.

    On a terminal the current stage moves, with the time that is left of what is counted, and below
    it the whole where a run has many parts; in a file each finished stage is one plain line.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<36}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            speed_estimate_period=SPEED_PERIOD_S,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._whole: TaskID | None = None
        self._text = ""
        self._note = ""
        self._started = 0.0

    def announce(self, text: str, total: int | None = None) -> None:
        """Finish the current stage and begin the next; `total` makes it a bar."""
        self.finish()
        self._text, self._note, self._started = text, "", time.monotonic()
        self._task = self._progress.add_task(text, total=total, note="")

    def advance(self, done: int, note: str = "") -> None:
        """Show how much of the current stage is done, with a few words on it."""
        self._note = note
        if self._task is not None:
            self._progress.update(self._task, completed=done, note=note)

    def part(self, text: str, done: int, total: int) -> None:
        """Show how many parts of the whole are done, such as trainings of a comparison."""
        if self._whole is None:
            self._whole = self._progress.add_task(text, total=total, note="")
        self._progress.update(self._whole, completed=done, total=total, description=text)

    def finish(self) -> None:
        """Finish the current stage and leave its line."""
        if self._task is None:
            return
        self._progress.remove_task(self._task)
        self._task = None
        seconds = time.monotonic() - self._started
        self.console.print(f"  {self._text:<44} {seconds:6.1f} s  {self._note}".rstrip())

    def __enter__(self) -> Stages:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        self._progress.stop()
