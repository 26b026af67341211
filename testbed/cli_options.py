"""Options and arguments that several commands share, each told once.

Options that go together are fields of a dataclass. A command takes the dataclass as one parameter,
and `unfolded` shows Typer, which reads signatures, a parameter for every field in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Json = Annotated[bool, typer.Option("--json", help="Print figures as JSON.")]
Topo = Annotated[str, typer.Argument(help="A bundled topology's name, or a file.")]
RunId = Annotated[str | None, typer.Option("--run", help="Which run, when several are up.")]
Site = Annotated[str, typer.Argument(help="Code of the site, such as NYC.")]
Scale = Annotated[
    float | None,
    typer.Option("--rate-scale", help="Emulated / real rate; by default, links of 100 Mbit/s."),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of data, model and links.")
]
Datapath = Annotated[str | None, typer.Option("--datapath", help="kernel or userspace.")]
Links = Annotated[str | None, typer.Option("--links", help="netem or linkd.")]
Congestion = Annotated[str, typer.Option("--congestion-control", help="TCP's, in every island.")]
RealTime = Annotated[bool, typer.Option(help="Real-time priority for the data path.")]
Calibrate = Annotated[bool, typer.Option(help="Measure every link before relying on it.")]
Capture = Annotated[bool, typer.Option("--capture", help="Capture packets per link.")]
TimeLimit = Annotated[float, typer.Option(min=1.0, help="Limit of each training, in seconds.")]
Reported = Annotated[bool, typer.Option("--report/--no-report", help="Draw a report in the end.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where run records are kept.")]
Sites = Annotated[
    str | None,
    typer.Option("--accelerators", help="Sites with an accelerator, as AMS,NYC, or all."),
]
SumRate = Annotated[
    float | None, typer.Option("--accelerator-rate-mbps", min=0.001, help="Limit of each.")
]
SumSlots = Annotated[
    int | None, typer.Option("--accelerator-slots", min=1, help="Windows of all trees at each.")
]
FanIn = Annotated[
    int | None, typer.Option("--accelerator-fan-in", min=1, max=64, help="Children of a tree.")
]


@dataclass(frozen=True)
class BuildOptions:
    """How the WAN is built; None leaves it to the machine."""

    datapath: Datapath = None
    links: Links = None
    congestion_control: Congestion = "cubic"
    realtime: RealTime = True


@dataclass(frozen=True)
class TrainingOptions(BuildOptions):
    """How trainings are carried out on it, whichever they are."""

    runs: Runs = Path("runs")
    timeout_s: TimeLimit = 900.0
    calibrate: Calibrate = True


@dataclass(frozen=True)
class LimitOptions:
    """What an accelerator can do at most; None leaves it unlimited."""

    accelerator_rate_mbps: SumRate = None
    accelerator_slots: SumSlots = None
    accelerator_fan_in: FanIn = None


def unfolded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose signature has, for each of its dataclasses, a parameter a field."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups = {one.name: one.annotation for one in parameters if _is_group(one.annotation)}

    @wraps(command)
    def folding(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        command(**given)

    shown = [part for one in parameters for part in _parts(one)]
    vars(folding)["__signature__"] = inspect.Signature(shown)
    folding.__annotations__ = {one.name: one.annotation for one in shown}
    return folding


def _is_group(annotation: Any) -> bool:
    return is_dataclass(annotation)


def _parts(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield a parameter for every field of a dataclass, or the parameter itself."""
    if not _is_group(parameter.annotation):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    types = get_type_hints(parameter.annotation, include_extras=True)
    for one in fields(parameter.annotation):
        yield inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=types[one.name],
        )
