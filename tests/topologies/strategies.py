"""Random topologies: connected, with every field of the format in play."""

from __future__ import annotations

from hypothesis import strategies as st

from topologies.model import DirectionSpec, Link, Site, Topology, frame_ms

MOST_MTU_BYTES = 9216

codes = st.from_regex(r"[A-Z][A-Z0-9]{1,7}", fullmatch=True)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,20}", fullmatch=True)
texts = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=40
).filter(lambda text: text == text.strip())


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


@st.composite
def specs(draw: st.DrawFn) -> DirectionSpec:
    delay, rate = draw(numbers(0, 10_000)), draw(numbers(0.064, 1e6))
    shortest_queue = max(0.001, frame_ms(MOST_MTU_BYTES, rate))
    loss, burst = draw(st.just((0.0, None)) | losses())
    return DirectionSpec(
        rate_mbps=rate,
        one_way_delay_ms=delay,
        jitter_ms=draw(st.just(0.0) | numbers(0, delay)),
        loss_pct=loss,
        queue_ms=draw(st.none() | numbers(shortest_queue, 10_000)),
        loss_burst_packets=burst,
        duplicate_pct=draw(st.just(0.0) | numbers(0, 100)),
        corrupt_pct=draw(st.just(0.0) | numbers(0, 100)),
    )


@st.composite
def losses(draw: st.DrawFn) -> tuple[float, float | None]:
    """A loss, one by one or in bursts of a length that it can come in."""
    if draw(st.booleans()):
        return draw(numbers(0, 100)), None
    loss = draw(numbers(0.001, 99))
    return loss, draw(numbers(max(1.0, loss / (100 - loss) * (1 + 1e-9)), 10_000))


def whole_delays(most_ms: int) -> st.SearchStrategy[DirectionSpec]:
    """Few different delays, in hundredths of a millisecond, so that ties are common."""
    return st.integers(0, most_ms).map(lambda n: DirectionSpec(100.0, n / 100))


@st.composite
def topologies(
    draw: st.DrawFn, spec: st.SearchStrategy[DirectionSpec] | None = None, most_sites: int = 7
) -> Topology:
    spec = specs() if spec is None else spec
    sites = draw(st.lists(codes, min_size=2, max_size=most_sites, unique=True))
    tree = {(draw(st.sampled_from(sites[:i])), code) for i, code in enumerate(sites) if i}
    pairs = [(a, b) for i, a in enumerate(sites) for b in sites[i + 1 :]]
    chosen = tree | set(draw(st.lists(st.sampled_from(pairs), max_size=10)))
    links = {tuple(sorted(pair)): pair for pair in sorted(chosen)}
    return Topology(
        name=draw(names),
        sites=tuple(
            Site(code, draw(texts), draw(numbers(-90, 90)), draw(numbers(-180, 180)))
            for code in sites
        ),
        links=tuple(Link(a, b, draw(spec), draw(spec)) for a, b in links.values()),
        access={code: draw(spec) for code in sites},
        source=draw(texts),
        licence=draw(texts),
        mtu_bytes=draw(st.integers(576, MOST_MTU_BYTES)),
    )
