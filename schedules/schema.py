"""The published JSON Schema of plans; `python -m schedules.schema` writes it anew.

It is for other programs that read or write plans. It is made from the classes of `schedules.plan`,
which also check every plan that is read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schedules.plan import plan_format

SCHEMA_FILE = Path(__file__).parent / "plan.schema.json"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a plan."""
    schema = plan_format().json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def main() -> None:
    """Write the published schema beside this module."""
    SCHEMA_FILE.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
