"""What can go wrong on an island, told in one line each.

The workload is a package of its own: a worker runs where nothing but the standard library, numpy
and torch is installed, so it cannot raise the exceptions of the rest of Atoll. The exit codes
agree with theirs: 1 for a failure, 2 for a mistake that the user can mend.
"""

from __future__ import annotations


class WorkloadError(Exception):
    """A failure told to the user in one line; the process exits with `exit_code`."""

    exit_code = 1


class UsageError(WorkloadError):
    """A mistake in an option or an environment variable: the text says what is right."""

    exit_code = 2


class RendezvousError(WorkloadError):
    """The workers did not all meet in time: the text names who is missing."""


class CollectiveError(WorkloadError):
    """A collective broke off: the text names the peer that was lost, where that is known."""
