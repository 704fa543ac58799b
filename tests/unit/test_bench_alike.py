"""What bench/frozen.py makes of blocks of like guests, and what it writes to freeze them."""

import math
from pathlib import Path

import pytest
from alike import LONGER, TIMES, Block, Trial, jackknifed, length_rows, near_row, neighbours, spread
from frozen import freezer, is_set, plan_for, while_time_lasts

from vtax.errors import BadInput
from vtax.host.cgroup_mounts import Hierarchy
from vtax.host.cgroups import Cgroup


def block(*logs, label="dd", alone=0.0):
    return Block(
        {label: [Trial(log, float(k), 1.0) for k, log in enumerate(logs)]},
        10.0,
        [0.5],
        {label: alone},
    )


def test_the_spread_of_ratios_is_that_of_two_guests_of_a_block():
    """Levels of blocks leave it alone; it is the root mean square of all differences of two guests."""
    blocks = [[0.1, 0.3], [5.1, 5.2, 5.6]]
    squares = [
        0.2**2,
        (0.1**2 + 0.4**2 + 0.5**2) / 3 * 2,
    ]  # of a block, times its degrees of freedom
    assert spread(blocks) == pytest.approx(math.sqrt(sum(squares) / 3))
    assert spread(
        [[each + 7 * k for each in some] for k, some in enumerate(blocks)]
    ) == pytest.approx(spread(blocks))
    assert neighbours(blocks) == pytest.approx(math.sqrt((0.2**2 + 0.1**2 + 0.4**2) / 3))
    assert math.isnan(spread([[1.0], [2.0]]))


def test_a_jackknife_of_a_mean_is_its_own_interval():
    values = [1.0, 1.2, 0.9, 1.1, 1.3]
    found = jackknifed(lambda some: math.exp(sum(some) / len(some)), values)
    error = math.sqrt(sum((each - 1.1) ** 2 for each in values) / 4 / 5)
    assert math.log(found.estimate) == pytest.approx(1.1)
    assert math.log(found.high / found.estimate) == pytest.approx(2.7764451 * error)
    assert (
        jackknifed(lambda some: 2.0, values[:2]).low,
        jackknifed(lambda some: 2.0, values[:2]).high,
    ) == (
        0,
        math.inf,
    )


def test_a_design_whose_differences_are_half_has_half_the_spread():
    pairs = [
        (block(0.0, scale, -scale), block(1.0, 1 + scale / 2, 1 - scale / 2, alone=0.01 * k))
        for k, scale in enumerate((0.1, 0.2, 0.15, 0.12))
    ]
    row = near_row("dd", pairs)
    assert tuple(row["ratio"]) == pytest.approx((0.5, 0.5, 0.5))
    assert row["sd_alive"] == pytest.approx(row["sd_in_turn"] / 2)
    assert row["typical_alive"] == pytest.approx(row["typical_in_turn"] / 2)
    assert math.log(row["moved"].estimate) == pytest.approx(0.015)
    assert row["apart_alive_s"] == 1.0


def test_plans_of_a_guest_are_priced_by_variance_and_seconds():
    """A trial as long as several, without noise of its own, has the guests' variance alone."""
    guests = (0.1, -0.1, 0.3)
    noise = (0.2, -0.2, 0.0)
    trials = {
        "dd": [Trial(guest + each, 0.0, 1.0) for guest in guests for each in noise],
        "dd" + LONGER: [Trial(guest, 0.0, 3.0) for guest in guests],
    }
    one, two, three, longer = length_rows("dd", [Block(trials, 20.0, [0.5, 0.5])] * 4)
    assert TIMES == 3
    assert one["sd"] == two["sd"] == pytest.approx(three["sd"]) == pytest.approx(longer["sd"])
    assert [row["seconds"] for row in (one, two, three, longer)] == pytest.approx(
        [1.1, 2.1, 3.1, 3.1]
    )
    assert longer["variance_seconds"].estimate == pytest.approx(3.1 / 1.1)


def test_both_cgroup_freezers_are_known(tmp_path):
    first, second = Hierarchy(tmp_path, False, frozenset({"freezer"})), Hierarchy(tmp_path, True)
    assert freezer(Cgroup(((first, tmp_path / "a"),))) == (
        tmp_path / "a" / "freezer.state",
        "FROZEN",
        "THAWED",
    )
    with pytest.raises(BadInput, match="no cgroup freezer"):
        freezer(Cgroup(((second, tmp_path),)))
    (tmp_path / "cgroup.freeze").write_text("0")
    path, *_ = freezer(Cgroup(((second, tmp_path),)))
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert is_set(path, "1")
    assert not is_set(path, "0")
    (tmp_path / "freezer.state").write_text("FREEZING\n")
    assert not is_set(Path(tmp_path, "freezer.state"), "FROZEN")


def test_no_round_begins_that_would_end_too_late(capsys):
    assert list(while_time_lasts(0.0, "nearness")) == [0]
    assert "nearness: round 1 took 0 s, 0 s left" in capsys.readouterr().err


def test_a_platform_that_does_not_run_here_is_said(tmp_path, use_home):
    use_home(tmp_path)
    with pytest.raises(BadInput, match="not built yet"):
        plan_for("podman", 6)
