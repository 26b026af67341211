"""What may be asked of the controller from outside: trees and groups, added, moved and removed.

Between HTTP and the application: it turns a request into a change of the network view, and the
result into plain dictionaries. Everything is decided before anything is sent to a switch, so a
request either holds or leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from controller import requests
from controller.app import FabricController
from controller.readout import Json, Readout
from controller.requests import Ground, GroupRequest, TreeRequest, TreesRequest
from controller.view import NetworkView

Result = TypeVar("Result")


class Asking:
    """Changes to the trees and groups of one controller; every mistake is a `UserError`."""

    def __init__(self, controller: FabricController) -> None:
        self._controller = controller
        self._readout = Readout(controller)

    def add_trees(self, body: bytes) -> list[Json]:
        """Lay out the trees of a JSON request (see `requests.TreesRequest`); their rows."""
        asked = requests.read(TreesRequest, body)
        new = self._change(lambda ground: requests.add_trees(ground, asked.trees))
        return [self._readout.tree(tree) for tree in new]

    def move_tree(self, tree_id: int, body: bytes) -> Json:
        """Move a tree to what a JSON request says (see `requests.TreeRequest`); its row."""
        asked = requests.read(TreeRequest, body)
        return self._readout.tree(
            self._change(lambda ground: requests.move_tree(ground, tree_id, asked))
        )

    def remove_tree(self, tree_id: int) -> Json:
        """Remove a tree; the row it had."""
        row = self._readout.tree(requests.tree_of(self._controller.view, tree_id))
        self._change(lambda ground: (requests.remove_tree(ground.view, tree_id), None))
        return row

    def add_group(self, body: bytes) -> Json:
        """Make the group of a JSON request (see `requests.GroupRequest`); its row."""
        asked = requests.read(GroupRequest, body)
        return self._readout.group(self._change(lambda ground: requests.add_group(ground, asked)))

    def remove_group(self, group_ip: str) -> Json:
        """Remove a group that was asked for; the row it had."""
        row = self._readout.group(requests.group_of(self._controller.view, group_ip))
        self._change(lambda ground: (requests.remove_group(ground.view, group_ip), None))
        return row

    def _change(self, change: Callable[[Ground], tuple[NetworkView, Result]]) -> Result:
        control = self._controller

        def update(view: NetworkView) -> tuple[NetworkView, Result]:
            return change(Ground(control.fabric, control.plan.routes, view))

        return control.change(update)
