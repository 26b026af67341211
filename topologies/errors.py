"""The one exception tree: who made the mistake decides the exit code.

Every room raises from here, so that the command line can turn any failure into one line on
standard error. `UserError` is for what a user can mend (a file, a flag, a name); everything else
is a failure of the run or of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping


class AtollError(Exception):
    """A failure told to the user in one line; the process exits with `exit_code`."""

    exit_code = 1


class UserError(AtollError):
    """A mistake in the user's input: the text names the file, line or field and what is right."""

    exit_code = 2


class MachineError(AtollError):
    """Something this machine lacks: the text names what is missing and how to get it."""


class RunError(AtollError):
    """A run that began and could not be carried through."""


def describe(error: Exception) -> str:
    """Return an error in one line; one of the system names the file it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class HostFailures(RunError):  # noqa: N818 (several failures, not one error)
    """Failures of several hosts, raised once; what succeeded is kept beside them.

    Attributes:
        failures: one line of reason for each site that failed.
        succeeded: the result of each site that did not.
    """

    def __init__(
        self, action: str, failures: Mapping[str, str], succeeded: Mapping[str, object]
    ) -> None:
        self.failures = dict(failures)
        self.succeeded = dict(succeeded)
        reasons = "; ".join(f"{site}: {why}" for site, why in sorted(failures.items()))
        total = len(failures) + len(succeeded)
        super().__init__(f"{action} failed on {len(failures)} of {total} islands: {reasons}")
