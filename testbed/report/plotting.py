"""How plots look and are written: one plain style, and SVG that fits into a page.

An SVG of matplotlib is a document of its own: it has a style sheet that would reach the whole page,
identifiers that repeat from plot to plot, and fixed colours. In a page it gets none of the first,
its own prefix, and variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from testbed.report.palette import LIGHT, variable_of

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
DOTS_PER_INCH = 150
NORMAL_INCHES = (5.4, 3.05)
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LIGHT["muted"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": LIGHT["faint"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "text.color": LIGHT["ink"],
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.labelcolor": LIGHT["ink"],
    "figure.facecolor": LIGHT["panel"],
    "axes.facecolor": LIGHT["panel"],
    "savefig.facecolor": LIGHT["panel"],
}
_LONG_DECIMAL = re.compile(r"(\d+\.\d\d)\d+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


@contextmanager
def report_style() -> Iterator[None]:
    """Draw and write plots inside of this."""
    with mpl.rc_context(STYLE):
        yield


def new_plot(size_inches: tuple[float, float] = NORMAL_INCHES) -> tuple[Figure, Axes]:
    """Return an empty figure with one set of axes."""
    figure = Figure(figsize=size_inches, layout="constrained")
    return figure, figure.add_subplot()


def legend_above(axes: Axes, columns: int = 4, reverse: bool = False) -> None:
    """Write the legend in a line above the axes, where it hides nothing."""
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=columns,
            reverse=reverse,
            borderaxespad=0.2,
            handlelength=1.3,
            columnspacing=1.3,
        )


def logarithmic(axes: Axes) -> None:
    """Make the vertical axis logarithmic, its ticks written as people write numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", which="minor", size=0)


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG document, the same text each time."""
    buffer = StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata={"Date": None})
    figure.set_layout_engine("none")  # what has found its place stays there: the next is faster
    return buffer.getvalue()


def write_plot(figure: Figure, folder: Path, name: str, svg: str) -> None:
    """Write `name.svg` and `name.png` into a folder."""
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    canvas: Any = FigureCanvasAgg(figure)
    figure.set_dpi(DOTS_PER_INCH)
    canvas.print_png(folder / f"{name}.png")


def for_page(svg: str, prefix: str, title: str) -> str:
    """Return an SVG of matplotlib as a part of a page.

    Args:
        svg: the document.
        prefix: of its identifiers, unlike that of every other plot of the page.
        title: what it shows, for those who cannot see it.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(svg)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", title)
    for parent in list(root.iter()):
        _drop_foreign(parent)
        _prefix(parent, prefix)
        _recolour(parent)
    return ElementTree.tostring(root, encoding="unicode")


def _drop_foreign(parent: ElementTree.Element) -> None:
    for child in list(parent):
        if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
            parent.remove(child)


def _prefix(element: ElementTree.Element, prefix: str) -> None:
    """Keep the identifiers that something refers to, each with the prefix; groups need none."""
    if "id" in element.attrib:
        if element.tag == f"{{{SVG}}}g":
            del element.attrib["id"]
        else:
            element.set("id", f"{prefix}-{element.attrib['id']}")
    href = element.get(f"{{{XLINK}}}href")
    if href is not None:
        del element.attrib[f"{{{XLINK}}}href"]
        element.set("href", f"#{prefix}-{href[1:]}")
    for name in ("clip-path", "style"):
        if name in element.attrib:
            element.set(name, _REFERENCE.sub(rf"url(#{prefix}-\1)", element.attrib[name]))


def _recolour(element: ElementTree.Element) -> None:
    """Put variables for colours, let the page choose fonts, and shorten what no eye can tell."""
    style = element.get("style")
    if style:
        for colour, variable in variable_of().items():
            style = style.replace(colour, variable)
        element.set("style", re.sub(r"font: (\S+) '[^']*'[^;]*", r"font-size: \1", style))
    for name in ("d", "points"):
        if name in element.attrib:
            short = _LONG_DECIMAL.sub(r"\1", element.attrib[name])
            element.set(name, re.sub(r"\s+", " ", short).strip())
