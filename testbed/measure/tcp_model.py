"""One TCP connection as far as it takes time: its window and how that opens. Pure.

- The window begins at some segments (RFC 6928) and grows by what is acknowledged, so that it
  doubles each round trip, as long as there is data to fill it (slow start, RFC 5681).
- A pause longer than the retransmission time-out brings it back to the beginning (RFC 5681,
  section 4.1), unless the settings say otherwise.
- Losses are not modelled, so a window that has once covered the way's bandwidth-delay product is
  as good as any larger one.

Large messages are moved in packets that stand for several segments, so that the time to compute a
forecast does not grow with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from testbed.emulation.settings import TcpSettings
from testbed.measure.predict import FRAME_HEADER_BYTES, IP_TCP_HEADER_BYTES
from testbed.measure.wires_model import Wires

LEAST_TIMEOUT_S = 0.2  # TCP_RTO_MIN of Linux
ROUNDING_BYTES = 0.5

Told = Callable[[], None]


@dataclass(slots=True)
class _Message:
    end_bytes: float
    sent: Told
    delivered: Told


class Connection:
    """One way of a connection between two islands.

    Args:
        wires: the network.
        hop: source and target island.
        tcp: the islands' settings.
        packet_segments: segments that one modelled packet stands for.
    """

    def __init__(
        self, wires: Wires, hop: tuple[str, str], tcp: TcpSettings, packet_segments: int = 1
    ) -> None:
        self._wires, self._tcp = wires, tcp
        self._way, self._back = wires.way(*hop), wires.way(*reversed(hop))
        self._segment_bytes = wires.routes.topology.mtu_bytes - IP_TCP_HEADER_BYTES
        self._packet_bytes = packet_segments * self._segment_bytes
        self.window_bytes = float(tcp.initial_window_segments * self._segment_bytes)
        self._unsent: deque[_Message] = deque()
        self._under_way: deque[_Message] = deque()
        self._asked = self._sent = self._delivered = self._acknowledged = 0.0
        self._full_at_s = -1.0
        self._acknowledged_at_s = self._round_trip_s = 0.0

    def offer(self, payload_bytes: float, sent: Told, delivered: Told) -> None:
        """Send bytes from now on.

        Args:
            payload_bytes: how many.
            sent: called when the window has let the last one go.
            delivered: called when the last one has arrived.
        """
        self._asked += payload_bytes
        self._unsent.append(_Message(self._asked, sent, delivered))
        self._restart_after_idle()
        self._push()

    def notify(self, wire_bytes: float, arrived: Told) -> None:
        """Send a few bytes for which there is always room in the window."""
        self._wires.carry(self._way, 8 * wire_bytes, arrived)

    def _restart_after_idle(self) -> None:
        idle_s = self._wires.now_s - self._acknowledged_at_s
        is_idle = self._sent > 0 and self._acknowledged >= self._sent - ROUNDING_BYTES
        if self._tcp.slow_start_after_idle and is_idle:
            halvings = int(idle_s / (self._round_trip_s + LEAST_TIMEOUT_S))
            least = self._tcp.initial_window_segments * self._segment_bytes
            self.window_bytes = max(self.window_bytes / 2 ** min(halvings, 60), float(least))

    def _push(self) -> None:
        while self._unsent:
            size = min(self._unsent[0].end_bytes - self._sent, self._packet_bytes)
            in_flight = self._sent - self._acknowledged
            if in_flight > 0 and in_flight + size > self.window_bytes:
                self._full_at_s = self._wires.now_s
                return
            self._emit(size)
            if self._unsent[0].end_bytes <= self._sent + ROUNDING_BYTES:
                message = self._unsent.popleft()
                self._under_way.append(message)
                message.sent()

    def _emit(self, payload_bytes: float) -> None:
        self._sent += payload_bytes
        frames = max(payload_bytes / self._segment_bytes, 1.0)
        bits = 8 * (payload_bytes + frames * FRAME_HEADER_BYTES)
        self._wires.carry(self._way, bits, self._arrive, payload_bytes, self._wires.now_s)

    def _arrive(self, payload_bytes: float, sent_s: float) -> None:
        self._delivered += payload_bytes
        now_s = self._wires.now_s
        self._acknowledged_at_s = max(
            self._acknowledged_at_s, now_s + self._wires.passage_s(self._back)
        )
        self._wires.at(self._acknowledged_at_s, self._acknowledge, payload_bytes, sent_s)
        while self._under_way and self._under_way[0].end_bytes <= self._delivered + ROUNDING_BYTES:
            self._under_way.popleft().delivered()

    def _acknowledge(self, payload_bytes: float, sent_s: float) -> None:
        self._acknowledged += payload_bytes
        self._round_trip_s = self._wires.now_s - sent_s
        if self._full_at_s >= sent_s:
            self.window_bytes += payload_bytes
        self._push()
