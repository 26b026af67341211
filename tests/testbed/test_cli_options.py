"""Options that go together: fields of one parameter to a command, options of their own to users."""

import inspect
from typing import Annotated

import typer
from typer.testing import CliRunner

from testbed.cli_options import LimitOptions, TrainingOptions, unfolded

app = typer.Typer()


@app.command()
@unfolded
def command(
    name: Annotated[str, typer.Argument()] = "nobody",
    *,
    limits: LimitOptions,
    loud: bool = False,
    how: TrainingOptions,
) -> None:
    print(name, limits, loud, how)


def test_options_stand_where_their_parameter_stood() -> None:
    assert list(inspect.signature(command).parameters) == [
        "name",
        "accelerator_rate_mbps",
        "accelerator_slots",
        "accelerator_fan_in",
        "loud",
        "datapath",
        "links",
        "congestion_control",
        "realtime",
        "runs",
        "timeout_s",
        "calibrate",
    ]


def test_a_command_gets_what_was_given_and_defaults_for_the_rest() -> None:
    words = ["NYC", "--loud", "--links", "netem", "--accelerator-slots", "7"]
    said = CliRunner().invoke(app, words).output
    limits, how = LimitOptions(accelerator_slots=7), TrainingOptions(links="netem")
    assert said.strip() == f"NYC {limits} True {how}"


def test_limits_of_an_option_hold_in_a_group_as_well() -> None:
    done = CliRunner().invoke(app, ["--timeout-s", "0.5"])
    assert done.exit_code == 2
