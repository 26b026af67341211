"""How large a workload's message is, told without building it: whoever plans has no PyTorch.

The counts of parameters are tested against the models themselves.
"""

from __future__ import annotations

from pathlib import Path

from workloads.errors import UsageError
from workloads.replay.layers import ELEMENT_BYTES, bucket_sizes, load_layers
from workloads.training.settings import PRESET_NAMES, WORKLOADS

CHARACTERS_PARAMETERS = {"tiny": 108_864, "small": 810_880}
DIGITS_PARAMETERS = 38_282


def message_bytes(
    workload: str,
    preset: str | None = None,
    layers: Path | None = None,
    message_scale: float = 1.0,
) -> int:
    """Return the bytes that an island contributes to a round.

    Args:
        workload: its name.
        preset: size of the model of `characters`; None for the default.
        layers: the table of `replay`.
        message_scale: multiplies the sizes of that table.

    Raises:
        UsageError: there is no such workload or preset, or the table is missing or wrong; the text
            names the file, the line and the column.
    """
    if workload == "characters":
        size = preset or "small"
        if size not in CHARACTERS_PARAMETERS:
            raise UsageError(f"preset {size}: one of {', '.join(PRESET_NAMES)}")
        return ELEMENT_BYTES * CHARACTERS_PARAMETERS[size]
    if workload == "digits":
        return ELEMENT_BYTES * DIGITS_PARAMETERS
    if workload != "replay":
        raise UsageError(f"workload {workload}: one of {', '.join(WORKLOADS)}")
    if layers is None:
        raise UsageError("workload replay: give a CSV file of layers")
    return ELEMENT_BYTES * sum(bucket_sizes(load_layers(layers), message_scale))
