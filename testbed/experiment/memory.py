"""Whether an experiment's workers fit into the memory of this machine; known before it is built.

Measured: a worker of the default model takes up to 370 MB while it starts, most of it PyTorch, and
a message a little more than its own length several times over: parameters, gradients, two moments,
the anchor, what is sent and what is received. A site's switch and SSH server take 30 MB more. Of a
batch each window of characters took 2.6 MB (8 to 256 of them), each image 0.025 to 0.06 MB.
"""

from __future__ import annotations

from topologies.errors import MachineError

WORKER_MB = 370.0
SITE_MB = 30.0
MESSAGES_A_WORKER = 8.0
BYTES_PER_MB = 1e6
DEFAULT_BATCH = 8
DEFAULT_PRESETS = {"characters": "small"}
ITEM_MB = {("characters", "small"): 2.6, ("characters", "tiny"): 0.7, ("digits", None): 0.06}


def batch_mb(kind: str, preset: str | None, batch_size: int | None) -> float:
    """Return the memory that a step takes for a batch larger than the default one.

    Args:
        kind: of the workload.
        preset: size of its model, None for the default.
        batch_size: windows or images a step, None for the default.
    """
    items = max(0, (batch_size or DEFAULT_BATCH) - DEFAULT_BATCH)
    return items * ITEM_MB.get((kind, preset or DEFAULT_PRESETS.get(kind)), 0.0)


def needed_mb(
    islands: int, message_bytes: int, messages: float = MESSAGES_A_WORKER, step_mb: float = 0.0
) -> float:
    """Return the memory that workers take, one an island.

    Args:
        islands: how many there are.
        message_bytes: what each contributes to a round.
        messages: how many of them each holds at once.
        step_mb: what a step takes beyond that of the default batch.
    """
    worker_mb = WORKER_MB + messages * message_bytes / BYTES_PER_MB + step_mb
    return islands * (worker_mb + SITE_MB)


def check_memory(
    islands: int,
    message_bytes: int,
    available_mib: float,
    messages: float = MESSAGES_A_WORKER,
    step_mb: float = 0.0,
) -> None:
    """Raise MachineError when workers would not fit into what is free."""
    needed = needed_mb(islands, message_bytes, messages, step_mb)
    available = available_mib * 2**20 / BYTES_PER_MB
    if needed > available:
        raise MachineError(
            f"{islands} workers with messages of {message_bytes / BYTES_PER_MB:.1f} MB need about "
            f"{needed / 1000:.1f} GB of memory, and {available / 1000:.1f} GB are available: "
            f"take a smaller topology or {'batch' if step_mb > WORKER_MB else 'message'}"
        )
