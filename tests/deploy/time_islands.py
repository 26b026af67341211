"""How long deployment takes: `python tests/deploy/time_islands.py 9` as root prints seconds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import small_run

from testbed.deploy.island import start_islands


def main(count: int) -> dict[str, float]:
    taken: dict[str, float] = {}

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        begun_at = time.perf_counter()
        yield
        taken[what] = round(time.perf_counter() - begun_at, 3)

    def push(size_bytes: int) -> Callable[[], None]:
        payload = bench.run_directory / f"{size_bytes}.bin"
        payload.write_bytes(bytes(size_bytes))
        return lambda: fleet.push([payload], "/tmp/pushed")

    with small_run() as bench:
        seats = [bench.add_node(f"S{number:03d}") for number in range(count)]
        with timed("start_s"):
            islands = start_islands(bench.run_directory, seats)
        with islands, islands.fleet() as fleet:
            steps: dict[str, Callable[[], object]] = {
                "connect_s": fleet.connect,
                "run_s": lambda: fleet.run("true"),
                "push_100_kB_s": push(100_000),
                "push_10_MB_s": push(10_000_000),
                "collect_10_MB_s": lambda: fleet.collect(
                    "/tmp/pushed/10000000.bin", bench.run_directory / "collected"
                ),
            }
            for what, step in steps.items():
                with timed(what):
                    step()
            with timed("end_s"):
                islands.close()
    return taken


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)))
