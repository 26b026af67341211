"""What trees may ask of accelerators with limits, known before anything is built. Pure.

An accelerator with few slots makes a tree slow, not wrong: its window shrinks until all windows
fit, and the rate that is left is window x packet / round trip. More children than it can sum, or
fewer slots than trees, is what no window helps against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor
from typing import Any

from testbed.accelerator.process import Limits
from testbed.innetwork.layout import Layout
from topologies.errors import UserError

UNLIMITED = Limits()


def alike(sites: Iterable[str], named: Mapping[str, Any]) -> dict[str, Limits]:
    """Return the same limits, fields of `Limits` by name, for each of some sites."""
    return dict.fromkeys(sites, Limits(**named))


def fan_ins(limits: Mapping[str, Limits]) -> dict[str, int]:
    """Return the fan-in of each accelerator that has one of its own."""
    return {site: one.fan_in for site, one in limits.items() if one.fan_in < UNLIMITED.fan_in}


def within_limits(layouts: Sequence[Layout], limits: Mapping[str, Limits]) -> list[Layout]:
    """Return layouts that are open together, with windows that fit into the slots there are.

    Args:
        layouts: as for accelerators without limits.
        limits: of each site's accelerator; without an entry, none.

    Raises:
        UserError: there is no accelerator, too many children, or fewer slots than trees; the text
            names the site, both numbers and the option.
    """
    for layout in layouts:
        for site in layout.accelerators:
            _check_children(layout, site, limits.get(site, UNLIMITED))
    shares = _shares(layouts, limits)
    return [_narrowed(layout, shares) for layout in layouts]


def _check_children(layout: Layout, site: str, limits: Limits) -> None:
    most = max(len(config.children) for config in layout.accelerators[site])
    if most > limits.fan_in:
        raise UserError(
            f"--accelerator-fan-in: {most} streams of {layout.group.kind} meet at {site}, whose "
            f"accelerator sums {limits.fan_in}; give {most} or more, or accelerators at more sites"
        )


def _shares(layouts: Sequence[Layout], limits: Mapping[str, Limits]) -> dict[str, float]:
    """The part of each window beyond its first slot that fits, where not all fit."""
    asked, trees = Counter[str](), Counter[str]()
    for layout in layouts:
        for site, configs in layout.accelerators.items():
            asked[site] += sum(config.window for config in configs)
            trees[site] += len(configs)
    for site, count in trees.items():
        slots = limits.get(site, UNLIMITED).slots
        if slots < count:
            raise UserError(
                f"--accelerator-slots: {count} trees meet at {site}, whose accelerator has {slots} "
                f"slots; give {count} or more"
            )
    slots_at = {site: limits.get(site, UNLIMITED).slots for site in asked}
    return {
        site: (slots_at[site] - trees[site]) / (asked[site] - trees[site])
        for site in asked
        if slots_at[site] < asked[site]
    }


def _narrowed(layout: Layout, shares: Mapping[str, float]) -> Layout:
    share = min((shares.get(site, 1.0) for site in layout.accelerators), default=1.0)
    if share == 1:
        return layout
    window = 1 + floor((layout.group.window - 1) * share)
    configs = {
        site: tuple(replace(config, window=window) for config in told)
        for site, told in layout.accelerators.items()
    }
    return replace(layout, accelerators=configs, group=replace(layout.group, window=window))
