"""Makes `land_110m.json`, the outline of the continents behind the pictures of networks.

Run once, by hand; the result is kept with the project so that no picture needs a download:

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python -m topologies.land_outline package/land-110m.json

The input is a TopoJSON edition of Natural Earth's 1:110m land (public domain). TopoJSON keeps each
shore once, as an *arc* of whole-number steps on a grid; a ring of land is a list of arcs, where
the number ~i stands for arc i walked backwards. The output is plain: rings of alternating
longitude and latitude in hundredths of a degree.
"""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent / "land_110m.json"
SOURCE = "Natural Earth 1:110m land, version 4.1.0, by way of the npm package world-atlas 2.0.2"

Place = tuple[float, float]


def decoded_arcs(topojson: dict[str, Any]) -> list[list[Place]]:
    """Return every arc as longitudes and latitudes in degrees."""
    (scale_x, scale_y), (x0, y0) = (topojson["transform"][key] for key in ("scale", "translate"))
    return [
        [
            (x * scale_x + x0, y * scale_y + y0)
            for x, y in accumulate(arc, lambda at, step: [at[0] + step[0], at[1] + step[1]])
        ]
        for arc in topojson["arcs"]
    ]


def ring_places(ring: list[int], arcs: list[list[Place]]) -> list[Place]:
    """Return a ring's places: its arcs one after another, shared ends once."""
    places: list[Place] = []
    for index in ring:
        arc = arcs[index] if index >= 0 else arcs[~index][::-1]
        places += arc[1:] if places else arc
    return places


def main() -> None:
    """Read the TopoJSON file named on the command line and write the outline."""
    topojson = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    arcs = decoded_arcs(topojson)
    polygons = [
        polygon
        for geometry in topojson["objects"]["land"]["geometries"]
        for polygon in geometry["arcs"]
    ]
    rings = [
        [round(100 * degrees) for place in ring_places(ring, arcs) for degrees in place]
        for polygon in polygons
        for ring in polygon
    ]
    outline = {"source": SOURCE, "licence": "public domain", "rings_centidegrees": rings}
    OUTPUT.write_text(json.dumps(outline, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
