"""The northbound interface: the controller's state over HTTP, as JSON, and trees and groups to ask.

    GET /health              is all installed; which switches are behind and why
    GET /topology            sites, their numbers, directions with rate, delay and state
    GET /paths               path and delay of every pair; /paths/NYC/LON of one
    GET /flows               rules of every switch; /flows/NYC of one, with fresh counters
    GET /switch-groups       group tables of every switch
    GET /ports               byte, packet and drop counters of every direction, with their time
                             (?max_age_s=0 asks the switches anew; ?partial=1 allows silent ones)
    GET /events              what happened lately (?after=17 from number 18 on)

    GET /trees               trees that were asked for; who sums what, what cuts them
    POST /trees              {"trees": [...]}: lay out trees, all or none (`requests.TreeRequest`)
    PUT /trees/7             move a tree, made before broken; DELETE removes it
    GET /groups              multicast groups, who is in them and who joined by IGMP
    POST /groups             {"members": [...]}: make a group (`requests.GroupRequest`)
    DELETE /groups/239.1.1.1 remove it

An unknown site or path is 404, a wrong value 400, a silent switch 503; each with `{"error": ...}`.
It listens on the one address it is given, in a run the management address inside the run's own
network namespace. Islands are on the management network too: they may read, and change nothing.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
from ipaddress import ip_address, ip_network

from flask import Flask, Response, abort, jsonify, request
from werkzeug.exceptions import (
    Forbidden,
    HTTPException,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
)
from werkzeug.serving import BaseWSGIServer, make_server

from controller.app import FabricController
from controller.asking import Asking
from controller.fabric import CONTROLLER_IP, MANAGEMENT_NETWORK
from controller.readout import COUNTERS_MAX_AGE_S, Readout
from controller.requests import UnknownError
from topologies.errors import AtollError, MachineError, UserError

LARGEST_REQUEST_BYTES = 4 * 2**20


def create_app(readout: Readout, asking: Asking) -> Flask:
    """The Flask application over what can be read and what can be asked for."""
    app = Flask("controller")
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST_BYTES
    app.before_request(_refuse_changes_by_islands)
    _add_state_routes(app, readout)
    _add_asking_routes(app, asking)
    _add_counter_routes(app, readout)
    _add_error_answers(app)
    return app


def _add_state_routes(app: Flask, readout: Readout) -> None:
    app.add_url_rule("/health", "health", lambda: jsonify(readout.health()))
    app.add_url_rule("/topology", "topology", lambda: jsonify(readout.topology()))
    app.add_url_rule("/paths", "paths", lambda: jsonify(readout.paths()))
    app.add_url_rule("/paths/<a>/<b>", "path", lambda a, b: jsonify(readout.path(a, b)))
    app.add_url_rule("/flows", "flows", lambda: jsonify(readout.flows()))
    app.add_url_rule("/groups", "groups", lambda: jsonify(groups=readout.groups()))
    app.add_url_rule("/trees", "trees", lambda: jsonify(trees=readout.trees()))
    app.add_url_rule("/switch-groups", "switch_groups", lambda: jsonify(readout.switch_groups()))


def _add_asking_routes(app: Flask, asking: Asking) -> None:
    @app.post("/trees")
    def add_trees() -> Response:
        return jsonify(trees=asking.add_trees(request.get_data()))

    @app.put("/trees/<int:tree_id>")
    def move_tree(tree_id: int) -> Response:
        return jsonify(asking.move_tree(tree_id, request.get_data()))

    @app.delete("/trees/<int:tree_id>")
    def remove_tree(tree_id: int) -> Response:
        return jsonify(asking.remove_tree(tree_id))

    @app.post("/groups")
    def add_group() -> Response:
        return jsonify(asking.add_group(request.get_data()))

    @app.delete("/groups/<group_ip>")
    def remove_group(group_ip: str) -> Response:
        return jsonify(asking.remove_group(group_ip))


def _refuse_changes_by_islands() -> None:
    sender = ip_address(request.remote_addr or "0.0.0.0")
    of_the_run = sender in ip_network(MANAGEMENT_NETWORK) and str(sender) != CONTROLLER_IP
    if of_the_run and request.method not in ("GET", "HEAD"):
        abort(403)


def _add_counter_routes(app: Flask, readout: Readout) -> None:
    @app.get("/flows/<site>")
    def live_flows(site: str) -> Response:
        return jsonify(readout.live_flows(site))

    @app.get("/ports")
    def ports() -> Response:
        max_age_s = _number("max_age_s", COUNTERS_MAX_AGE_S)
        return jsonify(readout.ports(max_age_s, partial=request.args.get("partial") == "1"))

    @app.get("/events")
    def events() -> Response:
        return jsonify(readout.events(int(_number("after", 0))))


def _number(name: str, default: float) -> float:
    text = request.args.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise _WrongValueError(f"{name}={text} is not a number from 0 on")
    return value


class _WrongValueError(UserError):
    """A query parameter that cannot be understood."""


def _status_of(error: AtollError) -> int:
    if isinstance(error, UnknownError):
        return 404
    if isinstance(error, _WrongValueError) or request.method != "GET":
        return 400 if isinstance(error, UserError) else 503
    return 404 if isinstance(error, UserError) else 503


def _add_error_answers(app: Flask) -> None:
    @app.errorhandler(AtollError)
    def ours(error: AtollError) -> tuple[Response, int]:
        code = _status_of(error)
        return jsonify(error=_line(str(error))), code

    @app.errorhandler(HTTPException)
    def of_http(error: HTTPException) -> tuple[Response, int]:
        text = f"{request.path}: {error.name}{_remedy(app, error)}"
        return jsonify(error=_line(text)), error.code or 500

    @app.errorhandler(Exception)
    def unforeseen(error: Exception) -> tuple[Response, int]:
        logging.getLogger("atoll.controller").exception("northbound %s", request.path)
        return jsonify(error=repr(error)), 500


def _line(text: str) -> str:
    """What somebody typed may hold anything; an error is one line."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _remedy(app: Flask, error: HTTPException) -> str:
    """What would have been right, in a few words; empty where nobody can know."""
    if isinstance(error, NotFound):
        return f"; there are {', '.join(_readable_paths(app))}"
    if isinstance(error, MethodNotAllowed):
        return f"; it takes {', '.join(sorted(error.valid_methods or ()))}"
    if isinstance(error, Forbidden):
        return "; islands may read, and change nothing"
    if isinstance(error, RequestEntityTooLarge):
        return f"; send {LARGEST_REQUEST_BYTES} bytes at most"
    return ""


def _readable_paths(app: Flask) -> list[str]:
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint != "static"]
    return sorted({rule.rule for rule in rules if "GET" in (rule.methods or ())})


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on this address.

    Raises:
        MachineError: the address is not there or in use.
    """
    try:
        return socket.create_server((host, port))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise MachineError(f"cannot listen on {host}:{port}: {reason}") from None


def serve(controller: FabricController, host: str, port: int) -> BaseWSGIServer:
    """Listen and answer in a thread of its own; the server, so that it can be shut down.

    Raises:
        MachineError: the address is not there or in use.
    """
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    app = create_app(Readout(controller), Asking(controller))
    with listening_socket(host, port) as bound:
        server = make_server(host, port, app, threaded=True, fd=bound.fileno())
    threading.Thread(target=server.serve_forever, name="northbound", daemon=True).start()
    return server
