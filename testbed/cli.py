"""The `atoll` command: parses, calls the rooms, and turns every failure into one line.

A command imports what it works with when it is called, here and in the rooms: planning, training
and plotting take seconds to load, which `atoll --help` and the other commands need not wait for.

Exit codes: 0 done, 1 failed or invalid, 2 the user's mistake.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from schedules.cli import bounds_command, plan_command
from testbed.benching.cli import bench_app
from testbed.cli_options import (
    BuildOptions,
    Calibrate,
    Datapath,
    Json,
    LimitOptions,
    Links,
    RealTime,
    RunId,
    Runs,
    Scale,
    Seed,
    Site,
    Sites,
    Topo,
    unfolded,
)
from testbed.comparing.cli import compare_command
from testbed.experiment.cli import emulate_command, run_command
from testbed.group_cli import group_app
from testbed.progress import make_console
from testbed.reaching import access_to, ask_controller
from testbed.report_cli import report_command
from testbed.watching.cli import metrics_command, watch_command
from topologies.errors import AtollError, UserError, describe

if TYPE_CHECKING:
    from topologies.model import Topology

app = typer.Typer(
    name="atoll",
    help="A WAN of cities on one Linux machine, for people who train models across it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
topology_app = typer.Typer(help="Look at topologies and check files.", no_args_is_help=True)
controller_app = typer.Typer(
    help="Run an SDN application; ask a running one.", no_args_is_help=True
)
app.add_typer(topology_app, name="topology")
app.add_typer(controller_app, name="controller")
app.add_typer(group_app, name="group")
app.add_typer(bench_app, name="bench")
app.command(name="plan")(plan_command)
app.command(name="bounds")(bounds_command)
app.command(name="emulate")(emulate_command)
app.command(name="run")(run_command)
app.command(name="compare")(compare_command)
app.command(name="report")(report_command)
app.command(name="watch")(watch_command)
app.command(name="metrics")(metrics_command)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Probe this machine: what is there, what it is used for, how to get what is missing."""
    from testbed.doctor import diagnose, print_report

    report = diagnose()
    if as_json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        print_report(report, make_console())
    raise typer.Exit(0 if report.can_emulate else 1)


@app.command(name="calibrate")
def calibrate_topology(
    topology: Topo = "nine_city",
    rate_scale: Scale = None,
    seed: Seed = 1,
    datapath: Datapath = None,
    links: Links = None,
    realtime: RealTime = True,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measure thoroughly what every link really does: rate, delay, loss; a table and a plot."""
    from testbed.launch import RunChoices, launch

    choices = RunChoices(
        "calibrate", topology, rate_scale, datapath, links, "cubic", realtime, runs, seed
    )
    raise typer.Exit(launch(choices, {"as_json": as_json}, make_console(stderr=as_json)))


@app.command()
@unfolded
def up(
    topology: Topo = "nine_city",
    controller: Annotated[
        Path | None, typer.Option("--controller", help="A Ryu application to run instead.")
    ] = None,
    rate_scale: Scale = None,
    seed: Seed = 1,
    *,
    build: BuildOptions,
    calibrate: Calibrate = True,
    accelerators: Sites = None,
    limits: LimitOptions,
    runs: Runs = Path("runs"),
) -> None:
    """Build the WAN and hold it until Ctrl-C, for `exec`, `shell` and your own controller."""
    from testbed.launch import RunChoices, accelerator_limits, accelerator_sites, launch
    from topologies.files import load

    choices = RunChoices("up", topology, rate_scale, **asdict(build), runs=runs, seed=seed)
    file = _application(controller) if controller else None
    if file and accelerators:
        raise UserError("--accelerators: traffic is steered to them by our own controller alone")
    more = {
        "controller_file": file,
        "calibrate": calibrate,
        "accelerators": accelerator_sites(accelerators, load(topology)),
        "accelerator_limits": accelerator_limits(*astuple(limits)),
    }
    raise typer.Exit(launch(choices, more, make_console()))


@app.command(name="exec", context_settings={"ignore_unknown_options": True})
def execute(
    site: Site,
    command: Annotated[list[str], typer.Argument(help="After --, the command to run.")],
    run: RunId = None,
) -> None:
    """Run a command on an island of a running emulation, over SSH."""
    from testbed.deploy.remote import exec_command

    raise typer.Exit(exec_command(access_to(run), site, command))


@app.command()
def shell(site: Site, run: RunId = None) -> None:
    """Open a shell on an island of a running emulation."""
    from testbed.deploy.remote import shell as open_shell

    raise typer.Exit(open_shell(access_to(run), site))


@app.command()
def ps(as_json: Json = False) -> None:
    """List the running emulations and the processes at each site."""
    from testbed.processes import list_processes

    rows = list_processes()
    if as_json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    table = Table("run", "site", "kind", "pid", "CPU %", "MB", "command")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    make_console().print(table if rows else "No emulation is running.")


@app.command()
def clean(
    run: Annotated[str | None, typer.Argument(help="Run to end and remove.")] = None,
) -> None:
    """Remove what killed runs left; a living run is ended only when it is named."""
    from testbed.clean import clean as clean_runs

    cleaned = clean_runs(run)
    words = {"removed": "removed", "ended": "ended and removed", "alive": "is running, left alone"}
    for one in cleaned:
        print(f"{one.run_id}: {words[one.outcome]}")
    if not cleaned:
        print("Nothing to clean.")


def _application(file: Path) -> str:
    """Return the path of somebody's application; what Python cannot even read is refused here."""
    try:
        compile(file.read_bytes(), str(file), "exec")
    except (OSError, SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else describe(error)
        raise UserError(f"--controller {file}{line}: {reason}") from error
    return str(file.resolve())


@topology_app.command(name="list")
def list_topologies(as_json: Json = False) -> None:
    """List the bundled topologies."""
    from topologies.files import available, load

    rows = [_topology_row(load(name)) for name in available()]
    if as_json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    table = Table("name", "sites", "links", "source", "licence")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    make_console().print(table)


def _topology_row(topology: Topology) -> dict[str, Any]:
    return {
        "name": topology.name,
        "sites": len(topology.sites),
        "links": len(topology.links),
        "source": topology.source,
        "licence": topology.licence,
    }


@topology_app.command()
def check(topology: Topo) -> None:
    """Check a topology file; the first mistake is one line with its place, exit code 2."""
    from topologies.files import load

    row = _topology_row(load(topology))
    print(f"{row['name']}: {row['sites']} sites, {row['links']} links, nothing wrong")


@topology_app.command()
def draw(
    topology: Topo,
    file: Annotated[Path, typer.Argument(help="Picture to write: .svg or .png.")],
) -> None:
    """Draw a topology on a map of the world."""
    from topologies.files import load
    from topologies.picture import draw as draw_topology

    draw_topology(load(topology), file)
    print(f"{file}: {topology} drawn")


@controller_app.command(name="run", context_settings={"ignore_unknown_options": True})
def run_application(
    arguments: Annotated[list[str], typer.Argument(help="FILE, then what the launcher takes.")],
) -> None:
    """Run somebody's Ryu application, unchanged, for switches that you bring."""
    from controller.launcher import main as launch_controller

    raise typer.Exit(launch_controller(["run", *arguments]))


@controller_app.command(name="get")
def get(
    path: Annotated[str, typer.Argument(help="Such as /health, /paths/NYC/LON, /ports.")],
    run: RunId = None,
) -> None:
    """Ask the controller of a running emulation over its northbound API; prints JSON."""
    raise typer.Exit(ask_controller(access_to(run), "/" + path.lstrip("/")))


@app.command(name="runs")
def list_recorded(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """List the run records: complete, failed, running or killed."""
    from testbed.record.reader import list_runs
    from testbed.record.tables import run_table

    entries = list_runs(runs)
    if as_json:
        print(json.dumps({"rows": [asdict(entry) for entry in entries]}, indent=1))
        return
    make_console().print(run_table(entries) if entries else f"No run is recorded in {runs}.")


def main() -> None:
    """Run the command line; a failure of ours is one line on standard error."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except AtollError as error:
        code, text = error.exit_code, str(error)
    except typer.TyperException as error:
        code, text = 2, error.format_message().rstrip(".")
    except OSError as error:
        code, text = 1, describe(error)
    except (KeyboardInterrupt, typer.Abort):
        code, text = 130, "interrupted"
    # Help that was not asked for is what `atoll` alone answers: it is no complaint.
    print(text if "\n" in text else f"atoll: {text}", file=sys.stderr)
    sys.exit(code)
