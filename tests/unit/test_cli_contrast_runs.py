"""`vtax compare RUN1 RUN2`: whole runs against each other. Figures here are invented."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a_run import DECLARED, PLATFORMS, a_run, begin, cells, fill, trial
from click.testing import CliRunner
from command_line import output_of, refusals
from shown import drawn, english

from vtax.cli.main import group
from vtax.errors import VtaxError
from vtax.report.analysis.result import analyse
from vtax.report.answers.compare.compute import contrast
from vtax.report.answers.compare.run_differences import _of_hosts, differences
from vtax.report.answers.compare.show import document_of
from vtax.store.query import GuestRow
from vtax.store.records import CellRecord
from vtax.store.store import RunHandle, Store

SECOND = {"sysbench-cpu": 1.10, "iperf3": 1.0}  # how much faster everything is in tour-2


@pytest.fixture(scope="module", autouse=True)
def store(module_store: Store) -> Store:
    """tour-1; tour-2, 10 % faster on the CPU, without lxc, sending only."""
    fill(begin(module_store, started_at=1.0), trials=1, warmup=0)
    second = [
        replace(cell, levels={}, point="p" if cell.benchmark == "iperf3" else "c")
        for cell in cells()
        if cell.platform != "lxc" and cell.levels.get("direction") != "receive"
    ]
    run = begin(
        module_store,
        "tour-2",
        started_at=2.0,
        cells=second,
        platforms=[p for p in PLATFORMS if p.name != "lxc"],
    )
    _repeat(run)
    return module_store


def _repeat(run: RunHandle) -> None:
    """Eight blocks whose noise is 0.2 %."""
    speed = {"native": 1.0, "docker": 0.998, "lxc": 0.998, "qemu-tcg": 0.135}
    position = 0
    for block in range(8):
        for cell in run.cells:
            level = speed[cell.platform] * SECOND[cell.benchmark] * (1 + (block * 7 % 5 - 2) / 1000)
            values = (
                {"events": 1250 * level}
                if cell.benchmark == "sysbench-cpu"
                else {"throughput": 24_000 * level**1.5}
            )
            run.add_trial(trial(cell, block=block, position=position, values=values))
            position += 1
    run.finish("finished", "all blocks", 3.0)


def test_every_platform_and_point_that_both_have_is_compared(store):
    found = contrast(store, "tour-2", "tour-1")
    names = {(c.treatment.platform.name, c.section.label, c.name) for c in found.pairs}
    assert names == {
        (platform, *of)
        for platform in ("native", "docker", "qemu-tcg")
        for of in (("sysbench-cpu", ""), ("iperf3", "direction=send"))
    }
    assert not found.is_paired
    assert found.family == 0
    for each in found.pairs:
        assert each.verdict is None  # of one session a side
        assert getattr(each.reason, "code", "") == "one-session"
        assert each.treatment.platform.name == each.baseline.platform.name
        if each.section.label == "sysbench-cpu":
            assert each.ratio.estimate == pytest.approx(1.10, rel=0.03)


def test_both_runs_are_in_one_drawing_of_each_metric_and_in_its_file(store, tmp_path):
    found = contrast(store, "tour-2", "tour-1")
    figures = list(document_of(found).figures())
    assert len(figures) == 2
    for figure in figures:
        rows = [row for group in figure.groups for row in group.rows]
        assert [english(row.label) for row in rows[:2]] == ["native, tour-1", "native, tour-2"]
        assert all(row.values and row.shown for row in rows)
    done = CliRunner().invoke(group, ["figures", "tour-2", "tour-1", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "tour-2-tour-1-means-sysbench-cpu-events.svg",
        "tour-2-tour-1-means-iperf3-throughput.svg",
    }
    assert "qemu-tcg" in (tmp_path / min(names)).read_text()


def test_a_factor_that_one_run_fixes_is_matched_at_its_value(store):
    (each,) = (
        c
        for c in contrast(store, "tour-2", "tour-1").pairs
        if (c.treatment.platform.name, c.section.label) == ("docker", "iperf3")
    )
    assert each.treatment.cell.levels == {}
    assert each.baseline.cell.levels == {"direction": "send"}


def test_a_setting_of_the_link_that_one_run_fixes_is_matched_at_its_value(tmp_path):
    def with_settings(levels: dict[str, Any], link: dict[str, Any]) -> list[CellRecord]:
        return [
            replace(cell, levels=levels, link=link)
            for cell in cells()
            if cell.benchmark == "iperf3" and cell.levels["direction"] == "send"
        ]

    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        varied = with_settings({"link.mtu": 1500, "length": "64KiB"}, {"mtu": 1500})
        fixed = with_settings({"length": 65536}, {"mtu": 1500})
        _repeat(begin(store, "varied", started_at=1.0, cells=varied))
        _repeat(begin(store, "fixed", started_at=2.0, cells=fixed))
        found = contrast(store, "fixed", "varied")
    assert {each.treatment.platform.name for each in found.pairs} == {
        cell.platform for cell in fixed
    }
    assert found.unmatched.baseline == found.unmatched.treatment == ()


def test_cells_that_one_run_alone_has_are_named(store):
    unmatched = contrast(store, "tour-2", "tour-1").unmatched
    treatment, baseline = unmatched.treatment, unmatched.baseline
    assert treatment == ()
    assert {cell.key for cell in baseline} == {
        "c-lxc",
        "s-lxc",
        "r-lxc",
        "r-native",
        "r-docker",
        "r-qemu-tcg",
    }
    plain = json.loads(output_of("compare", "tour-1", "tour-2", "--json"))
    assert {cell["cell"] for cell in plain["unmatched"]["treatment"]} == {
        cell.key for cell in baseline
    }
    assert plain["unmatched"]["baseline"] == []
    text = output_of("compare", "tour-1", "tour-2")
    assert "Not compared: 6 cells only in tour-1 (sysbench-cpu, iperf3)." in " ".join(text.split())
    assert "only in tour-2" not in text


@pytest.mark.parametrize("sides", [("tour-1", "tour-2"), ("tour-1:docker", "tour-2:docker")])
def test_one_run_a_side_is_warned_of_with_a_code(sides):
    assert "measured once: no interval shows what a reboot" in " ".join(
        output_of("compare", *sides).split()
    )
    warnings = json.loads(output_of("compare", *sides, "--json"))["coded_warnings"]
    assert warnings[0]["code"] == "session-effects"
    assert warnings[0]["severity"] == "warning"
    within = json.loads(output_of("compare", "tour-1:docker", "tour-1:native", "--json"))
    assert "session-effects" not in [each["code"] for each in within["coded_warnings"]]


def test_the_json_has_an_entry_per_platform_metric_and_point():
    plain = json.loads(
        output_of("compare", "tour-2", "tour-1", "--json", "--benchmark", "sysbench-cpu")
    )
    assert plain["schema"] == "vtax.compare/1"
    assert plain["treatment"] == {
        "text": "tour-2",
        "run": "tour-2",
        "runs": ["tour-2"],
        "platform": "",
        "levels": {},
    }
    assert [each["platform"] for each in plain["contrasts"]] == ["native", "docker", "qemu-tcg"]
    assert [each["verdict"] for each in plain["contrasts"]] == [None] * 3
    assert {cell["label"] for cell in plain["unmatched"]["baseline"]} == {"sysbench-cpu"}


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_table_fits(store, width):
    text = drawn(document_of(contrast(store, "tour-2", "tour-1")), width)
    assert max(map(len, text.splitlines())) <= width
    assert sum(line.lstrip().startswith("docker ") for line in text.splitlines()) >= 2


def test_what_is_no_pair_of_runs_is_refused(capsys, golden):
    golden(
        refusals(
            capsys,
            "compare",
            "tour-1 docker",
            "tour-1:docker tour-2",
            "tour-2 last",
            "tour-1 tuor-2",
            "tour-1 dokcer",
            "tour-1 nope-1",
            "tour-1 zzz",
            "tour-1 tour-2:dokcer",
        )
    )


def one_cell(name: str, **changes: Any) -> None:
    """A run of native and iperf3 alone, sending, and of the CPU, with 4 blocks."""
    sent = next(cell for cell in cells() if cell.key == "s-native")
    cpu = next(cell for cell in cells() if cell.key == "c-native")
    run = a_run(name).platforms(PLATFORMS[0])
    run = run.having(host={"mitigations": changes.pop("mitigations", {})})
    run = run.cells([cpu, replace(sent, **changes)]).blocks(4)
    with Store.open(os.environ["VTAX_STORE"]) as opened:
        run.values(lambda cell, block, number: 1000.0 + block).stored(opened)


@pytest.fixture
def own_store(tmp_path: Path, use_store) -> None:
    use_store(tmp_path / "store.sqlite")


@pytest.mark.usefixtures("own_store")
def test_points_far_apart_have_units_of_their_own():
    chosen = [cell for cell in cells() if cell.key in ("s-native", "r-native")]
    for name in ("old-1", "new-1"):
        run = a_run(name).platforms(PLATFORMS[0]).cells(chosen).blocks(4)
        with Store.open(os.environ["VTAX_STORE"]) as opened:
            run.values(
                lambda cell, block, number: (block + 9) * (1000 if cell.key == "s-native" else 0.1)
            ).stored(opened)
    text = output_of("compare", "old-1", "new-1")
    assert "direction=send, Gbit/s" in text
    assert "direction=receive, Mbit/s" in text


@pytest.mark.slow
@pytest.mark.usefixtures("own_store")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"topology": "multi-nic"}, "topologies of iperf3 differ: point-to-point and multi-nic"),
        ({"link": {"mtu": 9000}}, "link of iperf3: mtu not set against 9000"),
        ({"link": {"offloads": False}}, "link of iperf3: offloads not set against false"),
        (
            {"parameters": {"direction": "send", "streams": 4}},
            "iperf3: streams not set against 4",
        ),
        (
            {"parameters": {"direction": "send", "length": 131072}},
            "iperf3: length not set against 128KiB",
        ),
    ],
)
def test_points_with_other_settings_are_not_compared(changes, reason):
    one_cell("old-1")
    one_cell("new-1", **changes)
    plain = json.loads(output_of("compare", "old-1", "new-1", "--json"))
    assert [each["label"] for each in plain["contrasts"]] == ["sysbench-cpu"]
    assert plain["family"] == 0
    (mismatch,) = plain["mismatched"]
    assert mismatch["treatment"]["cell"] == mismatch["baseline"]["cell"] == "s-native"
    assert mismatch["reasons"] == [reason]
    assert plain["unmatched"] == {"treatment": [], "baseline": []}
    assert "runs-differ" not in [each["code"] for each in plain["coded_warnings"]]
    text = " ".join(output_of("compare", "old-1", "new-1").split())
    assert f"Not compared: 1 cell, whose settings differ ({reason})." in text
    with pytest.raises(VtaxError, match="nothing to compare") as caught:
        CliRunner().invoke(
            group, ["compare", "old-1", "new-1", "--benchmark", "iperf3"], catch_exceptions=False
        )
    assert caught.value.where == reason


def test_facts_are_compared_as_people_read_them():
    facts = [
        {
            "memory_bytes": 6442450944,
            "cpu_emulated": True,
            "kernel_options": ["mitigations=off", "psi=1"],
        },
        {"memory_bytes": 2147483648, "cpu_emulated": False, "kernel_options": ["quiet"]},
    ]
    assert [english(_of_hosts(fact, *(host[fact] for host in facts))) for fact in facts[0]] == [
        "hosts differ in memory: 6 GiB and 2 GiB",
        "hosts differ in CPU is emulated: yes and no",
        "hosts differ in kernel options: mitigations=off, psi=1 and quiet",
    ]


@pytest.mark.usefixtures("own_store")
def test_facts_with_fields_differ_in_the_names_of_fields():
    one_cell("old-1", mitigations={"meltdown": "PTI", "spectre_v2": "IBRS", "mds": "clear"})
    one_cell("new-1", mitigations={"meltdown": "PTI", "spectre_v2": "off", "l1tf": "PTE"})
    text = " ".join(output_of("compare", "old-1", "new-1").split())
    assert "differ in mitigations: l1tf, mds, spectre_v2" in text
    assert "PTI" not in text
    one_cell("none-1", mitigations=None)
    text = " ".join(output_of("compare", "none-1", "new-1").split())
    assert "may differ in mitigations: one of the runs" in text


def _of_rule(store: Store, name: str, made: int, design: dict[str, Any]) -> None:
    """A run of native and the CPU alone, of as many blocks as were made."""
    run = a_run(name).platforms(PLATFORMS[0]).design(**{**DECLARED["design"], **design})
    run = run.cells([cell for cell in cells() if cell.key == "c-native"]).blocks(made)
    run.values(lambda cell, block, number: 1000.0 + block).stored(store)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            (8, {"blocks": 6, "sessions": 3}),
            (8, {"blocks": 8, "max_blocks": 9, "precision": 0.1}),
            set(),
        ),
        ((8, {"blocks": 8}), (5, {"blocks": 8}), {"numbers of blocks differ: 8 and 5"}),
        (
            (7, {"stop": "verdict", "blocks": 5, "max_blocks": 7}),
            (7, {"stop": "fixed", "blocks": 7, "margin": 0.05}),
            {"design: stop verdict against fixed", "design: margin 0.02 against 0.05"},
        ),
        (
            (7, {"stop": "verdict", "max_blocks": 7}),
            (7, {"stop": "verdict", "max_blocks": 9, "blocks": 3}),
            {"design: max blocks 7 against 9"},
        ),
        (
            (7, {"blocks": 7, "timeout": 60.0}),
            (7, {"blocks": 7, "timeout": 600.0}),
            {"design: timeout 1min against 10min"},
        ),
    ],
)
def test_designs_differ_in_what_their_rules_read_and_in_what_was_made(
    tmp_path, first, second, expected
):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        _of_rule(opened, "a-1", *first)
        _of_rule(opened, "b-1", *second)
        assert {english(text) for text in contrast(opened, "a-1", "b-1").warnings} == expected


def test_sizes_that_print_alike_are_no_difference_and_a_setting_without_value_is_none(store):
    one = analyse(store, "tour-1")
    budget = {**one.declared, "design": {**one.declared["design"], "budget": 420.0}}
    a = replace(one, host={"memory_bytes": 25_232_932_864})
    b = replace(one, host={"memory_bytes": 25_232_900_000}, declared=budget)
    a = replace(a, declared={**budget, "design": {**budget["design"], "budget": None}})
    found = [english(each) for each in differences(a, b, (), (), ())]
    assert found == ["design: budget none against 7min"]
    b = replace(b, host={"memory_bytes": 33_000_000_000})
    assert "memory: 23.5 GiB and 30.7 GiB" in " ".join(map(english, differences(a, b, (), (), ())))


def guests_of(**facts: str) -> tuple[GuestRow, ...]:
    """Guests of docker: one that did not start, and one with these facts."""
    dead, alive = (GuestRow("docker", block, "", 0.5, 0.0, {}, (), "") for block in (0, 1))
    return dead, replace(alive, facts=facts)


def test_guests_that_see_another_isolation_are_said_not_to_be_comparable(store):
    one = analyse(store, "tour-1")

    def said(treatment: tuple[GuestRow, ...], *platforms: str) -> list[str]:
        other = replace(one, guests=guests_of(seccomp_mode="2", capabilities="ff", uid_map="0 0"))
        run = replace(one, guests=treatment)
        return [english(each) for each in differences(run, other, platforms, (), ())]

    unlike = guests_of(seccomp_mode="0", capabilities="fff", no_new_privs="1", uid_map="0 9")
    assert said(unlike, "docker") == [
        "guests of docker are isolated by other means, and not comparable: "
        "capabilities, seccomp_mode differ"
    ]
    assert said(unlike, "native") == []
    assert said(guests_of(seccomp_mode="2", own_namespaces="none"), "docker") == []


def test_a_bundle_as_a_side_is_refused_with_the_way_to_compare_it(store):
    with pytest.raises(VtaxError) as refused:
        contrast(store, "t1.vtax.gz", "tour-1")
    assert str(refused.value.hint).startswith("vtax import t1.vtax.gz, and compare the run")
