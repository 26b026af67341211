"""Runs a Python script with the back-end `atoll` known to `torch.distributed`.

    torchrun --nproc-per-node 3 -m workloads.launch script.py --its-options

The script itself needs no change but `init_process_group("atoll")`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from workloads.collectives.torch_backend import register


def main() -> None:
    """Run the script named first with the arguments behind it."""
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.stderr.write("usage: python -m workloads.launch SCRIPT [ARGUMENTS...]\n")
        sys.exit(2)
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    register()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
