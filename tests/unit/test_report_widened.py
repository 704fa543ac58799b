"""What a result says of its intervals and its noise: the level of widened ones, and what leaves the blocks open."""

from __future__ import annotations

import pytest
from a_run import measured, noisy
from shown import terminal

NATIVE, FIRST = [1.0, 1.1] * 3, [1.0, 1.9, 0.7, 1.4, 0.9, 1.2]


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def loud(platform: str, size: int, block: int, _: int) -> float:
    """The platform `first` is noisy at the size 1500 and less so at 64; `second` is slower, without noise."""
    if platform == "second":
        return NATIVE[block] / 2 * (1 + block / 10_000)
    return NATIVE[block] if platform == "native" else FIRST[block] ** (1.0 if size == 1500 else 0.5)


@pytest.mark.parametrize(
    ("design", "level"),
    [
        ({"stop": "precision"}, "97.9"),
        ({"stop": "verdict"}, "99.5"),
        ({"stop": "budget", "budget": 60.0}, ""),
        ({"stop": "fixed"}, ""),
    ],
)
def test_the_level_of_widened_intervals_is_shown_below_the_first_table(design, level):
    _, analysis = measured(noisy(0.05, 0.01), blocks=6, trials=1, **design)
    found = plain(terminal(analysis, 200))
    assert found.count("intervals are computed at") == bool(level)
    expected = f"computed at {level} % so that they hold at 95 %: the rule {design['stop']} looks at figures"
    assert not level or expected in found
