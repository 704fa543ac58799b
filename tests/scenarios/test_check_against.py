"""The gate of `vtax compare` over runs and bundles: what sessions decide, what one leaves open, what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import command_line
import numpy as np
import pytest
from a_run import DECLARED, PLATFORMS, a_run, begin, cells
from command_line import refusals

from vtax.errors import BadInput
from vtax.report.analysis.result import analyse
from vtax.stats.sessions import unpaired_over_sessions
from vtax.store.records import CellRecord
from vtax.store.store import RunHandle, Store

BLOCKS = 6
OF_SESSION = {
    "old-1": 0.00,
    "old-2": 0.20,
    "old-3": -0.10,
    "new-1": 0.30,
    "new-2": 0.15,
    "new-3": 0.25,
}
"""Of the host: all platforms alike."""
NAMES = ("native", "docker", "lxc")
NEW_DOCKER = -0.12  # as a logarithm: 11 % slower
invoked, values = (
    partial(command_line.invoked, "compare"),
    partial(command_line.values_of, "compare"),
)
OLD, NEW = "old-1,old-2,old-3", "new-1,new-2,new-3"


def made(
    store: Store, name: str, *, effect: float = 0.0, docker: float = 0.0, **changes: Any
) -> RunHandle:
    """A run of one session, whose host is faster by `effect`."""
    random = np.random.default_rng(sum(map(ord, name)))
    of_cpu = [
        cell for cell in cells() if cell.benchmark == "sysbench-cpu" and cell.platform in NAMES
    ]

    def events(cell: CellRecord, block: int, number: int) -> float:
        own = {"docker": docker - 0.02, "lxc": 0.01}.get(cell.platform, 0.0)
        return 1000 * float(np.exp(effect + own + 0.003 * random.standard_normal()))

    run = a_run(name).platforms(*changes.pop("platforms", PLATFORMS[:3]))
    run = run.cells(changes.pop("cells", of_cpu)).having(**changes)
    return run.blocks(BLOCKS).values(events).stored(store)


@pytest.fixture
def six(home_store: Store) -> Store:
    """Three runs a side; docker became slower by 11 %."""
    for name, effect in OF_SESSION.items():
        made(home_store, name, effect=effect, docker=NEW_DOCKER if name.startswith("new") else 0.0)
    return home_store


@pytest.fixture
def two(home_store: Store) -> Store:
    """One run a side."""
    for name in ("old-1", "new-1"):
        made(
            home_store, name, effect=OF_SESSION[name], docker=NEW_DOCKER if name == "new-1" else 0.0
        )
    return home_store


def refused(*arguments: str) -> BadInput:
    found = invoked(*arguments).exception
    assert isinstance(found, BadInput)
    assert found.hint
    return found


@pytest.mark.usefixtures("six")
def test_over_sessions_a_slower_platform_fails_and_an_equal_one_passes():
    result = invoked(NEW, OLD, "--fail-if", "slower-by", "5%")
    assert result.exit_code == 1
    found = values(NEW, OLD, "--fail-if", "slower-by", "5%")
    assert {each["platform"]: each["outcome"] for each in found["comparisons"]} == {
        "docker": "slower",
        "lxc": "passed",
    }
    assert found["against"]["sessions"] == [3, 3]
    docker = found["comparisons"][0]
    assert docker["ratio"]["estimate"] == pytest.approx(np.exp(NEW_DOCKER), rel=0.01)
    assert (docker["ratio"]["n_sessions"], docker["ratio"]["n_blocks"]) == (3, 3 * BLOCKS)
    assert found["treatments"] == ["docker", "lxc"]
    assert not {"session-effects", "one-session"} & {each["code"] for each in found["warnings"]}


def test_the_ratio_is_that_of_both_ratios_to_the_baseline(six):
    """By the formula of `unpaired_over_sessions` on the logarithms, made here by hand."""
    sides = []
    for names in (NEW, OLD):
        logs, sessions = list[float](), list[int]()
        for number, name in enumerate(names.split(",")):
            (section,) = (s for s in analyse(six, name).primary if s.metric.name == "events")
            rows = {row.platform.name: row for row in section.points[0].rows}
            logs += np.log(rows["docker"].block_means / rows["native"].block_means).tolist()
            sessions += [number] * BLOCKS
        sides.append((logs, sessions))
    expected = unpaired_over_sessions(*sides)
    (found,) = values(f"{NEW}:docker", OLD, "--strict")["comparisons"]
    assert {name: found["ratio"][name] for name in ("estimate", "low", "high")} == pytest.approx(
        {"estimate": expected.estimate, "low": expected.low, "high": expected.high}
    )


@pytest.mark.usefixtures("two")
def test_one_session_a_side_decides_nothing_and_says_what_it_leaves_out(golden):
    result = invoked("new-1", "old-1", "--fail-if", "slower-by", "5%")
    assert result.exit_code == 0
    assert invoked("new-1", "old-1", "--strict").exit_code == 3
    golden(result.output)
    found = values("new-1", "old-1", "--fail-if", "slower-by", "5%")
    assert {each["outcome"] for each in found["comparisons"]} == {"undecided"}
    assert {each["detectable"] for each in found["comparisons"]} == {None}
    assert found["comparisons"][0]["efficiency"]["high"] < 0.95, (
        "slower beyond doubt, were sessions alike"
    )


@pytest.mark.usefixtures("two")
def test_a_bundle_is_read_without_being_imported(tmp_path):
    path = tmp_path / "old.vtax.gz"
    assert command_line.invoked("export", "old-1", "-o", str(path)).exit_code == 0
    expected = values("new-1", "old-1", "--strict")
    assert command_line.invoked("remove", "old-1", "--yes").exit_code == 0
    assert values("new-1", str(path), "--strict")["comparisons"] == expected["comparisons"]
    assert "there is no run or platform 'old-1'" in str(refused("new-1", "old-1", "--strict"))
    path.write_bytes(path.read_bytes()[:-9])
    assert str(path) in refused("new-1", str(path), "--strict").where


@pytest.mark.usefixtures("two")
def test_test_reports_name_both_runs(tmp_path, set_locale):
    set_locale("pt_BR")
    junit, markdown = tmp_path / "check.xml", tmp_path / "check.md"
    invoked("new-1", "old-1", "--junit", str(junit), "--markdown", str(markdown), "--strict")
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite.get("name") == "vtax compare new-1 old-1"
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "2",
        "0",
        "2",
        "0",
    ]
    assert "new-1 contra old-1: docker, lxc, cada uma em relação a native" in markdown.read_text(
        encoding="utf-8"
    )


def test_differences_of_the_setting_are_listed(home_store):
    made(home_store, "old-1", host={"kernel": "6.1"}, image_key="1111", vtax_version="0.1.0")
    made(home_store, "new-1", host={"kernel": "6.12"}, image_key="2222", vtax_version="0.2.0")
    found = "\n".join(map(str, values("new-1", "old-1", "--strict")["against"]["differences"]))
    for each in (
        "kernel: 6.12 and 6.1",
        "images differ: 2222 and 1111",
        "versions of vtax differ: 0.2.0 and 0.1.0",
    ):
        assert each in found
    text = " ".join(invoked("new-1", "old-1", "--strict").output.split())
    assert "images differ: 2222 and 1111" in text


def test_points_and_platforms_of_one_run_alone_are_not_tested(home_store):
    both = [
        each
        for each in cells()
        if each.platform in NAMES and each.levels.get("direction") != "send"
    ]
    fewer = [each for each in both if each.benchmark == "sysbench-cpu" and each.platform != "lxc"]
    made(home_store, "old-1", cells=fewer)
    made(home_store, "new-1", cells=[each for each in both if each.benchmark == "sysbench-cpu"])
    found = values("new-1", "old-1", "--strict")
    assert [each["platform"] for each in found["comparisons"]] == ["docker"]
    assert [(each["platform"], each["reason"]) for each in found["not_tested"]] == [
        ("lxc", "only in new-1")
    ]
    assert values("new-1:docker", "old-1", "--strict")["not_tested"] == []


def test_runs_that_do_not_measure_the_same_are_refused(home_store, capsys, golden):
    made(home_store, "new-1")
    chosen = [
        each for each in cells() if each.benchmark == "sysbench-cpu" and each.platform in NAMES
    ]
    made(
        home_store,
        "longer-1",
        cells=[replace(each, parameters={"duration_s": 5.0}) for each in chosen],
    )
    made(
        home_store,
        "larger-1",
        declared={**DECLARED, "guest": {"vcpus": 2, "memory": 512 * 1024**2}},
    )
    others = [
        replace(each, is_baseline=each.name == "lxc") for each in PLATFORMS if each.name in NAMES
    ]
    made(home_store, "of-lxc-1", platforms=others, declared={**DECLARED, "baseline": "lxc"})
    begin(home_store, "empty-1")
    made(home_store, "primes-1", cells=[replace(each, label="primes") for each in chosen])
    names = ("primes-1", "longer-1", "larger-1", "of-lxc-1", "empty-1", "new-1", "nothing-1")
    golden(refusals(capsys, "compare new-1 --strict", *names))


@pytest.mark.usefixtures("two")
def test_names_that_do_not_exist_are_refused(capsys, golden):
    sides = (
        "new-1:dokcer old-1:dokcer",
        "new-1:native old-1:native",
        "new-1 /nowhere/old",
        "new-1 old-1 --metric evnts",
        "new-1:docker old-1:lxc",
    )
    golden(refusals(capsys, "compare --strict", *sides), "compare")
    golden(refusals(capsys, "report", "new-1 old-1 new-1"), "report")


def test_the_page_of_updates_names_the_run_after_first():
    """A gate fails where its first side is slower; the page makes tour-1 before the update, and tour-2 after it."""
    page = (
        Path(__file__)
        .resolve()
        .parents[2]
        .joinpath("docs/kernel-update.md")
        .read_text(encoding="utf-8")
    )
    assert (
        page.index("--tag before")
        < page.index("--tag after")
        < page.index("vtax compare tour-2 tour-1 --fail-if")
    )
