"""`python -m controller`: blocking calls are replaced, if need be, before the rest is imported."""

import sys

from controller.library import make_cooperative

make_cooperative()

from controller.launcher import main  # noqa: E402

sys.exit(main())
