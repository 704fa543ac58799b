"""Campaigns of attacks: short by default, long with `--attacks N`, of other attacks with `--attack-seed S`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from attack import Campaign


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A long campaign has no limit of its own: each of its attacks has."""
    if config.getoption("--attacks") is not None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.timeout(0))


@pytest.fixture
def campaign(
    request: pytest.FixtureRequest, attacks: Callable[[int], int], record_property: Callable[[str, object], None]
) -> Callable[[int, Callable[[Random], None]], Campaign]:
    """Make attacks, as many as given or as `--attacks` says; fails when one got through. Returns what was counted."""

    def run(default: int, attack: Callable[[Random], None]) -> Campaign:
        made = Campaign(request.node.name, attacks(default), request.config.getoption("--attack-seed"))
        made.run(attack)
        record_property("attacks", str(made))
        made.check()
        return made

    return run
