"""How much one accelerator sums on one core, beside a bare echo of the same packets.

    .venv/bin/python bench/accelerator.py [--repeat 3] [--seconds 3] [--json FILE]
    .venv/bin/python bench/accelerator.py --fuzz 1000000

Children in one network namespace contribute to an accelerator in another as fast as results come
back, in a window; each side has a core of its own. In the same run, interleaved, the accelerator's
place is taken by an echo that does nothing but recvmmsg and sendmmsg, once sending back what an
accelerator would (one packet in so many children), once everything; and by a sum in Python and
numpy without any care for loss. Figures are medians; rates count the sum areas of what came in.
`--fuzz` instead gives the accelerator's parser and sums so many hostile packets under sanitizers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.accelerator.build import RECIPE, SOURCES
from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.process import AcceleratorProcess, Place
from testbed.links.namespace import NetworkNamespace
from testbed.links.trial import run
from testbed.native import SHARED
from workloads.building import SANITIZED

ROOT = Path(__file__).resolve().parents[1]
LOAD = ROOT / "bench" / "accelerator_load.c"
FUZZ = ROOT / "tests" / "accelerator" / "native" / "fuzz.c"
FUZZ_HELPERS = ROOT / "tests" / "native"
CHILDREN_IP, ACCELERATOR_IP = "10.1.0.1", "10.1.0.2"
PORT, FIRST_PORT = 7000, 7100
JOB, SECRET = 5, 77
MTU_BYTES = 9000
START_LIMIT_S = 30.0
GOAL_GBPS, GOAL_OF_ECHO_PCT = 4.0, 80.0

NUMPY_SUM = """
import socket, struct, sys
import numpy as np
port, children, results = int(sys.argv[1]), int(sys.argv[2]), ("10.1.0.1", int(sys.argv[3]))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
udp.bind(("", port))
packet = bytearray(9216)
numbers = np.frombuffer(packet, "<i4")
sums, counts = {}, {}
while True:
    length = udp.recv_into(packet)
    (sequence,) = struct.unpack_from("<Q", packet, 24)
    areas = numbers[16 : length // 4]
    if sequence in sums:
        sums[sequence] += areas
        counts[sequence] += 1
    else:
        sums[sequence], counts[sequence] = areas.copy(), 1
    if counts[sequence] == children:
        packet[3] = 2
        udp.sendto(bytes(packet[:64]) + sums.pop(sequence).tobytes(), results)
        del counts[sequence]
"""


@dataclass(frozen=True)
class Row:
    """One figure beside its goal."""

    what: str
    value: float
    unit: str
    goal: str
    met: bool | None


@dataclass(frozen=True)
class Setting:
    """What is sent."""

    children: int
    area_bytes: int
    window: int
    seconds: float


@dataclass(frozen=True)
class Sample:
    """What one run of the load gave."""

    payload_gbps: float
    wrong: int
    stalled: bool
    cpu_pct: float


class Pair:
    """Two namespaces with one veth pair between them."""

    def __init__(self) -> None:
        self.children, self.accelerator = NetworkNamespace(), NetworkNamespace()
        with self.children.entered():
            far = f"peer name wan0 mtu {MTU_BYTES} netns {self.accelerator.path}"
            run(f"ip link add wan0 mtu {MTU_BYTES} up type veth {far}".split())
            run(f"ip address add {CHILDREN_IP}/24 dev wan0".split())
        with self.accelerator.entered():
            run(f"ip address add {ACCELERATOR_IP}/24 dev wan0".split())
            run(["ip", "link", "set", "wan0", "up"])

    def close(self) -> None:
        """Let both namespaces go."""
        self.children.close()
        self.accelerator.close()


def pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core % (os.cpu_count() or 1))]


@contextmanager
def accelerator(pair: Pair, folder: Path, setting: Setting) -> Iterator[int]:
    ports = range(FIRST_PORT, FIRST_PORT + setting.children)
    config = TreeConfig(
        JOB,
        0,
        SECRET,
        setting.window,
        setting.children,
        tuple(Address(CHILDREN_IP, port) for port in ports),
        results=(Address(CHILDREN_IP, FIRST_PORT + setting.children),),
    )
    place = Place(folder, "bench", Address(ACCELERATOR_IP, PORT), enter=pinned(1))
    with pair.accelerator.entered():
        process = AcceleratorProcess.start(place)
    try:
        process.open(config)
        yield process.process_id
        counters = process.counters()
        assert counters.process.overflow == counters.process.unsent == 0, counters.process
    finally:
        process.close()


@contextmanager
def other(pair: Pair, command: Sequence[str]) -> Iterator[int]:
    with pair.accelerator.entered():
        process = subprocess.Popen([*pinned(1), *command])
    try:
        wait_until_bound(process.pid)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def wait_until_bound(pid: int) -> None:
    end = time.monotonic() + START_LIMIT_S
    while f":{PORT:04X} " not in Path(f"/proc/{pid}/net/udp").read_text():
        assert time.monotonic() < end, "it does not bind its port"
        time.sleep(0.05)


def run_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def measured(pair: Pair, load: Path, setting: Setting, pid: int) -> Sample:
    words = [ACCELERATOR_IP, PORT, setting.children, setting.area_bytes, setting.window]
    words += [setting.seconds, FIRST_PORT, JOB, SECRET]
    before, started = run_ns(pid), time.monotonic_ns()
    with pair.children.entered():
        done = subprocess.run(
            [*pinned(0), str(load), "load", *map(str, words)],
            capture_output=True,
            text=True,
            check=True,
        )
    used = (run_ns(pid) - before) / (time.monotonic_ns() - started)
    told: dict[str, Any] = json.loads(done.stdout)
    bits = told["results"] * setting.children * setting.area_bytes * 8
    return Sample(bits / told["seconds"] / 1e9, told["wrong"], told["stalled"], 100 * used)


def samples(setting: Setting, repeat: int) -> dict[str, list[Sample]]:
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        load = RECIPE.varied(folder / "load", [LOAD], RECIPE.flags).build()
        pair = Pair()
        stack.callback(pair.close)
        last = str(FIRST_PORT + setting.children)
        script = [sys.executable, "-c", NUMPY_SUM, str(PORT), str(setting.children), last]
        echo = [str(load), "echo", str(PORT)]
        kinds: dict[str, Callable[[], Any]] = {
            "accelerator": lambda: accelerator(pair, folder, setting),
            "echo of what an accelerator sends": lambda: other(
                pair, [*echo, str(setting.children)]
            ),
            "echo of everything": lambda: other(pair, [*echo, "1"]),
            "numpy": lambda: other(pair, script),
        }
        found: dict[str, list[Sample]] = {kind: [] for kind in kinds}
        for _ in range(repeat):
            for kind, started in kinds.items():
                with started() as pid:
                    found[kind].append(measured(pair, load, setting, pid))
                assert found[kind][-1].payload_gbps, f"{kind}: nothing came back"
    return found


def rows_of(found: dict[str, list[Sample]]) -> list[Row]:
    gbps = {kind: statistics.median(s.payload_gbps for s in them) for kind, them in found.items()}
    bare = gbps["echo of what an accelerator sends"]
    share = 100 * gbps["accelerator"] / bare
    met = gbps["accelerator"] >= GOAL_GBPS or share >= GOAL_OF_ECHO_PCT
    wrong = sum(s.wrong for s in found["accelerator"]) + sum(
        s.stalled for s in found["accelerator"]
    )
    goal = f"{GOAL_GBPS:g}, or {GOAL_OF_ECHO_PCT:g} % of the echo"
    rows = [
        Row("accelerator: payload in", gbps["accelerator"], "Gbit/s", goal, met),
        Row("accelerator: wrong sums and stalls", wrong, "", "0", wrong == 0),
    ]
    rows += [
        Row(f"{kind}: payload in", value, "Gbit/s", "", None)
        for kind, value in gbps.items()
        if kind != "accelerator"
    ]
    for kind, value in gbps.items():
        if kind != "accelerator":
            rows.append(Row(f"accelerator / {kind}", gbps["accelerator"] / value, "", "", None))
    for kind, them in found.items():
        cpu = statistics.median(s.cpu_pct for s in them)
        rows.append(Row(f"{kind}: CPU", cpu, "% of a core", "", None))
        rows.append(Row(f"{kind}: payload per CPU", 100 * gbps[kind] / cpu, "Gbit/s", "", None))
    return rows


def fuzz(cases: int) -> int:
    """Return the exit code of so many hostile packets under sanitizers."""
    names = ("arrivals", "tree", "engine", "control")
    units = [SHARED / "words.c", *(SOURCES / f"{name}.c" for name in names)]
    flags = (*SANITIZED, f"-I{FUZZ_HELPERS}")
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder:
        recipe = RECIPE.varied(Path(folder) / "fuzz", [*units, FUZZ], flags)
        return subprocess.run([recipe.build(), str(cases), str(time.time_ns())]).returncode


def show(rows: Sequence[Row]) -> None:
    for row in rows:
        mark = {True: "ok", False: "MISSED", None: ""}[row.met]
        goal = f"goal {row.goal}" if row.goal else ""
        print(f"{row.what:<50} {row.value:9.3f} {row.unit:<12} {goal:<28} {mark}")
    print("load average:", *(f"{load:.1f}" for load in os.getloadavg()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--children", type=int, default=8)
    parser.add_argument("--area-bytes", type=int, default=8192)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--fuzz", type=int, metavar="CASES")
    asked = parser.parse_args()
    if asked.fuzz:
        return fuzz(asked.fuzz)
    setting = Setting(asked.children, asked.area_bytes, asked.window, asked.seconds)
    rows = rows_of(samples(setting, asked.repeat))
    show(rows)
    if asked.json:
        asked.json.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
    return 0 if all(row.met is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
