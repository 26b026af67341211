"""The notice board of a job: short texts under keys, seen by all workers.

It is a `TCPStore` of PyTorch, which rank 0 serves, or torchrun's agent. Its calls raise
`DistError` when the server is lost, and may wait for ever when it has vanished from the network:
callers put them in `bounded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from workloads.collectives.endpoint import Endpoint

PREFIX = "atoll/"


class Board:
    """One connection to the notice board."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @classmethod
    def connect(cls, endpoint: Endpoint, limit_s: float) -> Board:
        """Serve the board if that is this worker's part, and connect to it.

        Raises:
            DistError: no connection within `limit_s` seconds, or the port is taken.
        """
        return cls(
            TCPStore(
                endpoint.address,
                endpoint.port,
                endpoint.world_size,
                is_master=endpoint.keeps_store,
                timeout=timedelta(seconds=limit_s),
                wait_for_workers=False,
            )
        )

    def second_connection(self) -> Board:
        """Return another connection to the same board, for a thread of its own."""
        return Board(self._store.clone())

    def store_for_process_group(self, label: str) -> Any:
        """Return the store that a process group takes, with keys of its own for each label."""
        return PrefixStore(f"gloo/{label}", self._store)

    def has(self, keys: Sequence[str]) -> bool:
        """Return whether there is a text under every one of the keys."""
        present: bool = self._store.check([PREFIX + key for key in keys])
        return present

    def read(self, key: str) -> str:
        """Return the text under a key that is there."""
        text: bytes = self._store.get(PREFIX + key)
        return text.decode()

    def write(self, key: str, text: str) -> None:
        """Put a text under a key, in place of any other."""
        self._store.set(PREFIX + key, text)

    def write_once(self, key: str, text: str) -> str:
        """Put a text under a key unless there is one; return the one that stands."""
        standing: bytes = self._store.compare_set(PREFIX + key, "", text)
        return standing.decode()

    def await_keys(self, keys: Sequence[str], limit_s: float) -> None:
        """Wait until there is a text under every one of the keys.

        Raises:
            DistError: one is still not there after `limit_s` seconds, or the server is lost.
        """
        self._store.wait([PREFIX + key for key in keys], timedelta(seconds=limit_s))
