"""How long a planned round should take on the emulated network, kind by kind. Pure.

The plan's cost (`schedules.cost`) is transfer and latency of fluids. A forecast adds what packets
and protocols cannot help, all of it arithmetic on what the run is configured with:

- `exchange`: the slowest of its flows. Each is paced at its share of the busiest direction, and
  waits for acknowledgements as long as its window is smaller than pace x round trip.
- `ring`: gloo's own waiting, segment by segment (`ring_model`), over TCP's windows (`tcp_model`).
- `multicast`, `aggregation`, `innetwork`: packets at the endpoint's pace, then the longest way of
  the trees. The first sum asks for exponents first.

and to all of them that a packet is sent whole over each link of its way before the next can have
it, and what processors need for a byte. A first round differs from later ones: windows are small
still, and exponents are not known.

Not in it: losses (`cautions` says where they are likely), background traffic, and time that a busy
machine takes from the workers. `docs/prediction.md` has how close it comes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedules.capabilities import AGGREGATION, EXCHANGE, INNETWORK, MULTICAST, RING
from schedules.plan import PlannedRound, PlannedTree
from testbed.emulation.settings import TcpSettings
from testbed.innetwork import delays
from testbed.innetwork.parts import Part, parts_of
from testbed.measure.cautions import cautions
from testbed.measure.predict import (
    ETHERNET_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    IP_TCP_HEADER_BYTES,
)
from testbed.measure.ring_model import Ring
from testbed.measure.wires_model import BITS_PER_MBIT, Wires
from topologies.model import Direction, Topology
from topologies.routing import Routes

PLANNED_SHARE = 0.97  # of the rate that a plan gives; endpoints keep to the same (flow.c)
PACKET_OVERHEAD_BYTES = 28 + 64  # IPv4 and UDP headers, and the protocol's own
GUARD_BYTES = 64  # a message begins with a signature and its complement
BLOCK_ELEMENTS, ELEMENT_BYTES = 256, 4  # workloads.collectives.fixed_point
HYSTART_LEAST_S, HYSTART_MOST_S, HYSTART_LEAST_SEGMENTS = 0.004, 0.016, 16
HYSTART_ACKNOWLEDGED_SEGMENTS = 16  # eight acknowledgements of two segments
FRAME_HEAD_BYTES = 64  # of a payload in `workloads.collectives.frames`, its statement included
PAUSE_S = 10.0  # longer than any time-out: what lies between rounds is computing
MODELLED_HOPS = 40_000  # packets times links of a ring's round, at most

Hop = tuple[str, str]


@dataclass(frozen=True)
class CliqueForecast:
    """What one clique's part of a round should take.

    Attributes:
        sites: its members, as the plan has them.
        predicted_s: from the second time on.
        first_s: the first time these members meet.
    """

    sites: tuple[str, ...]
    predicted_s: float
    first_s: float

    def later_by(self, seconds: float) -> CliqueForecast:
        """Return the same with more time; who is alone in a clique needs none."""
        if len(self.sites) < 2:
            return self
        return CliqueForecast(self.sites, self.predicted_s + seconds, self.first_s + seconds)


@dataclass(frozen=True)
class Forecast:
    """What a round should take.

    Attributes:
        predicted_s: from the second time on; the slowest clique.
        first_s: the first time its cliques meet.
        transfer_s: the plan's busiest direction, headers counted.
        latency_s: the plan's longest way.
        ramp_s: what is left of `predicted_s`: pacing, windows, gloo's waiting, whole packets.
        processing_s: what processors need, a part of `ramp_s`.
        cliques: each by itself.
        statement: what is counted, in one sentence, and why it may not be enough.
    """

    predicted_s: float
    first_s: float
    transfer_s: float
    latency_s: float
    ramp_s: float
    processing_s: float
    cliques: tuple[CliqueForecast, ...]
    statement: str


# Milliseconds of one core for a MB of float32, on the machine that docs/prediction.md names:
# medians of `thread_time` round each step, half a million normal numbers. Only what cannot overlap
# with the transfer counts: what comes before the first byte leaves and after the last has come.
EXPONENTS_MS_PER_MB, QUANTIZE_MS_PER_MB = 0.05, 0.13
ACCUMULATE_MS_PER_MB, RESTORE_MS_PER_MB = 0.15, 0.23
COPY_AND_DIVIDE_MS_PER_MB = 0.7

STATEMENTS: Mapping[str, str] = {
    EXCHANGE: (
        "every flow at 97 % of its share of the busiest direction, headers counted, its window's "
        "opening, its delay, and whole packets on each link"
    ),
    RING: (
        "gloo's segments in turn, two under way a hop and each sent only when asked for, over TCP "
        "with headers"
    ),
    MULTICAST: "packets at 97 % of the planned rate, headers counted, and the longest tree's delay",
    AGGREGATION: (
        "packets at 97 % of the planned rate, headers counted, and the longest tree's delay; "
        "exponents first, the first time"
    ),
    INNETWORK: (
        "packets at 97 % of the planned rate, headers counted, and the delay up to the root and "
        "down from it; exponents first, the first time"
    ),
}


def forecast(
    planned: PlannedRound, routes: Routes, message_bytes: int, tcp: TcpSettings | None = None
) -> Forecast:
    """Return what a round should take, for the first time and later.

    Args:
        planned: the round; its units refer to the slowest direction of the network.
        routes: of the emulated network, rates scaled.
        message_bytes: what an island contributes.
        tcp: the islands' settings; without them those that a run makes.
    """
    settings = tcp or TcpSettings()
    slowest = slowest_mbps(routes.topology)
    largest = max(map(len, planned.cliques), default=0)
    processing_s = processing_ms_per_mb(planned.collective, largest) * message_bytes / 1e9
    cliques = tuple(
        one.later_by(processing_s) for one in _cliques(planned, routes, message_bytes, settings)
    )
    transfer_s = 8 * message_bytes * planned.predicted.transfer_units / (slowest * BITS_PER_MBIT)
    transfer_s *= 1 + header_share(planned.collective, routes.topology.mtu_bytes)
    predicted_s = max((one.predicted_s for one in cliques), default=0.0)
    warnings = [
        f"it may take longer, for {reason}" for reason in cautions(planned, routes, message_bytes)
    ]
    return Forecast(
        predicted_s,
        max((one.first_s for one in cliques), default=0.0),
        transfer_s,
        planned.predicted.latency_s,
        predicted_s - transfer_s - planned.predicted.latency_s,
        processing_s,
        cliques,
        "; ".join([STATEMENTS[planned.collective], *warnings]),
    )


def processing_ms_per_mb(kind: str, members: int) -> float:
    """Return what an island computes for a MB of its message while nothing is under way."""
    if kind == RING:
        return COPY_AND_DIVIDE_MS_PER_MB
    if kind in (EXCHANGE, MULTICAST):
        each = EXPONENTS_MS_PER_MB + ACCUMULATE_MS_PER_MB
        return EXPONENTS_MS_PER_MB + members * each + RESTORE_MS_PER_MB
    return EXPONENTS_MS_PER_MB + QUANTIZE_MS_PER_MB + RESTORE_MS_PER_MB


def slowest_mbps(topology: Topology) -> float:
    """Return the rate of the slowest direction, which is what a plan's units refer to."""
    return min(spec.rate_mbps for spec in topology.directions().values())


def exchange_pace_mbps(planned: PlannedRound, topology: Topology) -> float:
    """Return what each flow of an exchange may send, headers counted, so that no queue grows.

    On the busiest direction as many messages meet as the transfer has units.
    """
    return PLANNED_SHARE * slowest_mbps(topology) / planned.predicted.transfer_units


def header_share(kind: str, mtu_bytes: int) -> float:
    """Return bytes of headers for a byte of payload, in packets as full as the kind makes them."""
    if kind in (EXCHANGE, RING):
        return FRAME_HEADER_BYTES / (mtu_bytes - IP_TCP_HEADER_BYTES)
    payload = packet_payload_bytes(kind, mtu_bytes)
    return packet_wire_bytes(kind, mtu_bytes) / payload - 1


def _cliques(
    planned: PlannedRound, routes: Routes, message_bytes: int, tcp: TcpSettings
) -> list[CliqueForecast]:
    if planned.predicted.transfer_units == 0:
        return [CliqueForecast(clique, 0.0, 0.0) for clique in planned.cliques]
    if planned.collective == RING:
        return ring_cliques(planned.cliques, routes, message_bytes, tcp)
    if planned.collective == EXCHANGE:
        pace_mbps = exchange_pace_mbps(planned, routes.topology)
        return [
            exchange_clique(clique, routes, message_bytes, pace_mbps, tcp)
            for clique in planned.cliques
        ]
    return [
        tree_clique(planned, number, routes.topology, message_bytes)
        for number in range(len(planned.cliques))
    ]


# --- exchange -----------------------------------------------------------------------------------


def exchange_clique(
    clique: Sequence[str], routes: Routes, message_bytes: int, pace_mbps: float, tcp: TcpSettings
) -> CliqueForecast:
    """Return the time of a clique whose members each send to each other at one pace."""
    mtu_bytes = routes.topology.mtu_bytes
    bits = 8.0 * tcp_wire_bytes(message_bytes + FRAME_HEAD_BYTES, mtu_bytes)
    times = [
        flow_s(_flow((a, b), routes, pace_mbps), bits, tcp)
        for a in clique
        for b in clique
        if a != b
    ]
    first_s = max((first for first, _ in times), default=0.0)
    later_s = max((later for _, later in times), default=0.0)
    return CliqueForecast(tuple(clique), later_s, first_s)


def tcp_wire_bytes(payload_bytes: int, mtu_bytes: int) -> int:
    """Return the bytes of a TCP stream's frames: payload, and the headers of each segment."""
    segments = math.ceil(payload_bytes / (mtu_bytes - IP_TCP_HEADER_BYTES))
    return payload_bytes + segments * FRAME_HEADER_BYTES


@dataclass(frozen=True)
class Flow:
    """One paced TCP flow.

    Attributes:
        pace_bps: what it sends at most, headers counted.
        delay_s: one way, of a frame that is sent whole over each link.
        round_trip_s: of such a frame and its acknowledgement.
        rise_s: by how much that is longer than the round trip of an empty packet.
        frame_bits: of a full frame.
    """

    pace_bps: float
    delay_s: float
    round_trip_s: float
    rise_s: float
    frame_bits: float


def _flow(hop: Hop, routes: Routes, pace_mbps: float) -> Flow:
    frame_bits = 8.0 * (routes.topology.mtu_bytes + ETHERNET_HEADER_BYTES)
    way, specs = routes.directions(*hop), routes.topology.directions()
    on_links_s = [frame_bits / (specs[one].rate_mbps * BITS_PER_MBIT) for one in way]
    there_ms, back_ms = (routes.one_way_delay_ms(*one) for one in (hop, hop[::-1]))
    return Flow(
        pace_mbps * BITS_PER_MBIT,
        there_ms / 1e3 + sum(on_links_s[1:]),
        (there_ms + back_ms) / 1e3 + sum(on_links_s),
        sum(on_links_s),
        frame_bits,
    )


def flow_s(flow: Flow, bits: float, tcp: TcpSettings) -> tuple[float, float]:
    """Return what a flow's bits take from end to end, the first time and once windows are open."""
    least = tcp.initial_window_segments * flow.frame_bits
    most = widest_window_segments(flow, tcp.initial_window_segments) * flow.frame_bits
    first_s, window = sending_s(flow, bits, least, most)
    later_s = first_s
    while not tcp.slow_start_after_idle:
        later_s, wider = sending_s(flow, bits, window, most)
        if wider <= window:
            break
        window = wider
    return first_s + flow.delay_s, later_s + flow.delay_s


def sending_s(flow: Flow, bits: float, window_bits: float, most_bits: float) -> tuple[float, float]:
    """Return when the last bit leaves the sender, and the window then.

    As long as a window takes less time to send than a round trip, the sender waits for the rest
    of it, and doubles its window (Cardwell, Savage and Anderson, "Modeling TCP latency", INFOCOM
    2000, section III, without losses, and without delayed acknowledgements, which Linux leaves off
    in slow start).
    """
    waited_s, product = 0.0, flow.pace_bps * flow.round_trip_s
    while window_bits < bits and window_bits < product:
        waited_s += flow.round_trip_s
        bits -= window_bits
        window_bits = max(window_bits, min(2 * window_bits, most_bits))
    return waited_s + bits / flow.pace_bps, window_bits


def widest_window_segments(flow: Flow, initial_segments: int) -> float:
    """Return where slow start ends: nowhere, or where HyStart takes long frames for a queue.

    Linux's cubic ends slow start when a window of 16 segments or more has had eight round trips
    longer than the shortest by an eighth of it, at least 4 and at most 16 ms (S. Ha and I. Rhee,
    "Hybrid slow start", PFLDnet 2008; `net/ipv4/tcp_cubic.c`). The shortest was that of the
    handshake; full frames on many slow links take longer without any queue.
    """
    shortest_s = flow.round_trip_s - flow.rise_s
    if flow.rise_s <= min(max(shortest_s / 8, HYSTART_LEAST_S), HYSTART_MOST_S):
        return math.inf
    window = initial_segments
    while window < HYSTART_LEAST_SEGMENTS:
        window *= 2
    return float(window + HYSTART_ACKNOWLEDGED_SEGMENTS)


# --- ring ---------------------------------------------------------------------------------------


def ring_cliques(
    cliques: Sequence[Sequence[str]], routes: Routes, message_bytes: int, tcp: TcpSettings
) -> list[CliqueForecast]:
    """Return the times of rings that work at the same time, first and later."""
    wires = Wires(routes)
    coarse = _packet_segments(cliques, routes, message_bytes)
    rings = [Ring(wires, clique, message_bytes, tcp, coarse) for clique in cliques]
    first, later = (_run_together(rings, wires) for _ in range(2))
    # Segments that the first time come singly may, later, stand in each other's way a little.
    return [
        CliqueForecast(ring.sites, again, max(once, again))
        for ring, once, again in zip(rings, first, later, strict=True)
    ]


def _run_together(rings: Sequence[Ring], wires: Wires) -> list[float]:
    start_s = wires.now_s + PAUSE_S
    working = [ring for ring in rings if len(ring.sites) > 1]
    for ring in working:
        wires.at(start_s, ring.start)
    wires.run()
    return [ring.ended_s - start_s if ring in working else 0.0 for ring in rings]


def _packet_segments(cliques: Sequence[Sequence[str]], routes: Routes, message_bytes: int) -> int:
    """Return how many segments a modelled packet stands for, so that a forecast stays quick."""
    segments = message_bytes / (routes.topology.mtu_bytes - IP_TCP_HEADER_BYTES)
    links = sum(
        len(routes.directions(one, clique[(place + 1) % len(clique)]))
        for clique in cliques
        for place, one in enumerate(clique)
    )
    return max(1, math.ceil(2 * segments * links / MODELLED_HOPS))


# --- kinds that work with the network -----------------------------------------------------------


def tree_clique(
    planned: PlannedRound, number: int, topology: Topology, message_bytes: int
) -> CliqueForecast:
    """Return the time of a clique of `multicast`, `aggregation` or `innetwork`.

    Parts of its messages are under way at the same time, each at its share of the pace.
    """
    kind, clique = planned.collective, planned.cliques[number]
    if len(clique) < 2:
        return CliqueForecast(clique, 0.0, 0.0)
    parts = parts_of(kind, [tree for tree in planned.trees if tree.clique == number])
    rate_mbps = PLANNED_SHARE * slowest_mbps(topology) / planned.predicted.transfer_units
    times = [
        _part_s(kind, part, part.share * rate_mbps, topology, part.share * message_bytes)
        for part in parts
    ]
    return CliqueForecast(clique, max(later for later, _ in times), max(once for _, once in times))


def _part_s(
    kind: str, part: Part, rate_mbps: float, topology: Topology, part_bytes: float
) -> tuple[float, float]:
    """Return the time of a part of a message, later and the first time."""
    rate_bps, mtu_bytes = rate_mbps * BITS_PER_MBIT, topology.mtu_bytes
    payload, wire = packet_payload_bytes(kind, mtu_bytes), packet_wire_bytes(kind, mtu_bytes)
    way_s = trees_way_s(kind, part.trees, topology, wire)
    guard_s = 8 * packet_wire_bytes(kind, mtu_bytes, GUARD_BYTES) / rate_bps
    packets = part_bytes / payload if part.share < 1 else math.ceil(part_bytes / payload)
    later_s = packets * 8 * wire / rate_bps + guard_s + way_s
    if kind == MULTICAST:
        return later_s, later_s
    exponents = math.ceil(part_bytes / (BLOCK_ELEMENTS * ELEMENT_BYTES))
    return later_s, later_s + 8 * exponents / rate_bps + way_s


def packet_payload_bytes(kind: str, mtu_bytes: int) -> int:
    """Return the bytes of a message that one packet carries: whole blocks where it is summed."""
    area = (mtu_bytes - PACKET_OVERHEAD_BYTES) // 8 * 8
    if kind == MULTICAST:
        return area
    block = BLOCK_ELEMENTS * ELEMENT_BYTES
    blocks = area // block
    while blocks * block + _exponents_bytes(blocks) > area:
        blocks -= 1
    return blocks * block


def packet_wire_bytes(kind: str, mtu_bytes: int, payload_bytes: int | None = None) -> int:
    """Return the bytes of such a packet's frame, full unless said otherwise."""
    payload = packet_payload_bytes(kind, mtu_bytes) if payload_bytes is None else payload_bytes
    blocks = 0 if kind == MULTICAST else payload // (BLOCK_ELEMENTS * ELEMENT_BYTES)
    return ETHERNET_HEADER_BYTES + PACKET_OVERHEAD_BYTES + _exponents_bytes(blocks) + payload


def _exponents_bytes(blocks: int) -> int:
    return -(-blocks // 8) * 8


def trees_way_s(
    kind: str, trees: Sequence[PlannedTree], topology: Topology, wire_bytes: float
) -> float:
    """Return the longest way of a packet through a clique's trees, sent whole over each link."""
    if kind != INNETWORK:
        return max((_tree_way_s(tree, topology, wire_bytes) for tree in trees), default=0.0)
    ways: dict[str, float] = {}
    for tree in trees:
        longest_s = _tree_way_s(tree, topology, wire_bytes)
        ways[tree.kind] = max(ways.get(tree.kind, 0.0), longest_s)
    return sum(ways.values())


def _tree_way_s(tree: PlannedTree, topology: Topology, wire_bytes: float) -> float:
    """The longest way between the root and a member; the sender's own link is in the transfer."""
    down = tree.kind == "multicast"
    switch_ms = (delays.down_ms if down else delays.up_ms)(topology, tree.root, tree.hops)
    access_ms = delays.to_island_ms if down else delays.from_island_ms
    specs = topology.directions()
    frame_ms = {way: 8 * wire_bytes / (spec.rate_mbps * 1e3) for way, spec in specs.items()}
    depth_ms = _depth_ms(tree, frame_ms, down)
    longest_ms = max(
        switch_ms[site] + depth_ms[site] + access_ms(topology, site) for site in tree.members
    )
    if down:
        longest_ms += max(frame_ms[Direction.down(site)] for site in tree.members)
    if tree.at_island:
        longest_ms += (delays.from_island_ms if down else delays.to_island_ms)(topology, tree.root)
        longest_ms += 0.0 if down else frame_ms[Direction.down(tree.root)]
    return longest_ms / 1e3


def _depth_ms(
    tree: PlannedTree, frame_ms: Mapping[Direction, float], down: bool
) -> dict[str, float]:
    """Return the time of one packet on all links between the root and each site of the tree."""
    found = {tree.root: 0.0}
    left = list(tree.hops)
    while left:
        for parent, child in [hop for hop in left if hop[0] in found]:
            way = Direction(parent, child) if down else Direction(child, parent)
            found[child] = found[parent] + frame_ms[way]
            left.remove((parent, child))
    return found
