"""Runs a Python module or script inside a named network namespace: NAMESPACE ARGUMENTS..."""

from __future__ import annotations

import ctypes
import runpy
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000


def main() -> None:
    namespace, *arguments = sys.argv[1:]
    with Path("/run/netns", namespace).open() as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
