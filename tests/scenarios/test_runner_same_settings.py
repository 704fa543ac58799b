"""Settings that a tool chose by the CPU it saw: platforms that differ in one are a warning of the run."""

from collections.abc import Mapping
from typing import Any

import pytest
from scripted import ScriptBenchmark, ScriptedDriver, executed, plan_of, study

from vtax.benchmarks.base import Command, Context, Outcome
from vtax.store.query import load

DECLARED = study(design={"blocks": 2, "order": "sequential"}, benchmark=[{"name": "choosing"}])
FIRST, LATER = "Haswell", "Prescott"


class Choosing(ScriptBenchmark):
    """Its tool chose FIRST in the first guests, of which there are so many, and LATER in all others."""

    name = "choosing"
    same_everywhere = ("kernel", "absent")

    def __init__(self, driver: ScriptedDriver, guests: int) -> None:
        self._driver = driver
        self._guests = guests

    def commands(self, parameters: Any, context: Context) -> list[Command]:
        return [
            Command(
                "single", ("echo", FIRST if len(self._driver.started) <= self._guests else LATER)
            )
        ]

    def parse(self, parameters: Any, context: Context, results: Mapping[Any, Any]) -> Outcome:
        return Outcome({"figure": 1.0}, {"kernel": results["single"].stdout.strip()})


@pytest.mark.parametrize(
    ("guests", "warnings"),
    [
        (
            2,
            [
                "choosing: kernel is Haswell on native and Prescott on other; "
                "this difference is part of what is measured"
            ],
        ),
        (4, []),
    ],
)
def test_platforms_that_differ_are_a_warning_given_once(driver, store, home, guests, warnings):
    driver.benchmarks = {"choosing": Choosing(driver, guests)}
    run = executed(plan_of(DECLARED), store, home)
    found = [
        warning
        for warning in load(store.engine, run).warnings
        if warning.code == "different-settings"
    ]
    assert [warning.note for warning in found] == warnings


def test_one_platform_alone_is_no_difference(driver, store, home):
    driver.benchmarks = {"choosing": Choosing(driver, 1)}
    run = executed(plan_of({**DECLARED, "platforms": ["native"]}), store, home)
    assert [
        warning
        for warning in load(store.engine, run).warnings
        if warning.code == "different-settings"
    ] == []
