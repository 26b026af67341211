"""How a worker's command ends: in one line and with an exit code, whatever happened."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

from workloads.errors import WorkloadError

TakePart = Callable[[Sequence[str], Mapping[str, str]], None]


def run_and_exit(take_part: TakePart) -> None:
    """Run one worker and exit: 0 done, 1 failed, 2 a mistake in an option or a variable."""
    exit_code = 1
    try:
        take_part(sys.argv[1:], os.environ)
        exit_code = 0
    except WorkloadError as error:
        sys.stderr.write(f"error: {error}\n")
        exit_code = error.exit_code
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    # Gloo's threads may still wait for a peer that was lost, and unloading PyTorch would cost
    # 0.6 s of processor time a worker: an orderly exit has nothing to add.
    os._exit(exit_code)
