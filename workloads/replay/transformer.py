"""The layers of a decoder-only transformer, computed from its published shape.

Parameters are counted exactly. Times follow from the floating-point operations of a step at a
stated rate: a matrix of n parameters takes 2 n operations for each token, the attention of one
layer 2 s h more each for scores and for values over s positions, half of which a causal mask
leaves; the backward pass takes twice the forward pass (Kaplan et al., "Scaling laws for neural
language models", arXiv 2001.08361, section 2.1; Narayanan et al., arXiv 2104.04473, appendix).

    python -m workloads.replay.transformer > workloads/replay/models/tinyllama_1.1b.csv
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workloads.replay.layers import COLUMNS, Layer

FLOPS_PER_PARAMETER_AND_TOKEN = 2
BACKWARD_PER_FORWARD = 2


@dataclass(frozen=True)
class TransformerShape:
    """A transformer with grouped-query attention and a gated MLP, without biases."""

    name: str
    source: str
    blocks: int
    width: int
    heads: int
    key_value_heads: int
    mlp_width: int
    vocabulary: int
    context: int

    @property
    def attention_numel(self) -> int:
        """Parameters of one attention: query, key, value, output, and the norm before it."""
        key_and_value = 2 * self.width * self.width * self.key_value_heads // self.heads
        return 2 * self.width * self.width + key_and_value + self.width

    @property
    def mlp_numel(self) -> int:
        """Parameters of one MLP: gate, up, down, and the norm before it."""
        return 3 * self.width * self.mlp_width + self.width


@dataclass(frozen=True)
class Island:
    """What computes: devices, their rate, the share of it that is reached, and a step's batch."""

    devices: int
    peak_tflops: float
    reached: float
    sequences: int

    @property
    def flops_per_ms(self) -> float:
        """Floating-point operations a millisecond of all devices together."""
        return self.devices * self.peak_tflops * 1e12 * self.reached / 1e3


TINYLLAMA = TransformerShape(
    name="TinyLlama 1.1B",
    source="TinyLlama: An open-source small language model, arXiv 2401.02385, table 1",
    blocks=22,
    width=2048,
    heads=32,
    key_value_heads=4,
    mlp_width=5632,
    vocabulary=32_000,
    context=2048,
)
EIGHT_A100 = Island(devices=8, peak_tflops=312.0, reached=0.4, sequences=64)


def layers_of(shape: TransformerShape, island: Island) -> Iterator[Layer]:
    """Yield the layers in the order of the forward pass."""
    tokens = island.sequences * shape.context
    embedding = shape.vocabulary * shape.width
    # Scores and values: 2 s h operations a token each, over half of s on the average.
    attending = 2 * FLOPS_PER_PARAMETER_AND_TOKEN * shape.width * shape.context // 2

    def layer(name: str, numel: int, flops_per_token: int) -> Layer:
        forward_ms = flops_per_token * tokens / island.flops_per_ms
        return Layer(name, numel, forward_ms, BACKWARD_PER_FORWARD * forward_ms)

    def dense(numel: int) -> int:
        return FLOPS_PER_PARAMETER_AND_TOKEN * numel

    yield layer("embedding", embedding, 0)
    for number in range(shape.blocks):
        attention, mlp = shape.attention_numel, shape.mlp_numel
        yield layer(f"block{number}.attention", attention, dense(attention) + attending)
        yield layer(f"block{number}.mlp", mlp, dense(mlp))
    yield layer("norm", shape.width, dense(shape.width))
    yield layer("output", embedding, dense(embedding))


def table(shape: TransformerShape, island: Island) -> str:
    """Return the layers as the text of a CSV file, with what they were computed from."""
    layers = list(layers_of(shape, island))
    total = sum(layer.numel for layer in layers)
    forward_ms = sum(layer.forward_ms for layer in layers)
    head = [
        f"# {shape.name}: {total:,} parameters, {4 * total / 1e9:.2f} GB as float32.",
        f"# Shape: {shape.source}:",
        f"# {shape.blocks} blocks, width {shape.width}, {shape.heads} heads of which "
        f"{shape.key_value_heads} for keys and values, MLP {shape.mlp_width}, vocabulary "
        f"{shape.vocabulary}, context {shape.context}.",
        f"# Island: {island.devices} devices of {island.peak_tflops:g} TFLOP/s at "
        f"{island.reached:.0%}, {island.sequences} sequences a step "
        f"({island.sequences * shape.context:,} tokens).",
        "# forward_ms = (2 x numel + 2 x context x width in attention) x tokens / rate; "
        "backward_ms = 2 x forward_ms.",
        f"# One step: {forward_ms:.1f} ms forward, {BACKWARD_PER_FORWARD * forward_ms:.1f} ms "
        "backward. Computed by workloads/replay/transformer.py.",
    ]
    rows = [f"{one.name},{one.numel},{one.forward_ms:.4f},{one.backward_ms:.4f}" for one in layers]
    return "\n".join([*head, ",".join(COLUMNS), *rows]) + "\n"


if __name__ == "__main__":
    print(table(TINYLLAMA, EIGHT_A100), end="")
