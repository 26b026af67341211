"""Where `atoll` begins: before anything slow is loaded, so that Ctrl-C always ends in one line."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from testbed.cli import main as run

        run()
    except KeyboardInterrupt:
        print("atoll: interrupted", file=sys.stderr)
        sys.exit(130)
