"""A time limit around a call that has none.

A look-up in a `TCPStore` whose server has vanished from the network may wait for an answer for
ever; PyTorch's documentation of `check` says as much. Such a call runs in a thread that nobody
needs any more once the limit is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

Result = TypeVar("Result")


def bounded(call: Callable[[], Result], limit_s: float) -> Result:
    """Return what `call` returns, or raise what it raises.

    Raises:
        TimeoutError: the call took longer than `limit_s` seconds; its thread is left behind.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(timeout=limit_s)
    except FutureTimeoutError as error:
        if future.done():
            return future.result()
        raise TimeoutError(f"no answer within {limit_s:g} s") from error
