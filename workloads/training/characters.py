"""The workload `characters`: the next character of a text, by a small transformer."""

from __future__ import annotations

from workloads.collectives.endpoint import Endpoint
from workloads.training.data import Batches, held_out_windows, load_corpus, shard_blocks
from workloads.training.model import PRESETS, build_model, cross_entropy
from workloads.training.settings import Settings
from workloads.training.task import Task

HELD_OUT_WINDOWS = 72


def build_task(settings: Settings, endpoint: Endpoint) -> Task:
    """Return the task of one worker; its shard is split by work where a Dirichlet alpha is set."""
    shape, corpus = PRESETS[settings.preset], load_corpus()
    rank, world_size = endpoint.rank, endpoint.world_size
    blocks = shard_blocks(corpus, rank, world_size, settings.seed, settings.dirichlet_alpha)
    held_out = settings.held_out_windows or HELD_OUT_WINDOWS
    return Task(
        model=build_model(shape, len(corpus.vocabulary), settings.seed),
        batches=Batches(blocks, shape.context, settings.batch_size, (settings.seed, rank)),
        held_out=held_out_windows(corpus, shape.context, held_out, rank, world_size),
        loss=cross_entropy,
        loss_unit="nats a character",
        sizes={"preset": settings.preset, "context": shape.context, "shard_blocks": len(blocks)},
    )
