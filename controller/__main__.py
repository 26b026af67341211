"""`python -m controller`: the hub is made ready before anything else imports sockets or threads."""

import sys

from controller import shim

shim.patch()

from controller.launcher import main  # noqa: E402

sys.exit(main())
