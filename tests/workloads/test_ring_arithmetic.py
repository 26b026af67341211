"""What the ring sends, against hand arithmetic and against a ring played through on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.collectives.ring import (
    downward_flow,
    expected_ring_payload_bytes,
    expected_ring_stream_bytes,
    place_in_gloo,
    ring_predecessor,
    ring_segments_sent,
    ring_successor,
    segmentation,
)

MEBIBYTE = 1024 * 1024


def test_a_rank_sends_to_the_rank_below_it() -> None:
    assert [ring_successor(rank, 4) for rank in range(4)] == [3, 0, 1, 2]


def test_the_predecessor_is_the_one_whose_successor_i_am() -> None:
    assert all(ring_successor(ring_predecessor(rank, 5), 5) == rank for rank in range(5))


@settings(max_examples=30, deadline=None)
@given(
    flow=st.permutations(range(40)).flatmap(lambda all: st.integers(1, 40).map(lambda n: all[:n]))
)
def test_in_any_clique_each_sends_to_the_next_of_the_flow(flow: list[int]) -> None:
    for sender, receiver in zip(flow, [*flow[1:], flow[0]], strict=True):
        successor = ring_successor(place_in_gloo(flow, sender), len(flow))
        assert successor == place_in_gloo(flow, receiver)


def test_the_ring_of_a_whole_job_flows_from_the_last_rank_to_the_first() -> None:
    assert downward_flow(4) == (3, 2, 1, 0)
    assert [place_in_gloo(downward_flow(4), rank) for rank in range(4)] == [0, 1, 2, 3]


def test_a_message_that_divides_evenly_puts_two_n_minus_one_nths_on_each_hop() -> None:
    hops = [expected_ring_payload_bytes(7200, 9, hop) for hop in range(9)]
    assert hops == [2 * 8 * 800] * 9


def test_ten_floats_over_three_members_by_hand() -> None:
    # 6 segments of 8 bytes, the last one empty: chunks of 16, 16 and 8 bytes. Rank 0 omits
    # chunks 0 and 2 (24 bytes of 80), rank 1 omits 1 and 0 (32), rank 2 omits 2 and 1 (24).
    assert [expected_ring_payload_bytes(40, 3, hop) for hop in range(3)] == [56, 48, 56]


def test_ten_floats_over_three_members_take_headers_for_seven_six_and_seven_segments() -> None:
    assert [ring_segments_sent(40, 3, hop) for hop in range(3)] == [7, 6, 7]
    # 728, 624 and 728 bytes were also what `ss` counted between three real processes.
    assert [expected_ring_stream_bytes(40, 3, hop) for hop in range(3)] == [728, 624, 728]


def test_a_long_message_is_cut_into_segments_of_at_most_one_mebibyte() -> None:
    cut = segmentation(100 * MEBIBYTE, 4)
    assert (cut.segments, cut.segment_bytes) == (100, MEBIBYTE)


def test_a_ring_of_one_sends_nothing() -> None:
    assert expected_ring_payload_bytes(4000, 1, 0) == 0


@pytest.mark.parametrize(
    ("message_bytes", "members", "hop"), [(40, 3, 3), (40, 3, -1), (41, 3, 0), (-4, 3, 0)]
)
def test_what_is_no_ring_is_refused(message_bytes: int, members: int, hop: int) -> None:
    with pytest.raises(ValueError, match="ring"):
        expected_ring_payload_bytes(message_bytes, members, hop)


def play_ring(vectors: np.ndarray, segment: int, segments: int) -> tuple[np.ndarray, list[int]]:
    """Play the two phases on integers; returns what members end with and what each has sent."""
    members, length = vectors.shape
    per_chunk = segments // members
    padded = np.zeros((members, segments, segment), dtype=np.int64)
    padded.reshape(members, -1)[:, :length] = vectors
    real = np.zeros(segments * segment, dtype=np.int64)
    real[:length] = 1
    real_elements = real.reshape(segments, segment).sum(axis=1)
    sent = [0] * members
    for phase in ("reduce", "gather"):
        for turn in range(members - 1):
            before = padded.copy()
            for rank in range(members):
                below = (rank - 1) % members
                chunk = (rank + turn + (phase == "reduce")) % members
                part = slice(chunk * per_chunk, (chunk + 1) * per_chunk)
                sent[rank] += int(real_elements[part].sum())
                received = before[rank, part]
                padded[below, part] = (
                    padded[below, part] + received if phase == "reduce" else received
                )
    return padded.reshape(members, -1)[:, :length], sent


@settings(max_examples=60, deadline=None)
@given(members=st.integers(2, 9), elements=st.integers(1, 400), seed=st.integers(0, 99))
def test_a_ring_played_through_sums_right_and_sends_the_predicted_bytes(
    members: int, elements: int, seed: int
) -> None:
    vectors = np.random.default_rng(seed).integers(-50, 50, size=(members, elements))
    cut = segmentation(4 * elements, members)
    outcome, sent = play_ring(vectors, cut.segment_bytes // 4, cut.segments)
    assert (outcome == vectors.sum(axis=0)).all()
    predicted = [expected_ring_payload_bytes(4 * elements, members, hop) for hop in range(members)]
    assert [4 * count for count in sent] == predicted


@settings(max_examples=200, deadline=None)
@given(members=st.integers(2, 60), elements=st.integers(0, 3_000_000))
def test_all_hops_together_carry_exactly_two_n_minus_one_messages(
    members: int, elements: int
) -> None:
    message = 4 * elements
    hops = [expected_ring_payload_bytes(message, members, hop) for hop in range(members)]
    assert sum(hops) == 2 * (members - 1) * message
