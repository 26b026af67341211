"""What a run was asked to do, as plain data that the supervisor hands to the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ORDER_NAME = "order.json"


@dataclass(frozen=True)
class Order:
    """One run as it was asked for; everything the command line decides is here.

    Attributes:
        action: `train` (carry out an experiment and end), `bench` (measure collectives and end),
            `calibrate` (measure links thoroughly and end) or `up` (hold the network until told to
            end).
        topology: name of a bundled topology or path of a file.
        rate_scale: emulated rate / real rate.
        datapath: `kernel` or `userspace`, as the doctor chose.
        link_backend: `netem` or `linkd`, as the doctor chose.
        controller_file: somebody's Ryu application to run instead of ours.
        experiment: for the action `train`; see `testbed.experiment.file.to_data`.
        trainings: for each of its variants the `schedule` and the `message_bytes` it was planned
            for; see `testbed.experiment.schedule.to_data`.
        accelerators: sites that get an accelerator.
        accelerator_limits: of each of them; see `testbed.accelerator.process.Limits`.
        bench: for the action `bench`, the `options` (see `testbed.benching.options`) and what is
            `planned` for each kind of collective (see `testbed.benching.cliques`).
        throughput: whether switch daemons rather move many packets than each at once.
        calibrate: whether links are measured before they are relied on.
        timeout_s: limit of each training.
        as_json: whether standard output is for figures alone.
        report: whether a report is drawn in the end.
        command: what the user typed, for the record.
    """

    action: str
    run_id: str
    topology: str
    record_directory: str
    rate_scale: float
    datapath: str
    link_backend: str
    congestion_control: str = "cubic"
    realtime: bool = True
    controller_file: str | None = None
    seed: int = 1
    experiment: Mapping[str, Any] | None = None
    trainings: Sequence[Mapping[str, Any]] = ()
    capture: bool = False
    calibrate: bool = True
    accelerators: Sequence[str] = ()
    accelerator_limits: Mapping[str, Any] = field(default_factory=dict)
    bench: Mapping[str, Any] | None = None
    throughput: bool = False
    as_json: bool = False
    report: bool = True
    timeout_s: float = 900.0
    command: str = ""

    def write(self, directory: Path) -> None:
        """Leave the order in the run's private folder."""
        (directory / ORDER_NAME).write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, directory: Path) -> Order:
        """Return the order found in a run's private folder."""
        return cls(**json.loads((directory / ORDER_NAME).read_text()))
