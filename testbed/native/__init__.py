"""The C sources that both daemons, `linkd` and the accelerator, are compiled with.

`server` is the control socket, `words` reads its lines, `ending` is how a daemon ends when told to.
"""

from pathlib import Path

SHARED = Path(__file__).parent
SHARED_UNITS = tuple(sorted(SHARED.glob("*.c")))
