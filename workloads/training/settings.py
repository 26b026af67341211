"""What a worker is asked to do, and the options that say so."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from workloads.errors import UsageError

OUTER_OPTIMIZERS = ("mean", "diloco", "none")
COLLECTIVES = ("ring", "exchange", "multicast", "aggregation", "innetwork")
WITHOUT_JOB_FILE = ("ring", "exchange")
PRESET_NAMES = ("tiny", "small")
DEFAULT_LOCAL_STEPS = 10


@dataclass(frozen=True)
class Settings:
    """The job of a worker; `out` and the limits may differ between workers, the rest may not."""

    rounds: int = 3
    local_steps: int = DEFAULT_LOCAL_STEPS
    outer: str = "mean"
    preset: str = "small"
    batch_size: int = 8
    learning_rate: float = 1e-3
    held_out_windows: int = 72
    seed: int = 0
    collective: str = "ring"
    job_file: Path | None = None
    interface: str | None = None
    rendezvous_timeout_s: float = 60.0
    collective_timeout_s: float = 60.0
    out: Path | None = None
    progress: bool = True
    events: bool = False

    def job(self) -> str:
        """Return what all workers must agree upon, in one line."""
        return (
            f"preset={self.preset} rounds={self.rounds} local_steps={self.local_steps} "
            f"outer={self.outer} batch_size={self.batch_size} "
            f"learning_rate={self.learning_rate:g} seed={self.seed} collective={self.collective}"
        )


def parse(arguments: Sequence[str], rank: int) -> Settings:
    """Return the settings that some command-line arguments ask for.

    Args:
        arguments: the command line without the program.
        rank: stands in for "{rank}" in the value of `--out`.

    Raises:
        UsageError: an option is unknown, or its value is out of its range.
    """
    options = vars(_parser().parse_args(arguments))
    outer, local_steps = options["outer"], options["local_steps"]
    if outer == "none" and local_steps not in (None, 1):
        raise UsageError(
            f"--local-steps {local_steps} with --outer none: gradients are averaged at each step; "
            "leave --local-steps out, or choose --outer mean or diloco"
        )
    if local_steps is None:
        options["local_steps"] = 1 if outer == "none" else DEFAULT_LOCAL_STEPS
    _require_job_file(options["collective"], options["job_file"])
    if options["out"] is not None:
        options["out"] = Path(options["out"].replace("{rank}", str(rank)))
    return Settings(**options)


def _require_job_file(collective: str, job_file: Path | None) -> None:
    if (job_file is None) != (collective in WITHOUT_JOB_FILE):
        needs = "give --job-file FILE" if job_file is None else "leave --job-file out"
        raise UsageError(f"--collective {collective}: {needs}")


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m workloads.training.train",
        description="Train a character-level transformer with the other workers of the job. "
        "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who they are, as under torchrun; "
        "ATOLL_SITES may name their sites.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    _add_training_options(parser)
    _add_network_options(parser)
    parser.add_argument("--out", metavar="DIR", help="folder for worker.jsonl; '{rank}' is filled")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=Settings.progress,
        help="a line a round on standard output",
    )
    parser.add_argument(
        "--events",
        action="store_true",
        help="instead, every event of worker.jsonl on standard output as it happens",
    )
    return parser


def _add_training_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rounds", type=_whole(1), default=Settings.rounds, help="rounds of the job")
    add("--local-steps", type=_whole(1), help="steps a round; 10, or 1 with --outer none")
    add("--outer", choices=OUTER_OPTIMIZERS, default=Settings.outer, help="the outer optimizer")
    add("--preset", choices=PRESET_NAMES, default=Settings.preset, help="the model's size")
    add("--batch-size", type=_whole(1), default=Settings.batch_size, help="windows a step")
    add("--learning-rate", type=_positive, default=Settings.learning_rate, help="of AdamW")
    add(
        "--held-out-windows",
        type=_whole(1),
        default=Settings.held_out_windows,
        help="windows of held-out text, shared out over the workers",
    )
    add("--seed", type=_whole(0), default=Settings.seed, help="decides parameters and data order")


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--collective", choices=COLLECTIVES, default=Settings.collective, help="how to average")
    add(
        "--job-file",
        type=Path,
        metavar="FILE",
        help="trees and addresses of multicast, aggregation and innetwork",
    )
    add("--interface", help="the interface of the collectives; else GLOO_SOCKET_IFNAME")
    add(
        "--rendezvous-timeout-s",
        type=_positive,
        default=Settings.rendezvous_timeout_s,
        help="seconds to wait for the other workers to come",
    )
    add(
        "--collective-timeout-s",
        type=_positive,
        default=Settings.collective_timeout_s,
        help="seconds to wait for a peer within a collective",
    )


def _whole(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from {least}")
        return value

    return convert


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number above 0")
    return value
