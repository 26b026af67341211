"""What both daemons, `linkd` and the accelerator, have in common.

In C, compiled into both: `server` is the control socket, `words` reads its lines, `ending` is how a
daemon ends when told to. In Python, `daemon` starts and ends one and `client` talks to it.
"""

from pathlib import Path

SHARED = Path(__file__).parent
SHARED_UNITS = tuple(sorted(SHARED.glob("*.c")))
