from __future__ import annotations

import re
from xml.etree import ElementTree

from testbed.report.palette import DARK, LIGHT, SERIES_LIGHT, UTILIZATION_LIGHT, variable_of
from testbed.report.plotting import for_page, new_plot, report_style, svg_text


def drawing(label: str) -> str:
    with report_style():
        figure, axes = new_plot()
        axes.plot([0, 1, 2], [1, 3, 2], "o", color=LIGHT["compute"], label=label)
        axes.set_title(label)
        return svg_text(figure)


def test_colours_are_told_apart_so_that_each_has_its_variable() -> None:
    colours = [*LIGHT.values(), *SERIES_LIGHT, *UTILIZATION_LIGHT]
    assert len(set(colours)) == len(colours)
    assert set(LIGHT) == set(DARK)
    assert variable_of()[LIGHT["ink"]] == "var(--ink)"


def test_a_plot_in_a_page_has_no_colour_of_its_own_but_black() -> None:
    text = for_page(drawing("loss"), "p", "a plot")
    assert "var(--compute)" in text
    assert set(re.findall(r"#[0-9a-f]{6}\b", text)) <= {"#000000"}


def test_identifiers_of_two_plots_of_a_page_differ_and_are_all_found() -> None:
    svg = drawing("loss")
    pages = [for_page(svg, prefix, "a plot") for prefix in ("first", "second")]
    names = [set(re.findall(r'\bid="([^"]+)"', text)) for text in pages]
    assert names[0].isdisjoint(names[1])
    for text, own in zip(pages, names, strict=True):
        referred = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
        assert referred
        assert set(referred) <= own


def test_a_plot_brings_no_style_sheet_and_no_metadata_into_the_page() -> None:
    text = for_page(drawing("loss"), "p", "a plot")
    assert "<style" not in text
    assert "<metadata" not in text
    assert 'aria-label="a plot"' in text


def test_names_cannot_become_markup_or_mathematics() -> None:
    text = for_page(drawing('<b a="1">$x_1$ & co'), "p", '"<i>')
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == '"<i>'
    written = "".join(root.itertext())
    assert '<b a="1">$x_1$ & co' in written
    assert "<b" not in text


def test_the_same_plot_is_the_same_text() -> None:
    assert drawing("loss") == drawing("loss")
