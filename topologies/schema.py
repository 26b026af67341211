"""The topology file's fields, their units and ranges; `topology.schema.json` is made from them.

The published schema is for editors and for other programs; `python -m topologies.schema` writes
it. What a schema cannot say (links name known sites, every site is reached) is in
`topologies.checks`.

Ranges are wide enough for any real link, from 64 kbit/s to 1 Tbit/s, and narrow enough to catch a
number given in another unit: a rate in bit/s, a delay in microseconds. Rates are those of the real
network even where it is far faster than the machine: `rate_scale` shrinks them for a run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

SCHEMA_FILE = Path(__file__).parent / "topology.schema.json"

RateMbps = Annotated[
    float,
    Field(ge=0.064, le=1e6, description="Mbit/s from 0.064 to 1000000, so 10000 for 10 Gbit/s"),
]
DelayMs = Annotated[
    float, Field(ge=0, le=10_000, description="milliseconds one way, from 0 to 10000")
]
DistanceKm = Annotated[
    float, Field(ge=0, le=100_000, description="km of fibre, from 0 to 100000, at 204 km/ms")
]
JitterMs = Annotated[
    float, Field(ge=0, le=10_000, description="milliseconds, from 0 to the delay itself")
]
LossPct = Annotated[
    float, Field(ge=0, le=100, description="percent of packets, from 0 to 100, such as 0.1")
]
BurstPackets = Annotated[
    float,
    Field(ge=1, le=10_000, description="packets lost in a row on average, from 1 to 10000"),
]
DuplicatePct = Annotated[
    float, Field(ge=0, le=100, description="percent of packets that arrive twice, from 0 to 100")
]
CorruptPct = Annotated[
    float,
    Field(ge=0, le=100, description="percent of packets with one bit wrong, from 0 to 100"),
]
QueueMs = Annotated[
    float, Field(ge=0.001, le=10_000, description="milliseconds of queue, from 0.001 to 10000")
]
Latitude = Annotated[float, Field(ge=-90, le=90, description="degrees north, from -90 to 90")]
Longitude = Annotated[float, Field(ge=-180, le=180, description="degrees east, from -180 to 180")]
Code = Annotated[
    str,
    Field(
        pattern=r"^[A-Z][A-Z0-9]{1,7}$",
        description="2 to 8 capital letters and digits, a letter first, such as NYC",
    ),
]
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$",
        description="up to 64 letters, digits, '_', '-' and '.', a letter first",
    ),
]
Text = Annotated[
    str, Field(min_length=1, max_length=2000, description="a text of 1 to 2000 characters")
]


class _Row(BaseModel):
    """A mapping of the file: no unknown keys, no text for a number, no infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class DirectionRow(_Row):
    """What a direction of a link does; delay or distance, not both."""

    model_config = ConfigDict(
        json_schema_extra={"not": {"required": ["one_way_delay_ms", "distance_km"]}}
    )
    rate_mbps: RateMbps | None = None
    one_way_delay_ms: DelayMs | None = None
    distance_km: DistanceKm | None = None
    jitter_ms: JitterMs | None = None
    loss_pct: LossPct | None = None
    queue_ms: QueueMs | None = None
    loss_burst_packets: BurstPackets | None = None
    duplicate_pct: DuplicatePct | None = None
    corrupt_pct: CorruptPct | None = None


class LinkRow(DirectionRow):
    """Two sites joined; `forward` overrides what holds from a to b, `backward` from b to a."""

    a: Code
    b: Code
    forward: DirectionRow = DirectionRow()
    backward: DirectionRow = DirectionRow()


class SiteRow(_Row):
    """A city, with what is special about its island's access port."""

    code: Code
    city: Text
    latitude: Latitude
    longitude: Longitude
    access: DirectionRow = DirectionRow()


class Defaults(_Row):
    """What holds for every link and every access port unless its own row says otherwise."""

    link: DirectionRow = DirectionRow()
    access: DirectionRow = DirectionRow()


class TopologyFile(_Row):
    """A network of cities: its sites, the links between them and where the data come from."""

    name: Name
    source: Text
    licence: Text
    mtu_bytes: Annotated[
        int, Field(ge=576, le=9216, description="bytes of an IP packet, from 576 to 9216")
    ] = 9000
    defaults: Defaults = Defaults()
    sites: Annotated[list[SiteRow], Field(min_length=2, description="a list of 2 or more sites")]
    links: Annotated[list[LinkRow], Field(min_length=1, description="a list of 1 or more links")]


class _PlainSchema(GenerateJsonSchema):
    """JSON Schema of what may stand in a file: a key is left out, never null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return {**inner, "default": default} if isinstance(default, int) else inner

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a topology file."""
    schema = TopologyFile.model_json_schema(schema_generator=_PlainSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_at(path: tuple[str | int, ...]) -> dict[str, Any]:
    """Return the part of the schema that rules the value at `path`; empty where none does."""
    root = json_schema()
    part: dict[str, Any] = root
    for step in path:
        part = _resolved(part, root)
        part = part.get("items", {}) if isinstance(step, int) else part["properties"].get(step, {})
    return _resolved(part, root)


def _resolved(part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref")
    return root["$defs"][reference.rsplit("/", 1)[1]] if reference else part


def main() -> None:
    """Write the published schema beside this module."""
    SCHEMA_FILE.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
