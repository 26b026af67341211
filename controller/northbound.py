"""The northbound interface: the controller's state over HTTP, as JSON, for reading only.

    GET /health              is all installed; which switches are behind and why
    GET /topology            sites, their numbers, directions with rate, delay and state
    GET /paths               path and delay of every pair; /paths/NYC/LON of one
    GET /flows               rules of every switch; /flows/NYC of one, with fresh counters
    GET /groups              groups of every switch
    GET /ports               byte, packet and drop counters of every direction, with their time
                             (?max_age_s=0 asks the switches anew; ?partial=1 allows silent ones)
    GET /events              what happened lately (?after=17 from number 18 on)

An unknown site or path is 404, a wrong value 400, a silent switch 503; each with `{"error": ...}`.
It listens on the one address it is given, in a run the management address inside the run's own
network namespace.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, make_server

from controller.readout import COUNTERS_MAX_AGE_S, Readout
from topologies.errors import AtollError, MachineError, UserError


def create_app(readout: Readout) -> Flask:
    """The Flask application over a readout."""
    app = Flask("controller")
    _add_state_routes(app, readout)
    _add_counter_routes(app, readout)
    _add_error_answers(app)
    return app


def _add_state_routes(app: Flask, readout: Readout) -> None:
    app.add_url_rule("/health", "health", lambda: jsonify(readout.health()))
    app.add_url_rule("/topology", "topology", lambda: jsonify(readout.topology()))
    app.add_url_rule("/paths", "paths", lambda: jsonify(readout.paths()))
    app.add_url_rule("/paths/<a>/<b>", "path", lambda a, b: jsonify(readout.path(a, b)))
    app.add_url_rule("/flows", "flows", lambda: jsonify(readout.flows()))
    app.add_url_rule("/groups", "groups", lambda: jsonify(readout.groups()))


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
    if isinstance(error, _WrongValueError):
        return 400
    return 404 if isinstance(error, UserError) else 503


def _add_error_answers(app: Flask) -> None:
    @app.errorhandler(AtollError)
    def ours(error: AtollError) -> tuple[Response, int]:
        code = _status_of(error)
        return jsonify(error=str(error)), code

    @app.errorhandler(HTTPException)
    def of_http(error: HTTPException) -> tuple[Response, int]:
        return jsonify(error=f"{request.path}: {error.name}"), error.code or 500

    @app.errorhandler(Exception)
    def unforeseen(error: Exception) -> tuple[Response, int]:
        logging.getLogger("atoll.controller").exception("northbound %s", request.path)
        return jsonify(error=repr(error)), 500


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


def serve(readout: Readout, host: str, port: int) -> BaseWSGIServer:
    """Listen and answer in a thread of its own; the server, so that it can be shut down.

    Raises:
        MachineError: the address is not there or in use.
    """
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    app = create_app(readout)
    with listening_socket(host, port) as bound:
        server = make_server(host, port, app, threaded=True, fd=bound.fileno())
    threading.Thread(target=server.serve_forever, name="northbound", daemon=True).start()
    return server
