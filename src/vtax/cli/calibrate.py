"""`vtax doctor --calibrate`: measures the smallest effect that this host can detect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vtax.cli.output import need_root, notify, print_json, print_table, say
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.study.units import duration_s, format_duration, format_percent

if TYPE_CHECKING:
    from vtax.runner.calibration import NoiseResult


def calibrate(text: str, *, as_json: bool) -> None:
    """Measure native against native for this duration and print the result. Raises BadInput, VtaxError."""
    from vtax.cli.measure import prepare_host
    from vtax.cli.output import built_image
    from vtax.cli.progress import observer
    from vtax.runner.calibration import calibrate as measured

    need_root("measuring")
    seconds = _duration(text)
    home = Home.from_environment().ensure()
    started_at = time.monotonic()
    with measuring_lock("vtax doctor --calibrate"):
        prepare_host(home)
        image = built_image(home)
        notify(f"calibrating for about {format_duration(seconds)}: native against native, in blocks")
        with observer() as progress:
            found = measured(home, image, seconds, progress)
    duration_s = time.monotonic() - started_at
    if as_json:
        print_json({"seconds": round(duration_s, 1), "calibration": [seen.as_json() for seen in found]})
        return
    _print(found, duration_s)


def _duration(text: str) -> float:
    from vtax.runner.calibration import MIN_DURATION_S

    try:
        seconds = float(duration_s(text))
    except ValueError as error:
        raise BadInput(str(error), where="--calibrate", hint="write a duration such as 60s or 2min") from error
    if seconds < MIN_DURATION_S:
        raise BadInput(f"{seconds:g} s is too short for a calibration", hint=f"use {MIN_DURATION_S:g} s or more")
    return seconds


def _print(found: tuple[NoiseResult, ...], duration_s: float) -> None:
    from vtax.report.document import Relative
    from vtax.report.renderers.format import english
    from vtax.runner.calibration import BLOCKS, OVERHEADS

    print_table(
        (
            "benchmark", "blocks", "native / native", "noise per block", "upper bound",
            *(f"{n} blocks see" for n in BLOCKS),
            *(f"blocks for {format_percent(e, '.0f')}" for e in OVERHEADS),
        ),
        [
            (
                seen.benchmark,
                str(seen.blocks),
                english(Relative(seen.ratio.estimate, seen.ratio.low, seen.ratio.high)),
                format_percent(seen.noise),
                format_percent(seen.noise_upper),
                *(format_percent(effect) for effect in seen.smallest.values()),
                *("> 10000" if needed is None else str(needed) for needed in seen.needed.values()),
            )
            for seen in found
        ],
    )  # fmt: skip
    say(f"measured for {duration_s:.0f} s; a difference is detected with power 0.8 at significance level 5 %")
    if any(seen.ratio.p_value < 0.05 / len(found) for seen in found):
        notify("native differs from itself: a disturbance of this host depends on the order of trials")
