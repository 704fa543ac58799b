"""Any factor as rows, columns and panels: the figures of the result, arranged anew. Figures here are invented."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from a_run import DECLARED, PLATFORMS, a_run, begin, cells, trial
from command_line import output_of, refusals
from shown import english

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report.analysis.source import source_of
from vtax.report.answers.pivot.compute import Axes
from vtax.report.answers.pivot.compute import pivot as analysis_pivot
from vtax.stats.intervals import mean_interval
from vtax.stats.ratio import paired_ratio
from vtax.store.records import CellRecord, UntestedRecord
from vtax.store.store import Store

BLOCKS = 6
MTUS = (500, 1500)
SIZES = (64, 1024)


def grid() -> list[CellRecord]:
    """iperf3 over two MTUs and two sizes, without two cells of lxc, beside sysbench on every platform."""
    found = [cell for cell in cells() if cell.benchmark == "sysbench-cpu"]
    for name in ("native", "docker", "lxc"):
        for mtu in MTUS:
            for size in SIZES:
                if (name, mtu) == ("lxc", 500):
                    continue
                found.append(
                    CellRecord(
                        f"{name[0]}{mtu}-{size}",
                        f"{mtu}-{size}",
                        name,
                        "iperf3",
                        "iperf3",
                        "3.18",
                        "point-to-point",
                        {"message_size": size, "protocol": "tcp", "window": None},
                        {"mtu": mtu, "queues": 1},
                        {"message_size": size, "link.mtu": mtu},
                    )
                )
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two sessions on two hosts. docker at 500 and 64 failed in every trial."""
    found = tmp_path_factory.mktemp("store") / "store.sqlite"
    noise = np.random.default_rng(1)
    hosts = ({"cpus": 2, "machine_id": "aaaaaaaaaaaa"}, {"cpus": 8, "machine_id": "bbbbbbbbbbbb"})
    untested = [
        UntestedRecord(
            "lxc",
            f"500-{size}",
            "iperf3",
            "iperf3",
            "point-to-point",
            {"message_size": size, "link.mtu": 500},
            "lxc cannot set this MTU",
        )
        for size in SIZES
    ]
    declared = {**DECLARED, "design": {**DECLARED["design"], "sessions": 2}}
    with Store.open(f"sqlite:///{found}") as store:
        run = begin(
            store, cells=grid(), host=hosts[0], untested=untested, declared=declared, boot_id="one"
        )
        position = 0
        for block in range(BLOCKS):
            if block == BLOCKS // 2:
                run.begin_session("two", hosts[1], 1.7e9 + 500)
            for cell in run.cells:
                fails = (cell.key, cell.point) == ("d500-64", "500-64")
                speed = {"native": 1.0, "docker": 0.9, "lxc": 0.95}.get(cell.platform, 0.2)
                value = (
                    speed * cell.levels.get("message_size", 100) * math.exp(noise.normal(0, 0.01))
                )
                name = "events" if cell.benchmark == "sysbench-cpu" else "throughput"
                values = {} if fails else {name: value}
                if name == "events":
                    values["latency"] = 1 / value
                run.add_trial(
                    trial(
                        cell,
                        block=block,
                        number=0,
                        position=position,
                        values=values,
                        status="failed" if fails else "ok",
                        error="connection refused" if fails else "",
                    )
                )
                position += 1
        run.finish("finished", "all blocks", 1.7e9 + 1000)
    return found


@pytest.fixture(autouse=True)
def store(file: Path, unmade_home: Path, use_store) -> None:
    use_store(file)


def pivot(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_of("show", *options, "--json"))
    return found


def values(found: dict[str, Any]) -> dict[tuple[str, str], float | None]:
    return {(cell["row"], cell["column"]): cell["value"] for cell in found["cells"]}


def result_row(platform: str, **levels: int) -> dict[str, Any]:
    result = json.loads(output_of("show", "--json"))
    wanted = {"message_size": levels["size"], "link.mtu": levels["mtu"]}
    (row,) = (
        row
        for section in result["results"]
        if section["metric"] == "throughput"
        for point in section["points"]
        if point["levels"] == wanted
        for row in point["rows"]
        if row["platform"] == platform
    )
    return dict(row)


@pytest.mark.slow
def test_figures_are_those_of_the_result():
    found = pivot(
        "--rows",
        "platform",
        "--cols",
        "message_size",
        "--where",
        "mtu=1500",
        "--metric",
        "throughput",
    )
    assert (found["rows"], found["columns"]) == (["native", "docker", "lxc"], ["64", "1024"])
    assert found["where"] == {"link.mtu": ["1500"]}
    row = result_row("docker", size=64, mtu=1500)
    (cell,) = (each for each in found["cells"] if (each["row"], each["column"]) == ("docker", "64"))
    expected = row["summary"]
    assert (cell["value"], cell["low"], cell["high"]) == (
        expected["mean"],
        expected["low"],
        expected["high"],
    )
    assert (cell["unit"], cell["blocks"], cell["verdict"]) == (
        "Mbit/s",
        BLOCKS,
        row["verdict"]["kind"],
    )
    ratios = pivot("--cols", "message_size", "--where", "mtu=1500", "--value", "efficiency")
    (cell,) = (
        each for each in ratios["cells"] if (each["row"], each["column"]) == ("docker", "64")
    )
    expected = row["efficiency"]
    assert (cell["value"], cell["low"], cell["high"]) == (
        expected["estimate"],
        expected["low"],
        expected["high"],
    )
    assert values(ratios)["native", "64"] == 1.0


@pytest.mark.slow
def test_any_recorded_factor_is_a_row_a_column_or_a_panel():
    found = pivot("--rows", "message_size", "--cols", "platform", "--panel", "link.mtu")
    assert (found["rows"], found["columns"], found["panels"]) == (
        ["64", "1024"],
        ["native", "docker", "lxc"],
        ["500", "1500"],
    )
    by_setting = pivot(
        "--rows",
        "protocol",
        "--cols",
        "queues",
        "--where",
        "platform=docker",
        "--where",
        "mtu=1500",
        "--where",
        "message_size=64",
    )
    assert values(by_setting) == {
        ("tcp", "1"): result_row("docker", size=64, mtu=1500)["summary"]["mean"]
    }
    by_metric = pivot(
        "--rows", "platform", "--cols", "metric", "--benchmark", "sysbench-cpu", "--all"
    )
    assert by_metric["columns"] == ["events", "latency"]
    assert by_metric["rows"] == ["native", "docker", "lxc", "qemu-tcg"]
    assert pivot("--cols", "benchmark", "--benchmark", "sysbench-cpu")["columns"] == [
        "sysbench-cpu"
    ]
    assert pivot("--cols", "topology", "--where", "mtu=1500", "--where", "message_size=64")[
        "columns"
    ] == ["point-to-point"]


ONE = ("--where", "mtu=1500", "--where", "message_size=64")


def test_a_part_of_the_run_has_the_mean_of_its_blocks_and_its_own_interval():
    whole = result_row("docker", size=64, mtu=1500)
    by_block = pivot("--cols", "block", *ONE)
    assert by_block["columns"] == [str(block + 1) for block in range(BLOCKS)]
    means = [values(by_block)["docker", block] for block in by_block["columns"]]
    assert means == pytest.approx(whole["block_means"])
    assert {cell["low"] for cell in by_block["cells"]} == {None}
    assert {cell["verdict"] for cell in by_block["cells"]} == {None}
    by_session = pivot("--cols", "session", *ONE)
    first = next(
        each for each in by_session["cells"] if (each["row"], each["column"]) == ("docker", "1")
    )
    expected = mean_interval(whole["block_means"][: BLOCKS // 2])
    assert [first["value"], first["low"], first["high"]] == pytest.approx(
        [expected.estimate, expected.low, expected.high]
    )
    by_host = pivot("--cols", "host", *ONE, "--value", "efficiency")
    assert by_host["columns"] == ["aaaaaaaa", "bbbbbbbb"]
    base = np.array(result_row("native", size=64, mtu=1500)["block_means"])
    logs = np.log(np.array(whole["block_means"]) / base)
    assert values(by_host)["docker", "aaaaaaaa"] == pytest.approx(
        math.exp(logs[: BLOCKS // 2].mean())
    )
    only = pivot("--cols", "block", *ONE, "--where", "session=2")
    assert only["columns"] == ["4", "5", "6"]


def logs(platform: str, size: int) -> Any:
    return np.log(np.array(result_row(platform, size=size, mtu=1500)["block_means"]))


def test_a_figure_as_percent_of_that_at_a_level_is_a_ratio_within_blocks():
    found = pivot("--to", "message_size=64", "--where", "mtu=1500", "--metric", "throughput")
    assert (found["factors"]["row"], found["factors"]["column"]) == ("platform", "message_size")
    assert found["to"] == {"message_size": ["64"]}
    (cell,) = (
        each for each in found["cells"] if (each["row"], each["column"]) == ("docker", "1024")
    )
    ratio = paired_ratio(*(np.exp(logs("docker", size)) for size in (1024, 64)))
    assert (cell["value"], cell["unit"], cell["blocks"]) == (
        pytest.approx(ratio.estimate),
        "",
        BLOCKS,
    )
    assert cell["low"] < ratio.estimate < cell["high"]
    assert cell["verdict"] is None
    assert {values(found)[name, "64"] for name in ("native", "docker", "lxc")} == {1.0}


def test_a_percent_of_the_baseline_as_percent_of_that_at_a_level_is_a_ratio_of_ratios():
    """Whether a factor changes what a platform costs: the difference of two differences of logarithms."""
    found = pivot("--to", "message_size=64", "--where", "mtu=1500", "--value", "efficiency")
    (cell,) = (
        each for each in found["cells"] if (each["row"], each["column"]) == ("docker", "1024")
    )
    change = (logs("docker", 1024) - logs("native", 1024)) - (
        logs("docker", 64) - logs("native", 64)
    )
    assert cell["value"] == pytest.approx(math.exp(change.mean()))
    assert cell["low"] < 1 < cell["high"]
    assert values(found)["native", "1024"] == 1.0
    one = pivot(
        "--to",
        "message_size=64",
        "--where",
        "mtu=1500",
        "--value",
        "efficiency",
        "--panel",
        "block",
        "--cols",
        "message_size",
    )
    third = {(each["panel"], each["row"], each["column"]): each["value"] for each in one["cells"]}
    assert third["3", "docker", "1024"] == pytest.approx(math.exp(change[2]))


def test_to_a_platform_is_as_the_result_has_it():
    """Whatever is the baseline of the run, another platform can be 100 %."""
    here = ("--cols", "message_size", "--where", "mtu=1500")
    wanted, found = pivot(*here, "--value", "efficiency"), pivot(*here, "--to", "platform=native")
    for each in wanted["cells"]:
        (other,) = (
            cell
            for cell in found["cells"]
            if (cell["row"], cell["column"]) == (each["row"], each["column"])
        )
        assert [other[key] for key in ("value", "low", "high")] == [
            each[key] for key in ("value", "low", "high")
        ]
    assert values(pivot(*here, "--to", "platform=docker"))["docker", "64"] == 1.0


def test_a_figure_without_one_at_the_level_says_so():
    found = pivot("--to", "link.mtu=500", "--where", "message_size=64", "--metric", "throughput")
    cells = {(cell["row"], cell["column"]): cell for cell in found["cells"]}
    assert cells["native", "1500"]["value"] > 0
    assert (cells["docker", "1500"]["value"], cells["lxc", "1500"]["value"]) == (None, None)
    assert cells["docker", "1500"]["reason"] == "no ratio to a value at the level that is 100 %"


def test_trials_without_single_values_have_no_percentiles():
    found = pivot("--cols", "message_size", "--where", "mtu=1500", "--value", "p50")
    assert {cell["value"] for cell in found["cells"]} == {None}
    assert {cell["reason"] for cell in found["cells"]} == {"its trials hold one value each"}


def test_a_place_without_a_figure_says_why():
    found = pivot("--cols", "link.mtu", "--where", "message_size=64", "--metric", "throughput")
    cells = {(cell["row"], cell["column"]): cell for cell in found["cells"]}
    assert cells["docker", "500"]["value"] is None
    assert "no trial" in cells["docker", "500"]["reason"]
    assert cells["lxc", "500"]["reason"] == "lxc cannot set this MTU"
    assert len(cells) == 6


@pytest.mark.slow
def test_what_is_no_table_by_factors_is_refused_with_what_there_is(capsys, golden):
    golden(
        refusals(
            capsys,
            "show",
            "--cols colour",
            "--cols mtu --metric speed",
            "--cols message_size --where mtu=9000",
            "--cols mtu --where x",
            "--rows mtu --cols link.mtu",
            "--cols message_size",
            "--rows platform --panel topology --metric throughput",
            "--rows platform",
            "--rows platform --benchmark sysbench-cpu --all",
            "--cols mtu --metric latency",
            "--metric throughput",
            "--value efficiency",
            "--cols mtu --variance",
            "--cols mtu --raw",
            "--to mtu",
            "--to mtu=9000",
            "--to metric=throughput",
            "--to block=1",
        )
    )


def test_a_terminal_shows_what_the_figures_are_and_their_warnings(golden, set_locale):
    golden(
        output_of("show", "--cols", "message_size", "--where", "mtu=1500", "--value", "efficiency"),
        "percents",
    )
    golden(output_of("show", "--cols", "session", *ONE), "sessions")
    golden(
        output_of(
            "show", "--to", "message_size=64", "--where", "mtu=1500", "--value", "efficiency"
        ),
        "to a level",
    )
    golden(output_of("show", "--cols", "link.mtu", "--where", "message_size=64"), "no figure")
    set_locale("pt_BR")
    assert "colunas: message_size" in output_of(
        "show", "--cols", "message_size", "--where", "mtu=1500"
    )


def test_every_platform_of_the_run_keeps_its_order():
    order = [platform.name for platform in PLATFORMS if platform.available]
    assert pivot("--rows", "platform", "--benchmark", "sysbench-cpu")["rows"] == order


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two benchmarks with sizes of their own, the largest first; both have 10, which one writes as 10.0."""
    built = a_run().platforms("native", "docker").blocks(5)
    built = built.benchmark("iperf3", "TCP small", levels={"size": (512, 64, 10)})
    built = built.benchmark("iperf3", "UDP small", levels={"size": (1024, 10.0)}).ending("")

    def speed(cell: CellRecord, block: int, number: int) -> float:
        noise = 1 + 0.01 * ((block * 7 + len(cell.key)) % 5)
        return noise if cell.platform == "native" else 0.9 * noise

    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('uneven') / 'store.sqlite'}") as store:
        run = built.values(speed).stored(store)
        for busy, cell in zip((0.1, 0.9), (run.cells[0], run.cells[3]), strict=True):
            run.add_warning(Note("host-busy", cpus=busy), cell.key)
        run.finish("finished", "", 2.0)
        yield store


def test_levels_that_are_numbers_ascend_and_are_one_however_they_are_written(uneven):
    found = analysis_pivot(
        source_of(uneven, "tour-1"), Axes("size", "platform", "benchmark"), "efficiency"
    )
    assert found.rows == ("10", "64", "512", "1024")
    assert found.rows_of("TCP small") == ("10", "64", "512")
    assert found.rows_of("UDP small") == ("10", "1024")
    assert found.empty == {}


def test_the_hint_for_several_figures_can_be_typed(uneven):
    with pytest.raises(BadInput) as refused:
        analysis_pivot(source_of(uneven, "tour-1"), Axes("platform", "size"), "mean")
    assert "--benchmark 'TCP small'" in refused.value.hint


def test_warnings_are_of_the_figures_that_are_shown(uneven):
    source = source_of(uneven, "tour-1")
    busy = [each for each in source.analysis.warnings if each.code == "host-busy"]
    assert [(each.times, len(each.places)) for each in busy] == [(2, 2)]
    shown = analysis_pivot(source, Axes("size", "platform"), "mean", where=["benchmark=UDP small"])
    (one,) = [each for each in shown.warnings if each.code == "host-busy"]
    assert [place.subject for place in one.places] == ["UDP small"]
    assert one.times == 1
    said = english(one.text)
    assert "0.9" in said
    assert "0.1" not in said
