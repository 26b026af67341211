"""Reading a file that grows: what was added since the last look, whole lines only."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tail:
    """Follows a file of lines.

    A run replaces a worker's log once, by the island's own copy; the file is then read anew.

    Attributes:
        path: of the file; it may not be there yet.
        restarted: whether the last look found another file, so that what was read is void.
    """

    path: Path
    restarted: bool = False
    _inode: int = 0
    _offset: int = 0
    _unfinished: bytes = field(default=b"", repr=False)

    def lines(self) -> list[str]:
        """Return the lines that were finished since the last look."""
        self.restarted = False
        try:
            with self.path.open("rb") as file:
                self._notice(os.fstat(file.fileno()))
                file.seek(self._offset)
                added = file.read()
        except OSError:  # not there yet, or no file: there is nothing to show of it
            return []
        self._offset += len(added)
        *lines, self._unfinished = (self._unfinished + added).split(b"\n")
        return [line.decode("utf-8", errors="replace") for line in lines]

    def _notice(self, status: os.stat_result) -> None:
        another = self._inode not in (0, status.st_ino) or status.st_size < self._offset
        if another:
            self.restarted = True
            self._offset, self._unfinished = 0, b""
        self._inode = status.st_ino
