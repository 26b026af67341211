from __future__ import annotations

import os
from pathlib import Path

from testbed.deploy.process_table import (
    NodeNetwork,
    ProcessFacts,
    parse_facts,
    parse_namespace,
    process_rows,
    read_facts,
)

# the fields of proc(5): pid, comm, state, then 4 to 24; utime 14, stime 15, starttime 22, rss 24
STAT = (
    "42 (odd ) (name) S 1 42 42 0 -1 4194304 100 0 0 0 "
    "250 50 0 0 20 0 1 0 1000 8192 512 18446744073709551615"
)


def test_the_namespace_number_stands_in_brackets() -> None:
    assert parse_namespace("net:[4026532281]") == 4026532281


def test_a_name_with_parentheses_does_not_shift_the_fields() -> None:
    facts = parse_facts(42, "net:[7]", STAT, b"python\0-m\0work er\0")
    assert facts == ProcessFacts(42, 7, "odd ) (name", 300, 1000, 512, ("python", "-m", "work er"))


def test_rows_are_those_of_the_nodes_with_figures_in_units() -> None:
    facts = [
        ProcessFacts(9, 7, "python", 300, 1000, 512, ("python", "train.py")),
        ProcessFacts(8, 6, "ovs", 0, 0, 0, ()),
        ProcessFacts(7, 1, "init", 0, 0, 0, ("init",)),
    ]
    nodes = [NodeNetwork("NYC", "island", 7), NodeNetwork("LON", "switch", 6)]
    rows = process_rows(nodes, facts, uptime_s=40.0, ticks_per_s=100, page_bytes=4096)
    assert [(row.site, row.kind, row.pid, row.command) for row in rows] == [
        ("LON", "switch", 8, "[ovs]"),
        ("NYC", "island", 9, "python train.py"),
    ]
    # 3 s of processor time in the 30 s since it started; 512 pages of 4 KiB
    assert (rows[1].cpu_s, rows[1].cpu_pct, rows[1].resident_mib) == (3.0, 10.0, 2.0)


def test_this_very_process_is_found() -> None:
    mine = {fact.pid: fact for fact in read_facts()}[os.getpid()]
    assert mine.netns_inode == Path("/proc/self/ns/net").stat().st_ino
    assert mine.arguments == tuple(Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0"))
