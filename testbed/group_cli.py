"""`atoll group`: multicast groups of a running emulation, asked of its controller."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from testbed.cli_options import RunId
from testbed.reaching import access_to, ask_controller

group_app = typer.Typer(
    help="Make and remove multicast groups of a running emulation.", no_args_is_help=True
)


def _sites(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


@group_app.command(name="add")
def add(
    members: Annotated[str, typer.Argument(help="Sites whose islands receive, as AMS,NYC.")],
    senders: Annotated[
        str | None, typer.Option("--senders", help="Sites that may send; all if left out.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="IPv4 multicast address; the next free one.")
    ] = None,
    run: RunId = None,
) -> None:
    """Make a group; prints it with its address, ready for any program that sends to it."""
    body = {
        "members": _sites(members),
        "senders": None if senders is None else _sites(senders),
        "group_ip": address,
    }
    raise typer.Exit(ask_controller(access_to(run), "/groups", "POST", body))


@group_app.command(name="list")
def list_groups(run: RunId = None) -> None:
    """List groups: those asked for, and those that hosts joined by IGMP."""
    raise typer.Exit(ask_controller(access_to(run), "/groups"))


@group_app.command(name="delete")
def delete(
    address: Annotated[str, typer.Argument(help="Address of the group, such as 239.192.0.1.")],
    run: RunId = None,
) -> None:
    """Remove a group that was asked for."""
    raise typer.Exit(ask_controller(access_to(run), f"/groups/{quote(address, safe='')}", "DELETE"))
