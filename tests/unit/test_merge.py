"""`vtax merge`: runs of one study as one run of several sessions, and what is refused."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from a_run import DECLARED, PLATFORMS, begin, cells, fill, trial
from click.testing import CliRunner
from command_line import output_of

from vtax.cli.main import group
from vtax.host.home import Home
from vtax.messages import Note
from vtax.report.analysis.source import source_of
from vtax.report.measurements import tidy
from vtax.runner.resume import resume_obstacle
from vtax.stats.ratio import log_ratios
from vtax.stats.sessions import ratio_over_sessions
from vtax.store import schema
from vtax.store.database import reading
from vtax.store.hosts import cloned, host_id, shared_machines
from vtax.store.query import (
    RunData,
    block_counters,
    counters,
    effective,
    in_order,
    load,
    outputs,
)
from vtax.store.rows import checked
from vtax.store.store import Store

pytestmark = pytest.mark.slow

HOSTS = (
    {"cpus": 2, "machine_id": "aaaaaaaaaaaa", "kernel": "6.1"},
    {"cpus": 8, "machine_id": "bbbbbbbbbbbb"},
)
BLOCKS = (3, 2, 3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three runs of one study: two of one host, one of another."""
    file = tmp_path_factory.mktemp("store") / "store.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        for number, host in enumerate((HOSTS[0], HOSTS[1], HOSTS[0]), start=1):
            run = begin(
                store,
                f"tour-{number}",
                host=host,
                started_at=1.7e9 + number,
                boot_id=f"boot-{number}",
            )
            before = {"block": -1, "is_warmup": True, "position": 0}
            note = Note("clock-rate", rate=float(number), error=0.0, margin=0.02)
            run.add_trial(trial(cells()[0], **before, warnings=(note,)))
            fill(run, blocks=BLOCKS[number - 1], trials=1, warmup=0, seed=number)
    return file


@pytest.fixture
def store(whole: Path, private_home: Home) -> Store:
    shutil.copy(whole, private_home.root / "store.sqlite")
    return Store.open(private_home.store_url)


refusal = partial(command_line.refusal, "merge")


def merge(*runs: str) -> Any:
    return json.loads(
        CliRunner().invoke(group, ["merge", *runs, "--json"], catch_exceptions=False).stdout
    )


def test_all_trials_are_there_in_sessions_of_their_own(store):
    merged = merge("tour-1", "tour-2", "tour-3")["run"]
    assert merged == "tour-merged-1"
    found, parts = (
        load(store.engine, store.open_run(merged)),
        [load(store.engine, store.open_run(f"tour-{n}")) for n in (1, 2, 3)],
    )
    assert found.trials.id.size == sum(part.trials.id.size for part in parts)
    measured = found.trials.block >= 0
    pairs = zip(
        found.trials.session[measured].tolist(), found.trials.block[measured].tolist(), strict=True
    )
    assert sorted({*pairs}) == [
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 3),
        (2, 4),
        (3, 5),
        (3, 6),
        (3, 7),
    ]
    assert np.unique(found.trials.position).size == found.trials.id.size
    for number, part in enumerate(parts, start=1):
        own = found.measurements.value[found.trials.session[found.measurements.trial] == number]
        assert own.tolist() == part.measurements.value.tolist()
    assert len(found.guests) == sum(len(part.guests) for part in parts)
    assert {w.note.data.get("rate") for w in found.warnings} >= {1.0, 2.0, 3.0}
    count = len(outputs(store.engine, store.open_run(merged)))
    assert count == sum(len(outputs(store.engine, part.run)) for part in parts)


def test_intervals_are_those_of_several_sessions(store):
    merge("tour-1", "tour-2", "tour-3")
    analyses = [
        source_of(store, name).analysis for name in ("tour-1", "tour-2", "tour-3", "tour-merged-1")
    ]
    logs: list[float] = []
    for analysis in analyses[:3]:
        rows = {row.platform.name: row for row in analysis.primary[0].points[0].rows}
        logs += log_ratios(rows["docker"].block_means, rows["native"].block_means).tolist()
    wanted = ratio_over_sessions(logs, [(1, 1)] * 3 + [(2, 2)] * 2 + [(1, 3)] * 3)
    (ratio,) = (
        r.ratio for r in analyses[3].primary[0].points[0].rows if r.platform.name == "docker"
    )
    assert (ratio.n_hosts, ratio.n_sessions) == (2, 3)
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx(
        (wanted.estimate, wanted.low, wanted.high)
    )


def test_hosts_are_shown_apart_and_every_difference_is_listed(store):
    made = merge("tour-1", "tour-2", "tour-3")
    shown = made["sessions"]
    assert {change["fact"]: change["values"] for change in shown["host_changes"]}["machine id"] == [
        "aaaaaaaaaaaa",
        "bbbbbbbbbbbb",
        "aaaaaaaaaaaa",
    ]
    first, second = sorted(made["hosts"]["hosts"], key=lambda host: host["sessions"])
    assert (first["sessions"], second["sessions"]) == ([1, 3], [2])
    rows = {
        row.platform.name: row
        for row in source_of(store, "tour-2").analysis.primary[0].points[0].rows
    }
    alone = rows["docker"].ratio
    docker = next(each for each in second["ratios"] if each["platform"] == "docker")
    assert docker["estimate"] == pytest.approx(alone.estimate)
    assert docker["blocks"] == BLOCKS[1]
    assert first["ratios"][0]["sessions"] == 2
    assert "of each host" in output_of("show", "tour-merged-1", "--hosts")
    printed = output_of("show", "tour-merged-1", "--sessions")
    for estimand in ("hosts like", "these hosts", "next host", "share of"):
        assert estimand in printed
    assert (
        "3 sessions on 2 hosts: intervals are over hosts, and hold for hosts like these" in printed
    )
    of_docker = next(each for each in shown["ratios"] if each["platform"] == "docker")
    assert [each["unit"] for each in of_docker["nesting"]] == ["host", "session", "block"]
    assert sum(each["share"] for each in of_docker["nesting"]) == pytest.approx(1)
    for each in of_docker["nesting"]:
        low, high = of_docker["shares"][each["unit"]]
        assert low <= each["share"] <= high
    these = of_docker["of_these_hosts"]
    assert of_docker["low"] <= these["low"] < these["high"] <= of_docker["high"]


def test_groups_of_hosts_are_compared_over_hosts(store):
    for number, kernel in enumerate(("6.1", "6.1", "6.6", "6.6"), start=4):
        host = {"cpus": 2, "machine_id": f"{number:012x}", "kernel": kernel, "cpu_model": "A CPU"}
        run = begin(store, f"tour-{number}", host=host, started_at=1.7e9 + number)
        fill(run, blocks=3, trials=1, warmup=0, seed=number)
    shown = merge("tour-4", "tour-5", "tour-6", "tour-7")["hosts"]
    assert [(each["kernel"], each["hosts"], each["sessions"]) for each in shown["groups"]] == [
        ("6.1", 2, [1, 2]),
        ("6.6", 2, [3, 4]),
    ]
    of_docker = [each for each in shown["ratios_of_groups"] if each["platform"] == "docker"]
    first, second = of_docker[:2]
    assert (first["group"], first["relative"], second["group"]) == (1, None, 2)
    assert second["relative"]["estimate"] == pytest.approx(
        second["ratio"]["estimate"] / first["ratio"]["estimate"]
    )
    assert (second["ratio"]["n_hosts"], second["relative"]["n_hosts"]) == (2, 2)
    assert second["p_value"] >= second["relative"]["p_value"]
    assert "groups of hosts" in output_of("show", "tour-merged-1", "--hosts")


def test_every_view_works_and_the_run_is_marked(store, tmp_path):
    merge("tour-2", "tour-1")
    for view in (
        "--audit",
        "--variance",
        "--counters",
        "--trials",
        "--guests",
        "--raw",
    ):
        assert (
            json.loads(output_of("show", "tour-merged-1", view, "--json"))["run"] == "tour-merged-1"
        )
    assert "merged from tour-1, tour-2" in output_of("show", "tour-merged-1")
    output_of("report", "tour-merged-1", "-o", str(tmp_path / "r.html"))
    assert {run.name: run.origin for run in store.runs()}["tour-merged-1"] == "merged"
    assert resume_obstacle(store, "tour-merged-1", Home.from_environment()) == "it was merged"
    found = json.loads(output_of("show", "tour-merged-1", "--json"))
    assert math.isclose(found["blocks"], BLOCKS[0] + BLOCKS[1])
    assert found["planned_sessions"] == 2


def test_a_merged_run_travels_and_merges_with_others(store, tmp_path):
    merge("tour-1", "tour-2")
    file = str(tmp_path / "x.gz")
    output_of("export", "tour-merged-1", "-o", file)
    assert "is this run already" in output_of("import", file)  # with the content of its rows
    store.remove_runs("tour-merged-1")
    assert "tour-merged-1 was imported" in output_of("import", file)
    assert store.runs()[1].origin.startswith("merged, imported")
    assert merge("tour-merged-1", "tour-3")["run"] == "tour-merged-2"
    assert len(store.open_run("tour-merged-2").sessions) == 3
    assert "sessions in common" in refusal("tour-merged-2", "tour-2").what


def numbers_of(data: RunData) -> list[list[float]]:
    """Cell, metric and value of every measurement, and where its trial stands in the run."""
    trials, measured = data.trials, data.measurements
    columns = (trials.session, trials.block, trials.number, trials.position, trials.cell)
    found = [each[measured.trial].tolist() for each in columns]
    return [*found, measured.metric.tolist(), measured.value.tolist()]


def test_a_merged_run_of_a_merged_one_has_the_trials_of_all_and_outlives_it(store):
    merge("tour-1", "tour-2")
    merge("tour-merged-1", "tour-3")
    nested = load(store.engine, store.open_run("tour-merged-2"))
    store.remove_runs("tour-merged-1")
    again = load(store.engine, store.open_run("tour-merged-2"))
    assert numbers_of(again) == numbers_of(nested)
    assert again.warnings == nested.warnings
    store.remove_runs("tour-merged-2")
    merge("tour-1", "tour-2", "tour-3")
    assert numbers_of(load(store.engine, store.open_run("tour-merged-1"))) == numbers_of(nested)


def test_counters_of_a_merged_run_are_those_of_its_runs_block_after_block(store):
    merge("tour-1", "tour-2", "tour-3")
    runs = [store.open_run(name) for name in ("tour-1", "tour-2", "tour-3")]
    merged = store.open_run("tour-merged-1")
    parts = [block_counters(store.engine, run, [0, 1]) for run in runs]
    for key, (blocks, means, _) in block_counters(store.engine, merged, [0, 1]).items():
        assert blocks.tolist() == list(range(sum(BLOCKS)))
        assert means.tolist() == [mean for part in parts for mean in part[key][1].tolist()]
    means = counters(store.engine, merged)
    assert means.keys() == counters(store.engine, runs[0]).keys()
    for key, (mean, count) in means.items():
        own = [counters(store.engine, run)[key] for run in runs]
        assert count == sum(each[1] for each in own)
        assert mean == pytest.approx(sum(each[0] * each[1] for each in own) / count)


def test_the_sql_view_has_a_merged_run_as_its_export_has_it(store, tmp_path):
    merge("tour-1", "tour-2", "tour-3")
    output_of("export", "tour-merged-1", "--format", "csv", "-o", str(tmp_path / "x.csv"))
    names = ("session", "block", "number", "position", "platform", "cell", "metric")
    with (tmp_path / "x.csv").open() as file:
        exported = {tuple(row[name] for name in names): row for row in csv.DictReader(file)}
    query = f"SELECT {', '.join(names)}, value FROM measurements WHERE run = 'tour-merged-1'"
    with reading(store.engine) as connection:
        rows = connection.exec_driver_sql(query).all()
    assert len(rows) == len(exported)
    for *place, value in rows:
        row = exported[tuple("" if each is None else str(each) for each in place)]
        assert value == (float(row["value"]) if row["value"] else None)


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_trials_in_parts_are_those_of_the_whole_run_in_the_order_they_happened(store, at_once):
    merge("tour-1", "tour-2", "tour-3")
    run = store.open_run("tour-merged-1")
    whole = tidy(load(store.engine, run), effective(store.engine, run)).to_pylist()
    parts = list(in_order(store.engine, run, at_once))
    assert len(parts) == math.ceil(load(store.engine, run).trials.id.size / at_once)
    rows = [row for part in starmap(tidy, parts) for row in part.to_pylist()]
    assert rows == whole


def test_a_run_without_trials_has_one_part_without_a_row(store):
    run = begin(store, "empty-1")
    ((data, settings),) = in_order(store.engine, run)
    assert tidy(data, settings).num_rows == 0


def test_a_run_that_others_are_made_of_goes_on_no_more(store, taken_for_root):
    merge("tour-1", "tour-2")
    for how in (["--session"], ["--budget", "1h"]):
        error = command_line.refusal("resume", "tour-1", *how)
        assert error.what == "tour-1 cannot be resumed: it is part of tour-merged-1"
        assert error.hint == "vtax remove tour-merged-1 first; vtax merge makes it again"
    assert "tour-merged-1" in command_line.refusal("remove", "tour-1", "--yes").what
    output_of("remove", "tour-1", "tour-merged-1", "--yes")
    assert [run.name for run in store.runs()] == ["tour-2", "tour-3"]


def test_a_platform_that_one_host_lacks_is_tested_where_the_other_has_it(store):
    lacking = tuple(replace(p, available=p.available and p.name != "lxc") for p in PLATFORMS)
    run = begin(
        store,
        "tour-9",
        host=HOSTS[1],
        started_at=1.7e9 + 9,
        platforms=lacking,
        cells=[cell for cell in cells() if cell.platform != "lxc"],
    )
    run.finish("finished", "", 1.7e9 + 10)
    merge("tour-1", "tour-9")
    merged = store.open_run("tour-merged-1")
    assert {p.name: p.available for p in merged.platforms}["lxc"]
    assert len(merged.cells) == len(cells())


def test_merging_twice_or_one_run_is_refused(store):
    merge("tour-1", "tour-2")
    assert refusal("tour-2", "tour-1").what.endswith("merged already: tour-merged-1")
    assert "two runs or more" in refusal("tour-1", "tour-1").what
    assert "no run 'tour-7'" in refusal("tour-1", "tour-7").what


def test_adding_a_host_after_its_result_was_known_is_a_warning_that_travels(store, tmp_path):
    merge("tour-1", "tour-2")
    assert "merged-again" not in {
        each.code for each in load(store.engine, store.open_run("tour-merged-1")).warnings
    }
    result = CliRunner().invoke(
        group, ["merge", "tour-1", "tour-2", "tour-3"], catch_exceptions=False
    )
    says = "some of these runs were merged before, as tour-merged-1"
    assert f"warning: {says}" in result.stderr
    output_of("export", "tour-merged-2", "-o", str(tmp_path / "x.gz"))
    store.remove_runs("tour-merged-2")
    output_of("import", str(tmp_path / "x.gz"))
    found = json.loads(output_of("show", "tour-merged-2", "--json"))["warnings"]
    assert [each["text"][: len(says)] for each in found if each["code"] == "merged-again"] == [says]


@pytest.mark.parametrize("later", [("tour-1", "tour-3"), ("tour-merged-1", "tour-3")])
def test_leaving_a_run_out_and_adding_to_a_merged_run_are_looks_too(store, later):
    merge("tour-1", "tour-2")
    merge(*later)
    assert "merged-again" in {
        each.code for each in load(store.engine, store.open_run("tour-merged-2")).warnings
    }


def test_claims_compare_the_hosts_of_a_merged_run(private_home):
    """Four runs on two hosts, alternately, as the two environments of ufla2010: efficiencies are alike on both."""
    check = {
        "kind": "interaction",
        "of": "docker@host=1",
        "to": "docker@host=2",
        "reference": "native",
        "benchmark": "sysbench-cpu",
        "above": 0.9,
        "below": 1.1,
    }
    finding = {
        "id": "alike",
        "statement": "Alike.",
        "statement_pt": "Iguais.",
        "source": "test",
        "check": [check],
    }
    with Store.open(private_home.store_url) as store:
        for number in range(1, 5):
            run = begin(
                store,
                f"tour-{number}",
                host=HOSTS[number % 2],
                started_at=1.7e9 + number,
                boot_id=f"boot-{number}",
                declared={**DECLARED, "claim": [finding]},
            )
            fill(run, blocks=6, trials=1, warmup=0, seed=number)
    merge("tour-1", "tour-2")
    (one_each,) = json.loads(output_of("claims", "tour-merged-1", "--json"))["claims"]
    assert (one_each["judgement"], one_each["why"]) == (
        "inconclusive",
        Note("one-session"),
    )
    merge("tour-1", "tour-2", "tour-3", "tour-4")
    (two_each,) = json.loads(output_of("claims", "tour-merged-2", "--json"))["claims"]
    assert two_each["judgement"] == "reproduced"
    (compared,) = two_each["comparisons"]
    assert (compared["of"], compared["to"]) == ("docker@host=1", "docker@host=2")
    (alone,) = json.loads(output_of("claims", "tour-1", "--json"))["claims"]
    assert alone["judgement"] == "not tested"


DESIGN = DECLARED["design"]
DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "study": ({"study": "disks"}, "tour-1 is of the study tour, and other-1 of disks"),
    "image": ({"image_key": "0123456789ab"}, "image 4f1d0c77aa31 and 0123456789ab"),
    "agent": ({"vtax_version": "0.2.0"}, "agent (version of vtax) 0.1.0 and 0.2.0"),
    "trials": (
        {"declared": {**DECLARED, "design": {**DESIGN, "trials": 9}}},
        "design.trials: 2 and 9",
    ),
    "memory": ({"declared": {**DECLARED, "guest": {"vcpus": 2}}}, "guest.vcpus: 1 and 2"),
    "platforms": (
        {"platforms": PLATFORMS[:3], "cells": cells()[:3]},
        "platforms: only in tour-1: qemu-tcg",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_refused_with_the_difference(what, store):
    changes, says = DIFFERENT[what]
    begin(store, "other-1", started_at=1.7e9 + 9, **changes).finish("finished", "", 1.7e9 + 10)
    error = refusal("tour-1", "other-1")
    assert what == "study" or error.what.startswith("tour-1 and other-1 cannot be merged: \n  - ")
    assert says in error.what
    assert len(store.runs()) == 4


COPIES = (
    {"machine_id": "aaaaaaaaaaaa", "hardware_id": "111111111111"},
    {"machine_id": "aaaaaaaaaaaa", "hardware_id": "222222222222"},
)


def test_a_copy_of_a_host_is_refused_with_what_makes_it_a_host_of_its_own(store, golden):
    for number, host in enumerate(COPIES, 5):
        begin(store, f"tour-{number}", host=host).finish("finished", "", 1.7e9 + 10)
    error = refusal("tour-5", "tour-6")
    golden(str(error))
    assert "rm /etc/machine-id; systemd-machine-id-setup" in error.hint


def test_a_machine_whose_hardware_only_one_run_knows_may_be_two(store, golden):
    for number, host in enumerate(
        (COPIES[0], {"machine_id": "aaaaaaaaaaaa"}, {"machine_id": "bbbbbbbbbbbb"}), 5
    ):
        begin(store, f"tour-{number}", host=host).finish("finished", "", 1.7e9 + 10)
    golden(str(refusal("tour-5", "tour-6")))
    merge("tour-5", "tour-7")


def test_images_of_other_files_are_refused_and_unknown_ones_a_warning(store):
    for number, digest in enumerate(("d" * 64, "e" * 64, "d" * 64), 5):
        host = {**HOSTS[number % 2], "image_digest": digest}
        begin(store, f"tour-{number}", host=host).finish("finished", "", 1.7e9 + 10)
    error = refusal("tour-5", "tour-6")
    assert "tour-5 dddddddddddd, tour-6 eeeeeeeeeeee" in error.what
    assert "vtax image export" in error.hint
    merge("tour-5", "tour-7")
    merge("tour-5", "tour-1")
    warned = [
        load(store.engine, store.open_run(f"tour-merged-{number}")).warnings for number in (1, 2)
    ]
    assert [
        [each.note.data for each in found if each.code == "image-unknown"] for found in warned
    ] == [
        [],
        [{"runs": ("tour-1",)}],
    ]


def test_a_host_is_its_machine_id_and_its_hardware():
    first, copy = map(host_id, COPIES)
    assert first != copy
    assert host_id({"machine_id": "aaaaaaaaaaaa"}) == "aaaaaaaaaaaa"
    assert host_id({"cpus": 2}) == ""


def measured_with(*machines: tuple[str, str]) -> list[dict[str, object]]:
    """Facts of hosts, each with the machine at the other end of its links."""
    return [{"machine_id": host, "peers": {"lab": peer, "fast": peer}} for host, peer in machines]


@pytest.mark.parametrize(
    ("hosts", "shared"),
    [
        ([("a", "x"), ("b", "y")], ()),
        ([("a", "x"), ("b", "x")], ()),
        ([("a", "x"), ("a", "y")], ()),
        ([("a", "x"), ("b", "x"), ("c", "y")], ("x",)),
        ([("a", "b"), ("b", "a")], ("a", "b")),
        ([("a", "b"), ("b", "x")], ("b",)),
    ],
)
def test_hosts_are_independent_with_one_other_machine_or_each_with_its_own(hosts, shared):
    assert shared_machines(measured_with(*hosts)) == shared


def test_hosts_that_measured_with_each_other_are_not_merged(store):
    machines = (("aaaaaaaaaaaa", "bbbbbbbbbbbb"), ("bbbbbbbbbbbb", "aaaaaaaaaaaa"))
    for number, host in enumerate(measured_with(*machines), 5):
        begin(store, f"tour-{number}", host=host).finish("finished", "", 1.7e9 + 10)
    assert "aaaaaaaaaaaa" in refusal("tour-5", "tour-6").what


def test_machine_ids_with_two_kinds_of_hardware_are_copies():
    assert cloned([*COPIES, {"machine_id": "b", "hardware_id": "1"}]) == ("aaaaaaaaaaaa",)
    assert cloned([COPIES[0], {"machine_id": "aaaaaaaaaaaa"}, {}]) == ()


def test_a_number_of_blocks_may_differ_a_rule_without_sessions_may_not(store):
    longer = {**DECLARED, "design": {**DESIGN, "blocks": 99}}
    begin(store, "tour-8", started_at=1.7e9 + 9, declared=longer).finish("finished", "", 1.7e9 + 10)
    merge("tour-1", "tour-8")
    assert store.open_run("tour-merged-1").declared["design"]["blocks"] == DESIGN["blocks"] + 99
    verdict = {**DECLARED, "design": {**DESIGN, "stop": "verdict"}}
    for number in (5, 6):
        begin(store, f"other-{number}", declared=verdict).finish("finished", "", 1.7e9 + 10)
    assert "stop = 'verdict'" in refusal("other-5", "other-6").what


def test_a_setting_that_is_none_is_as_one_that_is_not_there(store):
    begin(store, "tour-n", started_at=1.7e9 + 9, declared={**DECLARED, "tune_host": None}).finish(
        "finished", "", 1.7e9 + 10
    )
    merge("tour-1", "tour-n")


def test_lists_of_words_that_differ_are_named_by_what_is_in_one_alone(store, golden):
    for name, tuning in (("a", ["default"]), ("b", ["default", "pinned"])):
        begin(
            store, f"tour-{name}", started_at=1.7e9 + 9, declared={**DECLARED, "tuning": tuning}
        ).finish("finished", "", 1.7e9 + 10)
    golden(str(refusal("tour-a", "tour-b")))


def test_a_table_that_differs_is_named_and_a_scales_words_are_not_compared(store, golden):
    changed = [{**each, "parameters": {"duration_s": 9}} for each in DECLARED["benchmark"]]
    for name, declared in (
        ("a", {"benchmark": changed}),
        ("b", {"changed_by": [{"option": "--scale quick", "parts": []}]}),
    ):
        begin(
            store, f"tour-{name}", started_at=1.7e9 + 9, declared={**DECLARED, **declared}
        ).finish("finished", "", 1.7e9 + 10)
    what = refusal("tour-1", "tour-a").what
    assert re.search(r"\n  - benchmark\.[\w-]+\.parameters", what)
    assert all(len(line) < 120 for line in what.splitlines())
    merge("tour-1", "tour-b")
    golden(str(refusal("tour-1", "tour-1")))


def test_a_run_that_is_not_finished_is_refused(store):
    begin(store, "tour-7").finish("interrupted", "", 1.7e9 + 10)
    error = refusal("tour-1", "tour-7")
    assert (error.what, error.hint) == (
        "tour-7 is not finished: interrupted",
        "sudo vtax resume tour-7",
    )


def test_a_run_merged_of_thousands_knows_them_all():
    runs = [
        {"name": f"tour-{n}", "identity": f"{n:032x}", "sessions": [n], "versions": {"lxc": "5"}}
        for n in range(3000)
    ]
    assert (
        checked(schema.run.c.provenance, {"merged": {"at": 1.0, "runs": runs}})["merged"]["runs"]
        == runs
    )


def test_files_of_programs_may_be_elsewhere_on_each_host(store):
    for name, place in (("a", "/root/packs/ab/study"), ("b", "/srv/packs/ab/study")):
        program = {"name": "mine", "files": [f"{place}/load.sh"]}
        begin(
            store, f"tour-{name}", started_at=1.7e9 + 9, declared={**DECLARED, "program": [program]}
        ).finish("finished", "", 1.7e9 + 10)
    merge("tour-a", "tour-b")
    other = {"name": "mine", "files": ["/srv/other.sh"]}
    begin(store, "tour-c", started_at=1.7e9 + 9, declared={**DECLARED, "program": [other]}).finish(
        "finished", "", 1.7e9 + 10
    )
    assert "program.mine.files" in refusal("tour-a", "tour-c").what
