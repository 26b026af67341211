"""Starts an accelerator in a node's network namespace, tells it of trees, asks what it counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.accelerator.build import ensure_built
from testbed.accelerator.config import Address, Counters, TreeConfig, parse_counters
from testbed.native.client import RequestRefusedError
from testbed.native.daemon import Daemon
from topologies.errors import RunError, UserError

BILLIONTHS_PER_PERCENT = 10_000_000


@dataclass(frozen=True)
class Limits:
    """What the emulated hardware could do.

    Attributes:
        rate_mbps: packets it takes in, IP and UDP headers counted; None for what the machine can.
        slots: windows of all its trees together.
        fan_in: children of a tree.
    """

    rate_mbps: float | None = None
    slots: int = 65536
    fan_in: int = 64

    def options(self) -> list[str]:
        """Return the limits as options of the program."""
        rate_bps = 0 if self.rate_mbps is None else round(self.rate_mbps * 1_000_000)
        numbers = {"--rate-bps": rate_bps, "--slots": self.slots, "--fan-in": self.fan_in}
        return [word for name, value in numbers.items() for word in (name, str(value))]


@dataclass(frozen=True)
class Place:
    """Where an accelerator runs.

    Attributes:
        folder: for its control socket and its log; must exist.
        name: of both files, unique in the folder.
        address: UDP address it receives at and sends from.
        interface: by which multicast leaves; None for what the routes say.
        enter: command that runs another in the node's namespaces, such as `mnexec -a PID`; empty
            for the caller's own.
    """

    folder: Path
    name: str
    address: Address
    interface: str | None = None
    enter: Sequence[str] = ()

    @property
    def socket(self) -> Path:
        """Control socket."""
        return self.folder / f"{self.name}.sock"

    @property
    def log(self) -> Path:
        """What the program complains of."""
        return self.folder / f"{self.name}.log"


class AcceleratorProcess:
    """A running accelerator; it ends with the process that started it, however that ends."""

    def __init__(self, place: Place, limits: Limits, program: Path) -> None:
        self.place = place
        self.limits = limits
        self.incarnation = 0
        self._program = program
        self._trees: dict[tuple[int, int], TreeConfig] = {}
        self._begin()

    @classmethod
    def start(
        cls, place: Place, limits: Limits | None = None, program: Path | None = None
    ) -> AcceleratorProcess:
        """Start an accelerator that takes part in no tree yet.

        Args:
            place: where it runs.
            limits: what it could do; the protocol's limits if not given.
            program: another build of it, such as one with sanitizers.

        Raises:
            MachineError: when it cannot be built or started.
        """
        return cls(place, limits or Limits(), program or ensure_built())

    def _begin(self) -> None:
        self.incarnation += 1
        command = [*self.place.enter, str(self._program), *self._options()]
        self._daemon = Daemon("the accelerator", command, self.place.socket, self.place.log)

    def _options(self) -> list[str]:
        options = ["--address", str(self.place.address)]
        if self.place.interface:
            options += ["--interface", self.place.interface]
        return [*options, "--incarnation", str(self.incarnation), *self.limits.options()]

    @property
    def process_id(self) -> int:
        """The program's process id, for whoever watches its CPU."""
        return self._daemon.process_id

    def open(self, config: TreeConfig) -> None:
        """Take part in a tree from now on, with nothing summed yet.

        Raises:
            UserError: beyond the limits of this accelerator.
            RunError: it has ended.
        """
        self._ask(f"open {config.words()}")
        self._trees[config.job, config.tree] = config

    def close_tree(self, job: int, tree: int) -> None:
        """Forget a tree; raises UserError if it is not open."""
        self._ask(f"close job={job} tree={tree}")
        del self._trees[job, tree]

    def counters(self) -> Counters:
        """Return what was counted since the start; raises RunError if it has ended."""
        return parse_counters(self._request("counters"))

    def inject(
        self, way: str, loss_pct: float = 0.0, duplicate_pct: float = 0.0, seed: int = 0
    ) -> None:
        """Drop and double packets on purpose from now on, the same ones for the same seed.

        Args:
            way: "in" for packets that come in, "out" for those it sends.
            loss_pct: chance of a packet to be dropped.
            duplicate_pct: chance of one that is not dropped to be doubled.
            seed: of the generator that decides.

        Raises:
            UserError: for values that are out of range.
        """
        drop = round(loss_pct * BILLIONTHS_PER_PERCENT)
        duplicate = round(duplicate_pct * BILLIONTHS_PER_PERCENT)
        self._ask(f"fault {way} drop={drop} duplicate={duplicate} seed={seed}")

    def _ask(self, request: str) -> None:
        try:
            self._request(request)
        except RequestRefusedError as refusal:
            raise UserError(f"accelerator {self.place.name}: {refusal}") from refusal

    def _request(self, request: str) -> list[str]:
        try:
            return self._daemon.ask(request)
        except RequestRefusedError:
            raise
        except RunError as error:
            silent = f"accelerator {self.place.name} does not answer"
            raise RunError(self.failure() or silent) from error

    def kill(self) -> None:
        """End the program at once, as a power cut would."""
        self._daemon.kill()

    def restart(self) -> None:
        """Start anew with nothing summed, in the same trees, as the next incarnation.

        Raises:
            MachineError: when it cannot be started.
        """
        self.kill()
        self._begin()
        for config in self._trees.values():
            self._ask(f"open {config.words()}")

    def failure(self) -> str | None:
        """Return how the program ended, or None while it runs."""
        ended = self._daemon.ended()
        return None if ended is None else f"the accelerator of {self.place.name} {ended}"

    def close(self) -> None:
        """End the program and remove its socket; a second call does nothing."""
        self._daemon.close()
