import math
import struct
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import UsageError
from workloads.traffic.counts import Counts, Tally, changed_rows
from workloads.traffic.datagrams import HEADER, MAGIC, Arrivals, stamp
from workloads.traffic.flows import FlowEnd, dump_ends, on_spans, parse_ends
from workloads.traffic.pacing import Bucket, bytes_a_second
from workloads.traffic.tcp_info import SIZE_BYTES, parse_tcp_info


def flow(**fields: object) -> FlowEnd:
    plain = {
        "flow": "a",
        "number": 1,
        "role": "send",
        "protocol": "tcp",
        "address": "::",
        "port": 9,
    }
    return FlowEnd(**{**plain, **fields})  # type: ignore[arg-type]


def test_a_flow_without_a_pattern_is_on_from_start_to_stop() -> None:
    assert list(on_spans(flow(start_s=1.0, stop_s=4.0))) == [(1.0, 4.0)]
    assert list(on_spans(flow())) == [(0.0, math.inf)]


def test_fixed_spans_alternate_and_the_last_is_cut() -> None:
    spans = on_spans(flow(start_s=1.0, stop_s=6.5, on_s=2.0, off_s=1.0))
    assert list(spans) == [(1.0, 3.0), (4.0, 6.0)]
    spans = on_spans(flow(stop_s=4.0, on_s=2.0, off_s=1.0))
    assert list(spans) == [(0.0, 2.0), (3.0, 4.0)]


def test_exponential_spans_have_the_means_asked_for_and_follow_their_seed() -> None:
    def spans(seed: int) -> list[tuple[float, float]]:
        on_off = flow(on_s=2.0, off_s=0.5, pattern="exponential", seed=seed)
        return list(islice(on_spans(on_off), 4000))

    assert spans(1) == spans(1) != spans(2)
    on = sum(b - a for a, b in spans(3)) / 4000
    off = (spans(3)[-1][1] - 4000 * on) / 3999
    assert on == pytest.approx(2.0, rel=0.1)  # four thousand: a standard error of 1.6 %
    assert off == pytest.approx(0.5, rel=0.1)


@given(
    on_s=st.floats(0.01, 10),
    off_s=st.floats(0.01, 10),
    stop_s=st.floats(0.5, 50),
    pattern=st.sampled_from(["fixed", "exponential"]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=40, deadline=None)
def test_spans_are_in_order_apart_and_within_start_and_stop(
    on_s: float, off_s: float, stop_s: float, pattern: str, seed: int
) -> None:
    end = flow(start_s=0.25, stop_s=stop_s, on_s=on_s, off_s=off_s, pattern=pattern, seed=seed)
    edges = [edge for span in on_spans(end) for edge in span]
    assert edges == sorted(edges)
    assert edges[0] >= 0.25
    assert edges[-1] <= stop_s


def test_ends_are_read_back_as_they_were_written() -> None:
    ends = (
        flow(rate_mbps=2.5, stop_s=3.0),
        flow(flow="b", protocol="udp", rate_mbps=1.0, role="receive"),
        flow(flow="c", fed_by="b", steps=4, step_bytes=100),
    )
    assert parse_ends(dump_ends(ends)) == ends


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "--flows: Expecting"),
        ("{}", "give a list"),
        ("[1]", "item 0 is no object"),
        ('[{"flow": "a"}]', "item 0 lacks number"),
        ('[{"colour": "a"}]', "no field 'colour'"),
        (dump_ends([flow(protocol="icmp")]), "protocol: 'icmp' is none of"),
        (dump_ends([flow(port=70_000)]), "port: 70000"),
        (dump_ends([flow(port="80")]), "port: '80' is no int"),
        (dump_ends([flow(rate_mbps=-1.0)]), "rate_mbps: -1.0"),
        (dump_ends([flow(rate_mbps=math.nan)]), "rate_mbps: nan"),
        (dump_ends([flow(start_s=2.0, stop_s=1.0)]), "stop_s: 1.0 is before"),
        (dump_ends([flow(protocol="udp")]), "UDP has no pace"),
        (dump_ends([flow(), flow()]), "two flows have one name"),
        (dump_ends([flow(steps=2)]), "a ring's member needs"),
    ],
)
def test_a_field_that_is_wrong_is_named(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_ends(text)


def test_a_bucket_earns_its_rate_and_forgets_more_than_a_tenth_of_a_second() -> None:
    bucket = Bucket(bytes_a_second(8.0), 100.0, time_s=10.0)  # a million bytes a second
    assert bucket.fill(10.05) == pytest.approx(50_000)
    bucket.take(50_000)
    assert bucket.wait_s(10_000) == pytest.approx(0.01)
    assert bucket.fill(20.0) == pytest.approx(100_000)


def test_a_slow_bucket_still_comes_to_hold_one_datagram() -> None:
    bucket = Bucket(1000.0, 9000.0, time_s=0.0)
    assert bucket.fill(100.0) == 9000.0


def datagram(number: int, sequence: int, sent_s: float, size: int = 100) -> bytes:
    written = bytearray(size)
    stamp(written, number, sequence, sent_s)
    return bytes(written)


def test_arrivals_count_order_delay_and_the_jitter_of_rfc_3550() -> None:
    arrivals = Arrivals(7)
    for sequence, sent_s, now_s in ((0, 1.0, 1.1), (2, 2.0, 2.3), (1, 1.5, 2.3), (3, 3.0, 3.1)):
        assert arrivals.take(datagram(7, sequence, sent_s), now_s)
    assert (arrivals.datagrams, arrivals.payload_bytes, arrivals.out_of_order) == (4, 400, 1)
    assert arrivals.delay_s == pytest.approx(0.1 + 0.3 + 0.8 + 0.1)
    jitter = 0.2 / 16
    jitter += (0.5 - jitter) / 16
    jitter += (0.7 - jitter) / 16
    assert arrivals.jitter_s == pytest.approx(jitter)


@pytest.mark.parametrize(
    "stranger",
    [
        b"",
        b"x" * (HEADER.size - 1),
        b"x" * 100,
        datagram(8, 0, 0.0),
        HEADER.pack(MAGIC + 1, 7, 0, 0),
    ],
)
def test_datagrams_of_others_are_passed_over(stranger: bytes) -> None:
    arrivals = Arrivals(7)
    assert not arrivals.take(stranger, 1.0)
    assert arrivals.datagrams == 0


def test_tcp_info_is_read_where_linux_has_its_byte_counters() -> None:
    info = bytes(200) + struct.pack("=QQ", 5_000_000_000, 77) + bytes(40)
    seen = parse_tcp_info(info)
    assert (seen.sent, seen.retransmitted) == (5_000_000_000, 77)
    with pytest.raises(ValueError, match=r"Linux 4\.19"):
        parse_tcp_info(bytes(SIZE_BYTES - 1))


def test_only_totals_that_moved_are_told() -> None:
    tallies, told = [Tally("a", "sent"), Tally("b", "received")], {}  # type: ignore[var-annotated]
    assert len(changed_rows(tallies, told)) == 2
    assert changed_rows(tallies, told) == []
    tallies[1].put(Counts(bytes=5))
    assert changed_rows(tallies, told) == [{"flow": "b", "side": "received", "bytes": 5}]
