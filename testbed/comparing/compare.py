"""From the record of a run to its `comparison.json`."""

from __future__ import annotations

from pathlib import Path

from testbed.comparing.collect import variant_runs
from testbed.comparing.comparison import Comparison, comparison_of
from testbed.record.damage import readable
from testbed.record.files import read_json, write_json
from testbed.record.writer import MANIFEST

FILE_NAME = "comparison.json"


def compare(run: Path) -> Comparison:
    """Compare the variants of a run, from its files alone.

    Raises:
        UserError: it has no variants.
        RunError: a file is damaged.
    """
    with readable(run):
        manifest = read_json(run / MANIFEST) or {}
        experiment = manifest.get("experiment") or {}
        name, topology = str(experiment.get("name", "")), str(manifest.get("topology", ""))
        return comparison_of(variant_runs(run), name, topology)


def write_comparison(run: Path) -> Comparison:
    """Compare the variants of a run and write `comparison.json` beside them."""
    comparison = compare(run)
    write_json(run / FILE_NAME, comparison.to_json())
    return comparison
