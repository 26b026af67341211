"""All parameters of a model in one vector.

What islands exchange is one long message, not a tensor for each layer. Here the model's parameters
and gradients *are* views into two vectors, so that the message, the optimizer's step and the hash
of the outcome each take one operation and no copying to and fro.
"""

from __future__ import annotations

import hashlib

import torch
from torch import nn


class FlatParameters:
    """A model's parameters and gradients, laid out in two vectors of the same length.

    Matrices come first and the rest (biases, gains of layer norms) after them: weight decay is
    for matrices only, which makes the decayed part one slice.
    """

    def __init__(self, model: nn.Module) -> None:
        ordered = sorted(model.parameters(), key=lambda parameter: parameter.dim() < 2)
        self.decayed_count = sum(p.numel() for p in ordered if p.dim() >= 2)
        self.values = torch.cat([parameter.detach().flatten() for parameter in ordered])
        self.gradients = torch.zeros_like(self.values)
        start = 0
        for parameter in ordered:
            part = slice(start, start + parameter.numel())
            parameter.data = self.values[part].view(parameter.shape)
            parameter.grad = self.gradients[part].view(parameter.shape)
            start = part.stop

    def __len__(self) -> int:
        return self.values.numel()

    @property
    def message_bytes(self) -> int:
        """Bytes of a message that holds one number for each parameter."""
        return self.values.numel() * self.values.element_size()

    def sha256(self) -> str:
        """Return the SHA-256 of the parameters' bytes, in hexadecimal."""
        return hashlib.sha256(self.values.numpy().tobytes()).hexdigest()
