from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topologies.strategies import topologies
from topologies.errors import UserError
from topologies.files import available, dump, load, load_text
from topologies.model import Direction, DirectionSpec, Topology

GOOD = """\
name: two
source: a test
licence: CC0-1.0
defaults:
  link: {rate_mbps: 100}
  access: {rate_mbps: 1000}
sites:
  - {code: AAA, city: Aarau, latitude: 47.39, longitude: 8.04}
  - {code: BBB, city: Berne, latitude: 46.95, longitude: 7.45}
links:
  - {a: AAA, b: BBB, one_way_delay_ms: 5}
"""
LINK = "{a: AAA, b: BBB, one_way_delay_ms: 5}"
RATE = "Mbit/s from 0.064 to 1000000, so 10000 for 10 Gbit/s"


def refusal(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, "the test must change exactly one place"
    with pytest.raises(UserError) as caught:
        load_text(GOOD.replace(old, new), "my.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)


def link(**fields: str) -> str:
    row = {"a": "AAA", "b": "BBB", "one_way_delay_ms": "5"} | fields
    return refusal(LINK, "{" + ", ".join(f"{key}: {value}" for key, value in row.items()) + "}")


def ways(text: str) -> tuple[DirectionSpec, DirectionSpec]:
    wan = load_text(GOOD.replace(LINK, text)).wan_directions()
    return wan[Direction("AAA", "BBB")], wan[Direction("BBB", "AAA")]


# --- what a file means ----------------------------------------------------------------------------


def test_defaults_hold_for_links_and_access_ports() -> None:
    two = load_text(GOOD)
    assert two.links[0].forward == two.links[0].backward == DirectionSpec(100, 5)
    assert two.access == {"AAA": DirectionSpec(1000, 0), "BBB": DirectionSpec(1000, 0)}
    assert two.mtu_bytes == 9000


def test_a_direction_overrides_its_link_and_the_link_the_defaults() -> None:
    forward, backward = ways(
        "{a: AAA, b: BBB, rate_mbps: 50, one_way_delay_ms: 5, loss_pct: 0.1, jitter_ms: 1,"
        " queue_ms: 20, backward: {rate_mbps: 10, one_way_delay_ms: 9}}"
    )
    assert forward == DirectionSpec(50, 5, jitter_ms=1, loss_pct=0.1, queue_ms=20)
    assert backward == DirectionSpec(10, 9, jitter_ms=1, loss_pct=0.1, queue_ms=20)


def test_loss_in_bursts_duplication_and_corruption_are_read_for_each_direction() -> None:
    forward, backward = ways(
        "{a: AAA, b: BBB, one_way_delay_ms: 5, loss_pct: 1, loss_burst_packets: 8,"
        " duplicate_pct: 0.5, backward: {corrupt_pct: 0.25, loss_pct: 0}}"
    )
    assert forward == DirectionSpec(100, 5, loss_pct=1, loss_burst_packets=8, duplicate_pct=0.5)
    assert (backward.loss_pct, backward.corrupt_pct) == (0, 0.25)


def test_forward_is_from_a_to_b_whichever_code_is_smaller() -> None:
    forward, backward = ways("{a: BBB, b: AAA, one_way_delay_ms: 5, forward: {rate_mbps: 10}}")
    assert (forward.rate_mbps, backward.rate_mbps) == (100, 10)


def test_a_distance_is_a_delay_at_204_km_per_ms() -> None:
    forward, _ = ways("{a: AAA, b: BBB, distance_km: 1020}")
    assert forward.one_way_delay_ms == 5.0


def test_a_distance_for_one_direction_replaces_the_links_delay() -> None:
    forward, backward = ways("{a: AAA, b: BBB, one_way_delay_ms: 5, forward: {distance_km: 408}}")
    assert (forward.one_way_delay_ms, backward.one_way_delay_ms) == (2.0, 5.0)


def test_a_site_overrides_the_default_access() -> None:
    text = GOOD.replace("longitude: 7.45}", "longitude: 7.45, access: {rate_mbps: 10}}")
    assert load_text(text).access["BBB"] == DirectionSpec(10, 0)


def test_norway_is_a_site_code() -> None:
    text = GOOD.replace("AAA", "NO").replace("BBB", "ON")
    assert load_text(text).codes == ("NO", "ON")


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load(str(path)) == load_text(GOOD)


# --- mistakes -------------------------------------------------------------------------------------


def test_unknown_key() -> None:
    assert link(rate="5") == "my.yaml:11: links[0].rate: unknown key; did you mean 'rate_mbps'?"


def test_unknown_key_at_the_top_is_listed_against_the_known_ones() -> None:
    assert refusal("name: two", "name: two\nxyzzy: 1") == (
        "my.yaml:2: xyzzy: unknown key; "
        "known here are name, source, licence, mtu_bytes, defaults, sites, links"
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rate_mbps", "10Gbps", f"'10Gbps' is text, not a number; write 10000 ({RATE})"),
        ("rate_mbps", "10 Gbit/s", f"'10 Gbit/s' is text, not a number; write 10000 ({RATE})"),
        ("rate_mbps", "1.5GB/s", f"'1.5GB/s' is text, not a number; write 12000 ({RATE})"),
        ("rate_mbps", "640kbit", f"'640kbit' is text, not a number; write 0.64 ({RATE})"),
        ("rate_mbps", "'100'", f"'100' is text, not a number; write 100 ({RATE})"),
        ("rate_mbps", "1_000", f"'1_000' is text, not a number; write 1000 ({RATE})"),
        ("rate_mbps", "fast", f"'fast' is text, not a number; give {RATE}"),
        ("rate_mbps", "-5 Mbit/s", f"'-5 Mbit/s' is text, not a number; give {RATE}"),
        ("rate_mbps", "0", f"0 is too small; give {RATE}"),
        ("rate_mbps", "-100", f"-100 is too small; give {RATE}"),
        ("rate_mbps", "0.01", f"0.01 is too small; give {RATE}"),
        ("rate_mbps", "10000000000", f"10000000000 is too large; write 10000 ({RATE})"),
        ("rate_mbps", ".nan", f"nan is not a number; give {RATE}"),
        ("rate_mbps", ".inf", f"inf is not a number; give {RATE}"),
        ("rate_mbps", "1e999", f"inf is not a number; give {RATE}"),
        ("rate_mbps", "true", f"true is not a number; give {RATE}"),
        ("rate_mbps", "[100]", f"a list does not belong here; give {RATE}"),
        ("rate_mbps", "", "left empty; give a value or leave the key out"),
        (
            "one_way_delay_ms",
            "45.6ms",
            "'45.6ms' is text, not a number; write 45.6 (milliseconds one way, from 0 to 10000)",
        ),
        (
            "one_way_delay_ms",
            "250us",
            "'250us' is text, not a number; write 0.25 (milliseconds one way, from 0 to 10000)",
        ),
        (
            "one_way_delay_ms",
            "-1",
            "-1 is too small; give milliseconds one way, from 0 to 10000",
        ),
        (
            "loss_pct",
            "101",
            "101 is too large; give percent of packets, from 0 to 100, such as 0.1",
        ),
        (
            "loss_pct",
            "0.1%",
            "'0.1%' is text, not a number; "
            "write 0.1 (percent of packets, from 0 to 100, such as 0.1)",
        ),
        (
            "jitter_ms",
            "6",
            "6 ms is more than the delay of 5 ms; packets cannot arrive before they are sent",
        ),
        ("queue_ms", "0", "0 is too small; give milliseconds of queue, from 0.001 to 10000"),
        (  # 9,014 bytes at 100 Mbit/s
            "queue_ms",
            "0.7",
            "0.7 ms is shorter than one packet of 9000 bytes; "
            "give at least 0.72112, or leave it out",
        ),
        (
            "corrupt_pct",
            "1 %",
            "'1 %' is text, not a number; write 1 (percent of packets with one bit wrong, "
            "from 0 to 100)",
        ),
        (
            "duplicate_pct",
            "-1",
            "-1 is too small; give percent of packets that arrive twice, from 0 to 100",
        ),
        (
            "loss_burst_packets",
            "0.5",
            "0.5 is too small; give packets lost in a row on average, from 1 to 10000",
        ),
        ("distance_km", "100", "one_way_delay_ms is given too; keep one of them"),
        (
            "forward",
            "5",
            "5 is not allowed; give keys among rate_mbps, one_way_delay_ms, distance_km, "
            "jitter_ms, loss_pct, queue_ms, loss_burst_packets, duplicate_pct, corrupt_pct",
        ),
    ],
)
def test_a_wrong_value_is_told_with_the_right_one(field: str, value: str, message: str) -> None:
    assert link(**{field: value}) == f"my.yaml:11: links[0].{field}: {message}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("b: BBB", "b: BBX", "11: links[0].b: BBX is not among the sites; did you mean BBB?"),
        ("b: BBB", "b: QQQ", "11: links[0].b: QQQ is not among the sites; sites are AAA, BBB"),
        ("b: BBB", "b: AAA", "11: links[0].b: the link joins AAA to itself; name another site"),
        (
            LINK,
            f"{LINK}\n  - {{a: BBB, b: AAA, one_way_delay_ms: 7}}",
            "12: links[1]: BBB-AAA is given already on line 11; "
            "one link a pair; 'forward' and 'backward' hold what differs by direction",
        ),
        (
            "links:",
            "  - {code: AAA, city: Aalen, latitude: 48.84, longitude: 10.09}\nlinks:",
            "10: sites[2].code: site AAA is given already on line 8; "
            "each site has a code of its own",
        ),
        (
            "links:",
            "  - {code: CCC, city: Chur, latitude: 46.85, longitude: 9.53}\n"
            "  - {code: DDD, city: Davos, latitude: 46.8, longitude: 9.83}\nlinks:\n"
            "  - {a: CCC, b: DDD, one_way_delay_ms: 1}",
            "12: links: no link leads from AAA, BBB to CCC, DDD; add a link between the two sides",
        ),
        (
            "code: AAA",
            "code: aaa",
            "8: sites[0].code: 'aaa' is not allowed; give 2 to 8 capital letters and digits, "
            "a letter first, such as NYC; did you mean AAA?",
        ),
        (
            "latitude: 47.39",
            "latitude: 95",
            "8: sites[0].latitude: 95 is too large; give degrees north, from -90 to 90",
        ),
        (
            "longitude: 8.04",
            "longitude: -181",
            "8: sites[0].longitude: -181 is too small; give degrees east, from -180 to 180",
        ),
        (
            "latitude: 47.39, ",
            "",
            "8: sites[0].latitude: missing; give degrees north, from -90 to 90",
        ),
        ("city: Aarau", "city: 5", "8: sites[0].city: 5 is not text (in quotes it would be)"),
        (
            "licence: CC0-1.0\n",
            "",
            "1: licence: missing; give a text of 1 to 2000 characters",
        ),
        (
            "{rate_mbps: 100}",
            "{loss_pct: 0}",
            f"11: links[0].rate_mbps: missing; give it here or in defaults.link: {RATE}",
        ),
        (
            ", one_way_delay_ms: 5",
            "",
            "11: links[0].one_way_delay_ms: missing; give it here or in defaults.link: "
            "milliseconds one way, from 0 to 10000",
        ),
        (
            "{rate_mbps: 1000}",
            "{}",
            "8: sites[0].access.rate_mbps: missing; give it here or in defaults.access: "
            f"{RATE} (and 1 more)",
        ),
        (
            "licence: CC0-1.0",
            "licence: CC0-1.0\nmtu_bytes: 100",
            "4: mtu_bytes: 100 is too small; give bytes of an IP packet, from 576 to 9216",
        ),
        (
            LINK,
            "{a: AAA, b: BBB, one_way_delay_ms: 5, loss_pct: 80, loss_burst_packets: 3.5}",
            "11: links[0].loss_burst_packets: 3.5 is too short for a loss of 80 %; "
            "give at least 4, or leave it out",
        ),
        (
            LINK,
            "{a: AAA, b: BBB, one_way_delay_ms: 5, loss_pct: 100, loss_burst_packets: 3}",
            "11: links[0].loss_burst_packets: 3 is too short for a loss of 100 %; "
            "leave it out: everything is lost",
        ),
        (
            LINK,
            "{a: AAA, b: BBB, one_way_delay_ms: 5, loss_burst_packets: 3}",
            "11: links[0].loss_pct: missing beside loss_burst_packets; "
            "give percent of packets, from 0 to 100, such as 0.1",
        ),
        (f"  - {LINK}\n", "  []", "10: links: 0 is too few; give a list of 1 or more links"),
        (GOOD, "- 1\n", "1: file: holds a list; its top is 'name: ...', 'sites: ...' and so on"),
        (GOOD, "", "1: file: empty; give at least name, source, licence, sites and links"),
    ],
)
def test_a_mistake_is_told_by_line_and_field(old: str, new: str, message: str) -> None:
    assert refusal(old, new).startswith(f"my.yaml:{message}")


def test_the_first_mistake_is_told_and_the_others_counted() -> None:
    text = GOOD.replace("47.39", "95").replace("7.45", "181").replace("ms: 5", "ms: -1")
    with pytest.raises(UserError) as caught:
        load_text(text, "my.yaml")
    assert str(caught.value).startswith("my.yaml:8: sites[0].latitude: 95 is too large")
    assert str(caught.value).endswith("(and 2 more)")


def test_long_values_are_cut_so_that_the_message_stays_a_line() -> None:
    message = refusal("code: AAA", f"code: {'x' * 500}")
    assert len(message) < 250
    assert "\n" not in message


# --- files ----------------------------------------------------------------------------------------


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(UserError) as caught:
        load("nine_cty")
    assert str(caught.value) == (
        "nine_cty: no such topology; did you mean 'nine_city'? "
        f"bundled are {', '.join(available())}"
    )


def test_a_missing_file_lists_the_bundled_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such topology; give a path, or a bundled name: abi"):
        load(str(tmp_path / "qqq.yaml"))


def test_a_directory_is_no_topology(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a file"):
        load(str(tmp_path))


def test_a_device_without_end_is_not_read() -> None:
    with pytest.raises(UserError, match="not a file"):
        load("/dev/zero")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    with pytest.raises(UserError, match=r"5242880 bytes; a topology file has up to 4 MiB"):
        load(str(path))


def test_bytes_that_are_no_text_are_told_by_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: two\nsource: Z\xfcrich\n")
    with pytest.raises(UserError, match=r"latin.yaml:2: file: not UTF-8 text"):
        load(str(path))


def test_a_name_with_a_nul_is_told_and_not_printed() -> None:
    with pytest.raises(UserError) as caught:
        load("a\0b")
    assert str(caught.value).isprintable()


ODD = ["", ":", "-", "{", "]", '"', "&a", "*a", "!!x ", "NO", ".nan", "1e9", "\t", "\0", "#", "A"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD) - 1))
    end = data.draw(st.integers(start, min(len(GOOD), start + 12)))
    text = GOOD[:start] + data.draw(st.sampled_from(ODD)) + GOOD[end:]
    try:
        load_text(text, "my.yaml")
    except UserError as error:
        assert re.match(r"my\.yaml:\d+: ([\w.\[\]]|'.*')+: .+; .+\Z", str(error)), str(error)


@settings(max_examples=60, deadline=None)
@given(topologies())
def test_a_dumped_topology_is_loaded_back(topology: Topology) -> None:
    assert load_text(dump(topology)) == topology


@pytest.mark.parametrize("name", available())
def test_a_bundled_topology_is_loaded_back(name: str) -> None:
    assert load_text(dump(load(name))) == load(name)
