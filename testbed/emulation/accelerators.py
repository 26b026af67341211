"""The accelerators of a run: a process at each site that has one, in its own namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from controller.fabric import ACCELERATOR_INTERFACE, Fabric
from testbed.accelerator.config import Address, Counters, TreeConfig
from testbed.accelerator.process import AcceleratorProcess, Limits, Place
from testbed.emulation.network import Network
from testbed.innetwork.layout import ACCELERATOR_PORT
from topologies.errors import RunError, UserError

MOST_REVIVALS = 20


class Accelerators:
    """Started accelerators by site; none of them knows a tree yet.

    Attributes:
        mishaps: what happened to them unasked so far, one line each.
    """

    def __init__(
        self, by_site: Mapping[str, AcceleratorProcess], most_revivals: int = MOST_REVIVALS
    ) -> None:
        self._by_site = dict(by_site)
        self._dead: set[str] = set()
        self._revivals_left = dict.fromkeys(by_site, most_revivals)
        self.mishaps: list[str] = []

    @classmethod
    def start(
        cls, network: Network, fabric: Fabric, limits: Mapping[str, Limits], directory: Path
    ) -> Accelerators:
        """Start one at each site of `limits`; all are ended again if one does not start.

        Raises:
            MachineError: it cannot be built or started here.
        """
        folder = directory / "accelerators"
        folder.mkdir()
        started: dict[str, AcceleratorProcess] = {}
        with ExitStack() as undo:
            for site in sorted(limits):
                place = _place(network, fabric, folder, site)
                started[site] = AcceleratorProcess.start(place, limits[site])
                undo.callback(started[site].close)
            undo.pop_all()
        return cls(started)

    @property
    def sites(self) -> tuple[str, ...]:
        """Sites that have an accelerator, sorted."""
        return tuple(sorted(self._by_site))

    def at(self, site: str) -> AcceleratorProcess:
        """Return the accelerator of a site; a site without one is a `UserError`."""
        try:
            return self._by_site[site]
        except KeyError:
            known = ", ".join(self.sites) or "no site"
            raise UserError(f"{site} has no accelerator; {known} has") from None

    def open(self, configs: Mapping[str, Iterable[TreeConfig]]) -> None:
        """Tell each accelerator its places in trees; raises `UserError` for one it refuses."""
        for site, told in sorted(configs.items()):
            for config in told:
                self.at(site).open(config)

    def counters(self) -> dict[str, Counters]:
        """Return what each living accelerator has counted; one that hangs is started anew."""
        return {site: self._counted(site, one) for site, one in self._living()}

    def _counted(self, site: str, one: AcceleratorProcess) -> Counters:
        try:
            return one.counters()
        except RunError as error:
            if not self._revivals_left[site]:
                raise
            self._begin_anew(site, str(error))
            return one.counters()

    def kill(self, site: str) -> None:
        """End the accelerator of a site on purpose, as a power cut would."""
        accelerator = self.at(site)
        self._dead.add(site)
        accelerator.kill()

    def restart(self, site: str) -> None:
        """Start the accelerator of a site anew, in the same trees with nothing summed."""
        self.at(site).restart()
        self._dead.discard(site)

    def revive(self) -> list[str]:
        """Start anew whoever ended by itself, with nothing summed; return a line on each.

        Sums survive that (`docs/protocol.md`), so that nobody's round is to end with it; what was
        measured meanwhile is another matter, hence `mishaps`. One that ends again and again is
        left as it is, for `failure` to tell.
        """
        ended = [(site, why) for site, one in self._living() if (why := one.failure())]
        return [self._begin_anew(site, why) for site, why in ended if self._revivals_left[site]]

    def _begin_anew(self, site: str, why: str) -> str:
        """Start one anew, as often as is permitted; return what will be told of it."""
        self._revivals_left[site] -= 1
        self.at(site).restart()
        self.mishaps.append(f"{why}; it was started anew at {datetime.now():%H:%M:%S}")
        return self.mishaps[-1]

    def failure(self) -> str | None:
        """Return how one of them ended by itself, or None while all live that should."""
        return next((why for _, one in self._living() if (why := one.failure())), None)

    def _living(self) -> list[tuple[str, AcceleratorProcess]]:
        return [(site, one) for site, one in self._by_site.items() if site not in self._dead]

    def close(self) -> None:
        """End all of them."""
        for accelerator in self._by_site.values():
            accelerator.close()


def _place(network: Network, fabric: Fabric, folder: Path, site: str) -> Place:
    return Place(
        folder=folder,
        name=site,
        address=Address(fabric.accelerator_ip(site), ACCELERATOR_PORT),
        interface=ACCELERATOR_INTERFACE,
        enter=("mnexec", "-a", str(network.accelerator(site).pid)),
    )
