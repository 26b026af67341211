"""What an experiment asks, as plain data: one network, several ways to train over it.

An experiment names a network and what disturbs it, and *variants* that are compared on it. A
variant says what the network may do (`capability`), who meets whom (`plan`), what is trained and
how islands synchronize. All variants and repetitions of an experiment run one after the other on
one standing WAN, interleaved, so that what changes on the machine meanwhile meets all alike.

The annotations are the format: reading checks every field against them (`testbed.experiment.file`)
and the published JSON Schema is made from them (`testbed.experiment.schema`). Rates are those of
the real network; `rate_scale` multiplies them like those of links. Times are never scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from schedules.capabilities import CapabilityName, Collective
from schedules.plan import Objective
from testbed.experiment.background_model import BackgroundFlow, RateMbps, TenantJob

OuterKind = Literal["mean", "diloco", "none"]
WorkloadKind = Literal["characters", "digits", "replay"]

Code = Annotated[str, Field(min_length=1, max_length=8, description="a site's code, such as NYC")]
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$",
        description="up to 64 letters, digits, '_', '-', '+' and '.', a letter or digit first",
    ),
]
Path = Annotated[
    str, Field(min_length=1, description="a path, from the folder of the experiment file")
]
Positive = Annotated[
    float, Field(gt=0, le=1e9, allow_inf_nan=False, description="a number above 0")
]
Scale = Annotated[
    float, Field(gt=0, le=1000, allow_inf_nan=False, description="a number above 0, up to 1000")
]
Seconds = Annotated[
    float, Field(ge=0, le=1e6, allow_inf_nan=False, description="seconds, 0 or more")
]
Whole = Annotated[int, Field(ge=1, le=1_000_000, description="a whole number from 1")]
Percent = Annotated[float, Field(ge=0, le=100, description="percent, from 0 to 100")]

DEFAULT_LOCAL_STEPS = 10
_NO_OTHER_FIELDS = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Accelerators:
    """Which sites get an accelerator, where a capability has aggregation, and their limits.

    Attributes:
        sites: None for all.
        rate_mbps: what each takes in; None for what the machine can.
        slots: windows of all trees at each.
        fan_in: streams of one tree that each sums.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    sites: (
        Annotated[
            tuple[Code, ...], Field(min_length=1, description="a list of sites, such as [NYC, LON]")
        ]
        | None
    ) = None
    rate_mbps: RateMbps | None = None
    slots: Whole | None = None
    fan_in: Annotated[int, Field(ge=2, le=64, description="streams, from 2 to 64")] | None = None


@dataclass(frozen=True)
class RoundChoice:
    """A round somebody thought of: its cliques, and how they combine."""

    __pydantic_config__ = _NO_OTHER_FIELDS

    cliques: Annotated[
        tuple[tuple[Code, ...], ...],
        Field(min_length=1, description="a list of cliques, such as [[NYC, LON], [SEO, TYO]]"),
    ]
    collective: Collective | None = None


@dataclass(frozen=True)
class PlanChoice:
    """Who meets whom: searched for by an objective, given round by round, or read from a file.

    Attributes:
        objective: what a search is to optimize; `mean` is the least time to an exact mean.
        full_clique: every round is one clique of all islands.
        clique_size: islands of every clique.
        min_clique: fewest islands of a clique.
        max_clique: most islands of a clique.
        max_round_s: longest round.
        time_limit_s: time for the search.
        rounds: the rounds themselves, run in this order.
        file: what `atoll plan --json` wrote, for this topology.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    objective: Objective | None = None
    full_clique: bool = False
    clique_size: Annotated[int, Field(ge=2, description="islands, from 2")] | None = None
    min_clique: Annotated[int, Field(ge=2, description="islands, from 2")] | None = None
    max_clique: Annotated[int, Field(ge=2, description="islands, from 2")] | None = None
    max_round_s: Positive | None = None
    time_limit_s: Positive | None = None
    rounds: (
        Annotated[
            tuple[RoundChoice, ...],
            Field(min_length=1, description="a list of rounds, such as [{cliques: [[NYC, LON]]}]"),
        ]
        | None
    ) = None
    file: Path | None = None


@dataclass(frozen=True)
class Workload:
    """What is trained on every island; None leaves a value to the workload's own default.

    Attributes:
        preset: the size of the model of `characters`.
        dirichlet_alpha: how unlike the islands' data are; None for like data.
        layers: of `replay`: a CSV file of layers with their sizes and times.
        compute_scale: of `replay`: time it computes / time in the file.
        message_scale: of `replay`: bytes it sends / bytes in the file.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    kind: WorkloadKind = "characters"
    preset: Literal["tiny", "small"] | None = None
    batch_size: Whole | None = None
    learning_rate: Positive | None = None
    dirichlet_alpha: Positive | None = None
    layers: Path | None = None
    compute_scale: Positive = 1.0
    message_scale: Positive = 1.0


@dataclass(frozen=True)
class Outer:
    """The outer optimizer: what is done with the combined change of the islands."""

    __pydantic_config__ = _NO_OTHER_FIELDS

    kind: OuterKind = "mean"
    learning_rate: Positive | None = None
    momentum: Annotated[float, Field(ge=0, lt=1, description="from 0, below 1")] | None = None


@dataclass(frozen=True)
class LinkChange:
    """What a link is to do from now on, both ways; what is not named stays."""

    __pydantic_config__ = _NO_OTHER_FIELDS

    rate_mbps: RateMbps | None = None
    one_way_delay_ms: Seconds | None = None
    jitter_ms: Seconds | None = None
    loss_pct: Percent | None = None
    duplicate_pct: Percent | None = None
    corrupt_pct: Percent | None = None


@dataclass(frozen=True)
class Fault:
    """Something that happens to the network at a time after the training has begun.

    Attributes:
        link: two sites, such as NYC-LON, whose link it happens to;
        down_s: it carries nothing for so long,
        change: or it changes,
        restore_after_s: back again after so long; None for the end of the training.
        accelerator: or the site whose accelerator is killed,
        restart_after_s: and started anew after so long; None for the end of the training.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    at_s: Seconds
    link: Annotated[str, Field(description="a link, such as NYC-LON")] | None = None
    down_s: Positive | None = None
    change: LinkChange | None = None
    restore_after_s: Positive | None = None
    accelerator: Code | None = None
    restart_after_s: Seconds | None = None


@dataclass(frozen=True)
class Variant:
    """One way to train over the network.

    Attributes:
        capability: what the network may do for it.
        plan: who meets whom.
        collective: the only kind to use; None for the best permitted one, round by round.
        local_steps: optimizer steps between two rounds; None for 10, or 1 without outer optimizer.
        overlap_fragments: parts of the model that travel while the island computes; 0 for none.
        rounds: rounds to train; with a target, at most.
        target_loss: held-out loss at which the training may end.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    name: Name = "default"
    capability: CapabilityName = "unicast"
    plan: PlanChoice = PlanChoice()
    collective: Collective | None = None
    workload: Workload = Workload()
    local_steps: Whole | None = None
    outer: Outer = Outer()
    overlap_fragments: Annotated[int, Field(ge=0, le=64, description="0 to 64")] = 0
    rounds: Whole = 6
    target_loss: Positive | None = None

    @property
    def steps(self) -> int:
        """Optimizer steps a round takes on every island."""
        return self.local_steps or (1 if self.outer.kind == "none" else DEFAULT_LOCAL_STEPS)

    @property
    def uses_aggregation(self) -> bool:
        """Whether it needs accelerators."""
        return "aggregation" in self.capability


@dataclass(frozen=True)
class Experiment:
    """A network, what disturbs it, and the variants that are compared on it.

    Attributes:
        topology: name of a bundled topology or path of a file.
        rate_scale: emulated rate / real rate; None for links of about 100 Mbit/s.
        traffic_matrix: a CSV file of background traffic.
        repetitions: of every variant.
        variants: at least one.
    """

    __pydantic_config__ = _NO_OTHER_FIELDS

    name: Name = "default"
    topology: Annotated[str, Field(min_length=1, description="a topology's name or file")] = (
        "nine_city"
    )
    rate_scale: Scale | None = None
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, description="a whole number from 0")] = 1
    accelerators: Accelerators = Accelerators()
    background: tuple[BackgroundFlow, ...] = ()
    tenants: tuple[TenantJob, ...] = ()
    traffic_matrix: Path | None = None
    faults: tuple[Fault, ...] = ()
    repetitions: Annotated[int, Field(ge=1, le=1000, description="a whole number from 1")] = 1
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)] = (Variant(),)

    @property
    def is_plain(self) -> bool:
        """Whether it is one training, whose record is that of the run itself."""
        return len(self.variants) == 1 and self.repetitions == 1
