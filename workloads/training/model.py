"""A character-level transformer of the size of nanoGPT's smallest.

A decoder in the manner of GPT-2 (Radford et al., "Language models are unsupervised multitask
learners", 2019): learned positions, layer norms before attention and MLP, and one matrix for both
the embedding and the output. Every parameter is in one of a handful of plain layers, so that the
count can be checked by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

INITIAL_STANDARD_DEVIATION = 0.02
MLP_EXPANSION = 4


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a transformer; `context` is in characters."""

    layers: int
    heads: int
    width: int
    context: int


PRESETS = {
    "tiny": ModelShape(layers=2, heads=2, width=64, context=64),
    "small": ModelShape(layers=4, heads=4, width=128, context=64),
}


class SelfAttention(nn.Module):
    """Causal attention of several heads."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.output = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        batch, time, width = x.shape
        query, key, value = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.query_key_value(x).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, time, width))
        return joined


class Block(nn.Module):
    """Attention, then an MLP, each added to what comes in."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = SelfAttention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.mlp_up = nn.Linear(shape.width, MLP_EXPANSION * shape.width)
        self.mlp_down = nn.Linear(MLP_EXPANSION * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        out: Tensor = x + self.mlp_down(F.gelu(self.mlp_up(self.mlp_norm(x))))
        return out


class CharacterTransformer(nn.Module):
    """Predicts each next character of a text from those before it."""

    def __init__(self, shape: ModelShape, vocabulary_size: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary_size, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.final_norm = nn.LayerNorm(shape.width)
        self.apply(_initialize)
        for name, parameter in self.named_parameters():
            if name.endswith(("attention.output.weight", "mlp_down.weight")):
                # What each layer adds to the residual shrinks with their number, as in GPT-2.
                deviation = INITIAL_STANDARD_DEVIATION / math.sqrt(2 * shape.layers)
                nn.init.normal_(parameter, std=deviation)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, time) to logits (batch, time, vocabulary)."""
        x = self.characters(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.final_norm(x), self.characters.weight)


def cross_entropy(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss in nats a character, a scalar."""
    logits = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def build_model(shape: ModelShape, vocabulary_size: int, seed: int) -> CharacterTransformer:
    """Return a model whose initial parameters are decided by the seed alone."""
    torch.manual_seed(seed)
    return CharacterTransformer(shape, vocabulary_size)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_STANDARD_DEVIATION)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
