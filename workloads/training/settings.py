"""What a worker is asked to do, and the options that say so."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from workloads.collectives.names import ALL_KINDS, NETWORK_KINDS, RING
from workloads.errors import UsageError

WORKLOADS = ("characters", "digits", "replay")
OUTER_OPTIMIZERS = ("mean", "diloco", "none")
PRESET_NAMES = ("tiny", "small")
DEFAULT_LOCAL_STEPS = 10
MOST_FRAGMENTS = 100


@dataclass(frozen=True)
class Settings:
    """The job of a worker; `out` and the limits may differ between workers, the rest may not."""

    rounds: int = 3
    workload: str = "characters"
    local_steps: int = DEFAULT_LOCAL_STEPS
    outer: str = "mean"
    outer_learning_rate: float = 0.7
    outer_momentum: float = 0.9
    overlap_fragments: int = 0
    preset: str = "small"
    batch_size: int = 8
    learning_rate: float = 1e-3
    held_out_windows: int | None = None
    dirichlet_alpha: float | None = None
    layers: Path | None = None
    compute_scale: float = 1.0
    message_scale: float = 1.0
    seed: int = 0
    collective: str = RING
    schedule: Path | None = None
    job_file: Path | None = None
    stop_file: Path | None = None
    interface: str | None = None
    rendezvous_timeout_s: float = 60.0
    collective_timeout_s: float = 60.0
    out: Path | None = None
    progress: bool = True
    events: bool = False

    def job(self) -> str:
        """Return what all workers must agree upon, in one line."""
        return " ".join(f"{name}={_shown(getattr(self, name))}" for name in COMMON)


COMMON = (
    "workload",
    "preset",
    "rounds",
    "local_steps",
    "outer",
    "outer_learning_rate",
    "outer_momentum",
    "overlap_fragments",
    "batch_size",
    "learning_rate",
    "dirichlet_alpha",
    "compute_scale",
    "message_scale",
    "seed",
    "collective",
)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse(arguments: Sequence[str], rank: int) -> Settings:
    """Return the settings that some command-line arguments ask for.

    Args:
        arguments: the command line without the program.
        rank: stands in for "{rank}" in the value of `--out`.

    Raises:
        UsageError: an option is unknown, out of its range, or does not go with another.
    """
    given = vars(_parser().parse_args(arguments))
    options = {name: value for name, value in given.items() if value is not None}
    for wrong, why in _complaints(options):
        if wrong:
            raise UsageError(why)
    if options.get("outer") == "none":
        options["local_steps"] = 1
    if "out" in options:
        options["out"] = Path(options["out"].replace("{rank}", str(rank)))
    return Settings(**options)


def _complaints(options: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield, for each rule about options that go together, whether it is broken, and what to do."""
    outer, workload = options.get("outer", "mean"), options.get("workload", "characters")
    steps, kind = options.get("local_steps", 1), options.get("collective")
    yield (
        outer == "none" and steps != 1,
        f"--local-steps {steps} with --outer none: gradients are averaged at each step; "
        "leave --local-steps out, or choose --outer mean or diloco",
    )
    yield (
        outer == "none" and "overlap_fragments" in options and options["overlap_fragments"] > 0,
        "--overlap-fragments with --outer none: there are no local steps to overlap with",
    )
    for name in ("outer_learning_rate", "outer_momentum"):
        option = "--" + name.replace("_", "-")
        yield name in options and outer != "diloco", f"{option} with --outer {outer}: only diloco"
    yield (
        kind is not None and "schedule" in options,
        f"--collective {kind} with --schedule: the schedule names the kinds; leave it out",
    )
    yield (workload == "replay") != ("layers" in options), _layers_words(workload)
    yield (
        workload == "replay" and "dirichlet_alpha" in options,
        "--dirichlet-alpha with --workload replay: a replay has no data",
    )
    needs, has = kind in NETWORK_KINDS, "job_file" in options
    if "schedule" not in options:
        what_to_do = "leave --job-file out" if has else "give --job-file FILE"
        yield needs != has, f"--collective {kind or Settings.collective}: {what_to_do}"


def _layers_words(workload: str) -> str:
    if workload == "replay":
        return "--workload replay: give --layers FILE"
    return f"--layers with --workload {workload}: leave it out, or choose --workload replay"


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m workloads.training.train",
        description="Train, or replay a training, with the other workers of the job. "
        "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who they are, as under torchrun; "
        "ATOLL_SITES may name their sites.",
        allow_abbrev=False,
        argument_default=None,
    )
    _add_training_options(parser)
    _add_data_options(parser)
    _add_synchronization_options(parser)
    _add_network_options(parser)
    _add_output_options(parser)
    return parser


def _add_training_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rounds", type=_whole(1), help="rounds of the job, at most (3)")
    add("--workload", choices=WORKLOADS, help="what is trained, or replayed (characters)")
    add("--preset", choices=PRESET_NAMES, help="size of the model of characters (small)")
    add("--batch-size", type=_whole(1), help="windows or images a step (8)")
    add("--learning-rate", type=_positive, help="of AdamW (0.001)")
    add("--seed", type=_whole(0), help="decides parameters and data order (0)")


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--held-out-windows",
        type=_whole(1),
        help="windows of held-out text, or images, shared out over the workers (72 windows, or "
        "all images)",
    )
    add(
        "--dirichlet-alpha",
        type=_positive,
        help="shares of each book, or digit, drawn from a Dirichlet distribution (like shares)",
    )
    add("--layers", type=Path, metavar="FILE", help="CSV of the layers that replay goes through")
    add("--compute-scale", type=_positive, help="multiplies the times of --layers (1)")
    add("--message-scale", type=_positive, help="multiplies the sizes of --layers (1)")


def _add_synchronization_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--local-steps", type=_whole(1), help="steps a round (10, or 1 with --outer none)")
    add("--outer", choices=OUTER_OPTIMIZERS, help="the outer optimizer (mean)")
    add("--outer-learning-rate", type=_positive, help="of diloco (0.7)")
    add("--outer-momentum", type=_share, help="of diloco (0.9)")
    add(
        "--overlap-fragments",
        type=_whole(0, MOST_FRAGMENTS),
        metavar="N",
        help="exchange in N fragments while the next local steps run (0: do not)",
    )
    add(
        "--stop-file",
        type=Path,
        metavar="FILE",
        help='end early once it is there, after the round in its {"after_round": K}',
    )


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--collective", choices=ALL_KINDS, help="how all average in every round (ring)")
    add("--schedule", type=Path, metavar="FILE", help="instead: who meets whom, and how, when")
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
        help="seconds to wait for the other workers to come (60)",
    )
    add(
        "--collective-timeout-s",
        type=_positive,
        help="seconds to wait for a peer within a collective (60)",
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", metavar="DIR", help="folder for worker.jsonl; '{rank}' is filled")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="a line a round on standard output (yes)",
    )
    add(
        "--events",
        action="store_true",
        help="instead, every event of worker.jsonl on standard output as it happens",
    )


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            up_to = "" if most is None else f" to {most}"
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from {least}{up_to}")
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


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to below 1")
    return value
