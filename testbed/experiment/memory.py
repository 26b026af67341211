"""Whether an experiment's workers fit into the memory of this machine; known before it is built.

Measured: a worker of the default model takes up to 370 MB while it starts, most of it PyTorch, and
a message a little more than its own length several times over: parameters, gradients, two moments,
the anchor, what is sent and what is received. A site's switch and SSH server take 30 MB more.
"""

from __future__ import annotations

from topologies.errors import MachineError

WORKER_MB = 370.0
SITE_MB = 30.0
MESSAGES_A_WORKER = 8.0
BYTES_PER_MB = 1e6


def needed_mb(islands: int, message_bytes: int, messages: float = MESSAGES_A_WORKER) -> float:
    """Return the memory that workers take, one an island, each with so many messages at once."""
    worker_mb = WORKER_MB + messages * message_bytes / BYTES_PER_MB
    return islands * (worker_mb + SITE_MB)


def check_memory(
    islands: int, message_bytes: int, available_mib: float, messages: float = MESSAGES_A_WORKER
) -> None:
    """Raise MachineError when workers would not fit into what is free."""
    needed = needed_mb(islands, message_bytes, messages)
    available = available_mib * 2**20 / BYTES_PER_MB
    if needed > available:
        raise MachineError(
            f"{islands} workers with messages of {message_bytes / BYTES_PER_MB:.1f} MB need about "
            f"{needed / 1000:.1f} GB of memory, and {available / 1000:.1f} GB are available: "
            "take a smaller topology or message"
        )
