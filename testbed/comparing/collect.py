"""Reading what the variants of a run left: `variants/<variant>/<repetition>/` of its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.comparing.figures import Run
from testbed.record.files import read_json
from testbed.record.writer import MANIFEST, SUMMARY
from topologies.errors import UserError

VARIANTS = "variants"


def variant_runs(run: Path) -> tuple[Run, ...]:
    """Return every repetition of every variant, variants in the order of the experiment.

    Raises:
        UserError: the run has no variants.
        RunError: a file of it is damaged.
    """
    folders = [path for path in (run / VARIANTS).glob("*/*") if (path / MANIFEST).is_file()]
    found = [_run(path, run) for path in folders if path.name.isdigit()]
    if not found:
        raise UserError(f"{run} has no variants to compare; `atoll run` a file with `variants`")
    order = {name: place for place, name in enumerate(_names(run))}
    last = len(order)
    return tuple(sorted(found, key=lambda x: (order.get(x.variant, last), x.variant, x.repetition)))


def _names(run: Path) -> list[str]:
    experiment: dict[str, Any] = (read_json(run / MANIFEST) or {}).get("experiment") or {}
    return [str(variant.get("name")) for variant in experiment.get("variants", ())]


def _run(path: Path, run: Path) -> Run:
    return Run(
        variant=path.parent.name,
        repetition=int(path.name),
        path=str(path.relative_to(run)),
        manifest=read_json(path / MANIFEST) or {},
        summary=read_json(path / SUMMARY),
    )
