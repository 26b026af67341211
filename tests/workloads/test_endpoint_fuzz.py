"""Packets that are nearly right, against the endpoint built with sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from workloads.innetwork.build import SOURCES, compiler

FUZZER = Path(__file__).with_name("native") / "fuzz_member.c"
CASES = 300_000
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def test_no_packet_makes_the_endpoint_crash_or_write_where_it_must_not(tmp_path: Path) -> None:
    program = tmp_path / "fuzz_member"
    units = [str(SOURCES / unit) for unit in ("flow.c", "interface.c", "sockets.c")]
    command = [compiler() or "cc", "-std=gnu11", "-D_GNU_SOURCE", *SANITIZED, f"-I{SOURCES}"]
    built = subprocess.run(
        [*command, str(FUZZER), *units, "-o", str(program), "-pthread"],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(
        [str(program), str(CASES), "1"], capture_output=True, text=True, timeout=200
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
