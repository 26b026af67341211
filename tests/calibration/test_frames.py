"""Frames on the wire, read back by another library, and garbage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from testbed.calibration.frames import HEAD_BYTES, Marks, blank_frame, read_marks, stamp

SOURCE, TARGET = "02:00:00:00:00:01", "02:01:00:01:00:01"


def test_a_frame_is_what_scapy_reads() -> None:
    parsed = Ether(bytes(blank_frame(SOURCE, TARGET, 7, 3, 100)))
    assert (parsed.src, parsed.dst, parsed.type) == (SOURCE, TARGET, 0x88B5)


def test_a_frame_has_the_size_asked_for_and_never_less_than_ethernet_allows() -> None:
    assert len(blank_frame(SOURCE, TARGET, 7, 3, 9014)) == 9014
    assert len(blank_frame(SOURCE, TARGET, 7, 3, 1)) == 60


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
def test_what_is_stamped_is_read(token: int, direction: int, sequence: int, sent_ns: int) -> None:
    frame = blank_frame(SOURCE, TARGET, token, direction, 60)
    stamp(frame, sequence, sent_ns)
    assert read_marks(bytes(frame), token) == Marks(direction, sequence, sent_ns)


def test_the_head_alone_is_enough_and_less_is_refused() -> None:
    frame = bytes(blank_frame(SOURCE, TARGET, 7, 3, 60))
    assert read_marks(frame[:HEAD_BYTES], 7) == Marks(3, 0, 0)
    assert read_marks(frame[: HEAD_BYTES - 1], 7) is None


def test_frames_of_another_calibration_or_protocol_are_refused() -> None:
    frame = blank_frame(SOURCE, TARGET, 7, 3, 60)
    assert read_marks(bytes(frame), 8) is None
    frame[12:14] = b"\x08\x00"
    assert read_marks(bytes(frame), 7) is None


@given(st.binary(max_size=80))
def test_garbage_is_refused(data: bytes) -> None:
    assert read_marks(data, 2**64 - 1) is None or data[12:14] == b"\x88\xb5"
