from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from tests.topologies.strategies import topologies
from topologies.document import read_yaml
from topologies.files import BUNDLED, available, to_data
from topologies.model import Topology
from topologies.schema import SCHEMA_FILE, json_schema

PUBLISHED: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(PUBLISHED)


def bundled(name: str) -> Any:
    return read_yaml((BUNDLED / f"{name}.yaml").read_text(encoding="utf-8"), name).data


def test_the_published_schema_is_the_one_the_reader_uses() -> None:
    assert json_schema() == PUBLISHED, "run python -m topologies.schema"


def test_the_published_schema_is_itself_valid() -> None:
    Draft202012Validator.check_schema(PUBLISHED)


@pytest.mark.parametrize("name", available())
def test_an_independent_validator_accepts_the_bundled_files(name: str) -> None:
    assert list(VALIDATOR.iter_errors(bundled(name))) == []


@settings(max_examples=30, deadline=None)
@given(topologies())
def test_an_independent_validator_accepts_what_is_dumped(topology: Topology) -> None:
    assert list(VALIDATOR.iter_errors(to_data(topology))) == []


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"surprise": 1},
        {"mtu_bytes": 100},
        {"sites": []},
        {"links": []},
        {"defaults": {"link": {"rate_mbps": 0}}},
        {"defaults": {"link": {"rate_mbps": "10Gbps"}}},
        {"defaults": {"link": {"rate_mbps": True}}},
        {"defaults": {"link": {"rate_mbps": None}}},
        {"defaults": {"link": {"loss_pct": 101}}},
        {"defaults": {"link": {"one_way_delay_ms": 1, "distance_km": 1}}},
        {"defaults": {"port": {}}},
    ],
)
def test_an_independent_validator_refuses_what_the_reader_refuses(change: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors(bundled("three_city") | change)) != []


def test_every_field_says_what_is_right() -> None:
    """The words of errors come from here."""
    for row in PUBLISHED["$defs"].values():
        for name, rule in row["properties"].items():
            assert "description" in rule or "$ref" in rule, name
