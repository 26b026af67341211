"""Packets that are nearly right, against the endpoint built with sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from workloads.building import SANITIZED
from workloads.innetwork.build import RECIPE, SOURCES

FUZZER = Path(__file__).with_name("native") / "fuzz_member.c"
CASES = 300_000


def test_no_packet_makes_the_endpoint_crash_or_write_where_it_must_not(tmp_path: Path) -> None:
    units = [FUZZER, *(SOURCES / unit for unit in ("flow.c", "interface.c", "sockets.c"))]
    recipe = RECIPE.varied(tmp_path / "fuzz_member", units, (*SANITIZED, "-pthread"))
    program = recipe.build()
    ran = subprocess.run(
        [str(program), str(CASES), "1"], capture_output=True, text=True, timeout=200
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
