"""The format of an experiment file, and its published JSON Schema.

A file's top level holds the experiment's own fields and those of a variant, which hold for all
variants unless a row of `variants` says otherwise. `python -m testbed.experiment.schema` writes
`experiment.schema.json` anew; it is for editors and other programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from testbed.experiment.model import Experiment, Variant

SCHEMA_FILE = Path(__file__).parent / "experiment.schema.json"
VARIANTS, NAME = "variants", "name"


@cache
def experiment_format() -> TypeAdapter[Experiment]:
    """Return what reads, writes and describes an experiment."""
    return TypeAdapter(Experiment)


@cache
def variant_format() -> TypeAdapter[Variant]:
    """Return what reads, writes and describes a variant."""
    return TypeAdapter(Variant)


@cache
def head_fields() -> tuple[str, ...]:
    """Return the keys of a file that belong to the experiment itself."""
    return tuple(key for key in Experiment.__dataclass_fields__ if key != VARIANTS)


@cache
def variant_fields() -> tuple[str, ...]:
    """Return the keys of a file that every variant may have for itself."""
    return tuple(key for key in Variant.__dataclass_fields__ if key != NAME)


@cache
def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an experiment file."""
    whole = experiment_format().json_schema()
    variant = whole["$defs"]["Variant"]
    shared = {key: rule for key, rule in variant["properties"].items() if key != NAME}
    own = {key: rule for key, rule in whole["properties"].items() if key != VARIANTS}
    rows = {"type": "array", "items": {"$ref": "#/$defs/Variant"}, "minItems": 1}
    rows["description"] = "a list of variants, each with a name and what differs in it"
    variant["required"] = [NAME]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Experiment",
        "description": "What to train how on which network; see docs/experiments.md.",
        "type": "object",
        "additionalProperties": False,
        "properties": {**own, **shared, VARIANTS: rows},
        "$defs": whole["$defs"],
    }


def rule_at(path: tuple[str | int, ...]) -> Mapping[str, Any]:
    """Return the part of the schema that rules the value at `path`; empty where none does."""
    part: Mapping[str, Any] = json_schema()
    for step in path:
        inside = part.get("items", {}) if isinstance(step, int) else part.get("properties", {})
        part = _resolved(inside if isinstance(step, int) else inside.get(step, {}))
    return part


def _resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rule without references and without the null that no file can hold."""
    description = part.get("description")
    for option in part.get("anyOf", ()):
        if option.get("type") != "null":
            part = option
    if reference := part.get("$ref"):
        part = json_schema()["$defs"][reference.rsplit("/", 1)[1]]
    return part if description is None else {**part, "description": description}


def main() -> None:
    """Write the published schema beside this module."""
    SCHEMA_FILE.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
