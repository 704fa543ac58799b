"""Campaigns of attacks: short by default, long with `--attacks N`, of other attacks with `--attack-seed S`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from attack import Campaign

WHOLE = 10_000  # attacks of a whole campaign, unless its test is marked with another number


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A long campaign has no limit of its own: each of its attacks has."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if config.getoption("--attacks") is not None:
            item.add_marker(pytest.mark.timeout(0))
        if config.option.collectonly and "attacks" in getattr(item, "fixturenames", ()):
            marker = item.get_closest_marker("whole")
            note(config, {"program": item.nodeid, "attacks": marker.args[0] if marker else WHOLE})


def note(config: pytest.Config, record: dict[str, object]) -> None:
    """Append a line to the log, if there is one."""
    if path := config.getoption("--attack-log"):
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")


@pytest.fixture
def notify_attacks(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[str, dict[str, object]], None]:
    """Takes the line of a campaign and its figures, as `Campaign` has both: for the terminal, and for the log."""

    def notify(line: str, figures: dict[str, object]) -> None:
        record_property("attacks", line)
        note(request.config, figures)

    return notify


@pytest.fixture
def campaign(
    request: pytest.FixtureRequest,
    attacks: Callable[[int], int],
    notify_attacks: Callable[[str, dict[str, object]], None],
) -> Callable[[int, Callable[[Random], None]], Campaign]:
    """Make attacks, as many as given or as `--attacks` says; fails when one got through. Returns what was counted."""

    def run(default: int, attack: Callable[[Random], None]) -> Campaign:
        made = Campaign(
            request.node.name, attacks(default), request.config.getoption("--attack-seed")
        )
        made.run(attack)
        notify_attacks(str(made), made.figures())
        made.check()
        return made

    return run
