"""The commands `plan` and `bounds`: the planner for a terminal, no root and no emulation needed.

They are part of `atoll`; `python -m schedules.cli` offers them alone. Exit codes: 0 done, 1 failed,
2 the user's mistake, which is told in one line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from schedules.wording import options_named
from topologies.errors import AtollError, UserError

if TYPE_CHECKING:
    from schedules.capabilities import Capabilities
    from schedules.constraints import Constraints
    from schedules.problem import Problem
    from schedules.watch import Progress, Watch
    from topologies.model import Topology

PLAIN_WIDTH = 150
SECONDS_BETWEEN_LINES = 5.0
SILENT_SECONDS = 1.0
BYTES_PER_MB = 1_000_000
EVERY_SITE = "all"

app = typer.Typer(
    name="schedules",
    help="Plans rounds of cliques for a network of islands.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print figures as JSON.")]
Topo = Annotated[str, typer.Argument(metavar="TOPO", help="A bundled topology's name, or a file.")]
RateScale = Annotated[
    float, typer.Option("--rate-scale", help="Rates as emulated: this times the real ones.")
]
MessageMb = Annotated[
    float, typer.Option("--message-mb", help="What an island contributes to a round, in 10^6 B.")
]


Capability = Annotated[
    str | None,
    typer.Option(
        "--capability",
        help="unicast (the default), multicast, aggregation or multicast+aggregation.",
    ),
]
Collective = Annotated[
    str | None,
    typer.Option(
        "--collective",
        help="exchange, ring, multicast, aggregation or innetwork; the best by default.",
    ),
]
Accelerators = Annotated[
    str | None,
    typer.Option("--accelerators", help="SITE,... that have one; every site by default."),
]
AcceleratorMbps = Annotated[
    float | None, typer.Option("--accelerator-mbps", help="What each takes in at most.")
]
FanIn = Annotated[int | None, typer.Option("--fan-in", help="Streams each sums into one at most.")]
ObjectiveName = Annotated[
    str, typer.Option("--objective", help="exchange, fair, mean or consensus.")
]
CliqueSize = Annotated[
    str | None, typer.Option("--clique-size", help="Islands in a clique: N or MIN-MAX.")
]
MaxRoundS = Annotated[float | None, typer.Option("--max-round-s", help="No round may take longer.")]
ComputeS = Annotated[
    float, typer.Option("--compute-s", help="Compute time a round hides its transfers behind.")
]
Stragglers = Annotated[
    list[str] | None,
    typer.Option("--straggler", help="SITE=FACTOR: computes that many times as long."),
]
MulticastLinks = Annotated[
    str | None,
    typer.Option("--multicast-links", help="A-B,... that trees may use; all by default."),
]
MaxGroups = Annotated[
    int | None, typer.Option("--max-groups", help="Trees that fit in the switches a round.")
]
Latency = Annotated[
    bool, typer.Option("--latency/--no-latency", help="Count propagation in a round's time.")
]
TimeLimitS = Annotated[
    float | None,
    typer.Option("--time-limit-s", help="Longest search; 60 above nine sites by default."),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Picture to write: .png, .svg or .pdf.")]
Compare = Annotated[
    bool, typer.Option("--compare", help="Every capability in a table, and a ring.")
]
Out = Annotated[Path | None, typer.Option("--out", help="File to write the plan to.")]


@app.command(name="plan")
def plan_command(
    topology: Topo,
    capability: Capability = None,
    collective: Collective = None,
    accelerators: Accelerators = None,
    accelerator_mbps: AcceleratorMbps = None,
    fan_in: FanIn = None,
    message_mb: MessageMb = 1000.0,
    objective: ObjectiveName = "exchange",
    rate_scale: RateScale = 1.0,
    clique_size: CliqueSize = None,
    max_round_s: MaxRoundS = None,
    compute_s: ComputeS = 0.0,
    straggler: Stragglers = None,
    max_groups: MaxGroups = None,
    multicast_links: MulticastLinks = None,
    latency: Latency = True,
    time_limit_s: TimeLimitS = None,
    plot: Plot = None,
    compare: Compare = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Plan rounds of cliques for a network and what it can do, with proof; Ctrl-C takes the best.

    Times are those of the cost model. Beside the plan stand a ring of all islands and what any
    method needs at least.
    """
    from schedules.network import Network
    from schedules.problem import Problem

    if compare and (plot or out or collective or capability):
        raise UserError("--compare takes no --capability, --collective, --plot or --out")
    if straggler and not compute_s:
        raise UserError("--straggler needs --compute-s: without computing nobody is late")
    _check_files(plot, out)
    loaded = _scaled(topology, rate_scale)
    name = "multicast+aggregation" if compare else capability or "unicast"
    offered = _capabilities(name, accelerators)
    offered = _limited(offered, accelerator_mbps, fan_in, loaded.codes)
    offered = replace(offered, max_groups=max_groups, multicast_links=_links(multicast_links))
    with options_named():
        problem = Problem(
            Network.of(loaded),
            offered,
            objective,
            collective,
            message_mb * BYTES_PER_MB,
            _constraints(clique_size, max_round_s, compute_s, straggler or []),
            latency,
        )
        if compare:
            _print_comparison(problem, time_limit_s, as_json)
        else:
            _print_plan(problem, time_limit_s, as_json, plot, out)


@app.command(name="bounds")
def bounds_command(
    topology: Topo,
    message_mb: MessageMb = 1000.0,
    rate_scale: RateScale = 1.0,
    as_json: Json = False,
) -> None:
    """Print the least time that any method needs, each bound with its source."""
    from schedules.bounds import all_bounds
    from schedules.problem import check_message
    from schedules.report import bound_rows, bounds_table

    check_message(message_mb * BYTES_PER_MB)
    loaded = _scaled(topology, rate_scale)
    bounds = all_bounds(loaded, message_mb * BYTES_PER_MB)
    if as_json:
        print(json.dumps({"rows": bound_rows(bounds)}, indent=1))
    else:
        title = f"{loaded.name}: all islands together, {message_mb:g} MB messages"
        _console().print(bounds_table(bounds, title))


# --- what the options mean ------------------------------------------------------------------------


def _scaled(name: str, rate_scale: float) -> Topology:
    if not 0 < rate_scale < inf:
        raise UserError(f"--rate-scale {rate_scale:g} is not above zero")
    from topologies.files import load

    return load(name).scaled(rate_scale)


def _check_files(plot: Path | None, out: Path | None) -> None:
    """Refuse files that cannot be written before the search, not after it."""
    for option, path in (("--plot", plot), ("--out", out)):
        if path is None:
            continue
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise UserError(f"{option} {path}: cannot be written; name a file in a folder that can")
    if plot is not None:
        from topologies.picture import check_format

        check_format(plot)


def _capabilities(name: str, accelerators: str | None) -> Capabilities:
    from schedules.capabilities import Capabilities

    sites = None
    if accelerators is not None and accelerators != EVERY_SITE:
        sites = [code.strip() for code in accelerators.split(",")]
        if "" in sites:
            raise UserError(f"--accelerators {accelerators!r}: write AMS,NYC, or {EVERY_SITE}")
    return Capabilities.parse(name, sites)


def _limited(
    offered: Capabilities,
    accelerator_mbps: float | None,
    fan_in: int | None,
    codes: Sequence[str],
) -> Capabilities:
    """Return capabilities with limits on their accelerators."""
    from schedules.capabilities import Accelerator

    limits = accelerator_mbps is not None or fan_in is not None
    if limits and not offered.aggregation:
        raise UserError(f"accelerators are limited, but {offered.name} has no aggregation")
    if limits:
        sites = codes if offered.accelerators is None else offered.accelerators
        rate = inf if accelerator_mbps is None else accelerator_mbps
        with options_named():
            each = Accelerator(rate, fan_in)
        offered = replace(offered, accelerators=dict.fromkeys(sites, each))
    return offered


def _links(text: str | None) -> frozenset[tuple[str, str]] | None:
    if text is None:
        return None
    pairs = [name.split("-") for name in text.split(",")]
    wrong = [pair for pair in pairs if len(pair) != 2]
    if wrong:
        raise UserError(f"--multicast-links {'-'.join(wrong[0])!r} is not A-B, such as LON-NYC")
    return frozenset((a, b) for a, b in pairs)


def _constraints(
    clique_size: str | None, max_round_s: float | None, compute_s: float, stragglers: Sequence[str]
) -> Constraints:
    from schedules.constraints import Constraints

    least, most = _sizes(clique_size)
    factors: dict[str, float] = {}
    for code, factor in map(_straggler, stragglers):
        if code in factors:
            raise UserError(f"--straggler {code}={factor:g}: {code} is {factors[code]:g} already")
        factors[code] = factor
    return Constraints(least, most, max_round_s, compute_s, factors)


def _sizes(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 2, None
    least, dash, most = text.partition("-")
    try:
        found = int(least), int(most if dash else least)
    except ValueError:
        raise UserError(
            f"--clique-size {text!r} is neither N nor MIN-MAX, such as 3 or 2-4"
        ) from None
    if found[1] < found[0]:
        raise UserError(f"--clique-size {text}: {found[1]} is below {found[0]}; write MIN-MAX")
    return found


def _straggler(text: str) -> tuple[str, float]:
    code, _, factor = text.partition("=")
    try:
        return code, float(factor)
    except ValueError:
        raise UserError(f"--straggler {text!r} is not SITE=FACTOR, such as NYC=1.5") from None


# --- planning and printing ------------------------------------------------------------------------


def _watch(problem: Problem, time_limit_s: float | None) -> Watch:
    from schedules.planner import default_watch

    if time_limit_s is not None and not time_limit_s > 0:
        raise UserError(f"--time-limit-s {time_limit_s:g} is not above zero")
    watch = default_watch(problem)
    return watch if time_limit_s is None else replace(watch, limit_s=time_limit_s)


def _print_plan(
    problem: Problem, time_limit_s: float | None, as_json: bool, plot: Path | None, out: Path | None
) -> None:
    from schedules.planner import plan_problem
    from schedules.report import print_plan

    watch = _watch(problem, time_limit_s)
    with _shown(watch), watch.catching_interrupts():
        found = plan_problem(problem, watch)
    if out is not None:
        _write(out, found.to_json() + "\n")
    if plot is not None:
        from schedules.picture import draw_plan

        draw_plan(found, problem.topology, plot)
    if as_json:
        print(found.to_json())
        return
    console = _console()
    print_plan(found, console)
    for path in (out, plot):
        if path is not None:
            console.print(f"{path} written")


def _print_comparison(problem: Problem, time_limit_s: float | None, as_json: bool) -> None:
    from schedules.planner import compare
    from schedules.report import alternative_row, comparison_table
    from schedules.solution import UNITS

    watch = _watch(problem, time_limit_s)
    with _shown(watch), watch.catching_interrupts():
        rows = [alternative_row(alternative) for alternative in compare(problem, watch)]
    if as_json:
        print(json.dumps({"rows": rows}, indent=1))
    else:
        _console().print(comparison_table(rows, UNITS[problem.objective]))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def _console(stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if console.is_terminal:
        return console
    return Console(width=PLAIN_WIDTH, stderr=stderr, highlight=False)


# --- progress -------------------------------------------------------------------------------------


def progress_text(progress: Progress) -> str:
    """Return where a search stands in one line."""
    parts = [progress.stage]
    if progress.total:
        parts[0] += f" {progress.done:,} of {progress.total:,}"
    elif progress.done:
        parts[0] += f" {progress.done:,}"
    if progress.gap_pct is not None:
        parts.append(f"gap at most {progress.gap_pct:.3g} %")
    parts.append(f"{progress.elapsed_s:.0f} s so far")
    if progress.left_s is not None:
        parts.append(f"{progress.left_s:.0f} s left")
    return ", ".join(parts)


@contextmanager
def _shown(watch: Watch) -> Iterator[None]:
    """Show a search that takes longer than a moment on standard error."""
    console = _console(stderr=True)
    last = time.monotonic()
    status = console.status("planning")

    def on_terminal(progress: Progress) -> None:
        if progress.elapsed_s > SILENT_SECONDS:
            status.start()
            status.update(progress_text(progress) + " (Ctrl-C takes the best so far)")

    def on_a_line(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(progress_text(progress))

    watch.listener = on_terminal if console.is_terminal else on_a_line
    try:
        yield
    finally:
        status.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands by themselves; a failure of ours is one line on standard error."""
    try:
        return int(app(arguments, standalone_mode=False) or 0)
    except AtollError as error:
        code, text = error.exit_code, str(error)
    except typer.TyperException as error:
        code, text = 2, error.format_message().rstrip(".")
    except (KeyboardInterrupt, typer.Abort):
        code, text = 130, "interrupted"
    print(text, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
