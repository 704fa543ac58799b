"""A report has a chapter for every view that has something to show for the run. Figures here are invented."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from a_run import begin, cells, fill, trial
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.report.analysis.source import Source, source_of
from vtax.report.chapters import report
from vtax.report.document import Titled
from vtax.report.renderers.markdown import markdown

LINK = {
    f"link.guest.eth0.{name}": 5.0
    for name in (
        "rx_packets",
        "rx_bytes",
        "tx_packets",
        "tx_bytes",
        "rx_drops",
        "tx_drops",
        "rx_errors",
        "tx_errors",
    )
}
COUNTED = {**LINK, "link.under_test.bytes": 2e9, "layer.host_cpu_s": 3.0}


def chapters(source: Source) -> list[str]:
    return [part.key for part in report(source).parts if isinstance(part, Titled)]


def test_a_run_with_blocks_and_a_network_has_them_all(store):
    fill(run := begin(store))
    counters = {tuple(name.split(".", 1)): value for name, value in COUNTED.items()}
    run.reopen()
    for cell in (cell for cell in run.cells if cell.benchmark == "iperf3"):
        run.add_trial(
            trial(
                cell,
                block=9,
                position=run.next_position(),
                values={"throughput": 1.0},
                counters=counters,
            )
        )
    source = source_of(store)
    assert chapters(source) == [
        "answer",
        "results",
        "variance",
        "counters",
        "explain",
        "warnings",
        "guests",
        "audit",
        "host",
        "method",
        "reproduce",
    ]
    text = markdown(report(source))
    for shown in (
        "| guest.eth0 |",
        "half-width, and the plan for ",
    ):
        assert shown in text


def test_one_block_without_network_leaves_those_chapters_out(store):
    run = begin(store, cells=[cell for cell in cells() if cell.benchmark == "sysbench-cpu"])
    for position, cell in enumerate(run.cells):
        run.add_trial(trial(cell, position=position))
    assert set(chapters(source_of(store))).isdisjoint({"variance", "counters"})


def invoke(arguments: Sequence[str]) -> str:
    found = CliRunner().invoke(group, list(arguments))
    assert found.exit_code == 0, found.output
    return found.output


def test_several_runs_are_chapters_of_one_file(store, tmp_path, set_locale):
    set_locale("pt_BR")
    fill(begin(store))
    fill(begin(store, "tour-2"), seed=2)
    page = tmp_path / "both.html"
    invoke(["report", "tour-2", "tour-1", "--output", str(page)])
    text = page.read_text(encoding="utf-8")
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    assert [body.count(each) for each in ('class="run"', "<html", "</html>")] == [2, 1, 1]
    assert [text.count(each) for each in ("<style>", 'id="specs"')] == [1, 1]
    ids = re.findall(r'\bid="([^"]+)"', body)
    assert len(ids) == len(set(ids))
    assert {"run-1", "run-2", "run-1-answer", "run-2-answer"} <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', body)) <= set(ids)
    drawn = json.loads(re.search(r'id="specs">(.*?)</script>', text, re.DOTALL)[1])[:-1]
    assert {name for name, _ in drawn} <= set(ids)
    assert body.index("tour-2") < body.index("tour-1")
    assert "Relatório de 2 execuções" in body

    set_locale("C")
    for file_format in ("markdown", "latex-document"):
        path = tmp_path / f"both.{file_format}"
        invoke(["export", "tour-1", "tour-2", "--format", file_format, "--output", str(path)])
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"Report of 2 runs|tour-\d(?=: finished)", text) == [
            "Report of 2 runs",
            "tour-1",
            "tour-2",
        ]


def test_the_first_page_of_several_runs_has_the_answer_of_each(store, tmp_path):
    host = {"cpu_model": "Some CPU", "cpus": 2}
    fill(begin(store, host={**host, "machine_id": "a"}))
    fill(begin(store, "tour-2", host={**host, "machine_id": "b"}), seed=2)
    path = tmp_path / "both.md"
    invoke(["export", "tour-1", "tour-2", "--format", "markdown", "--output", str(path)])
    first = re.sub(r"[^\S\n]", " ", path.read_text(encoding="utf-8").replace("\\", "")).partition(
        "tour-1: finished"
    )[0]
    assert first.count("Some CPU") == 1
    assert first.count("times slower, most on iperf3 direction=send.") == 2
    assert first.count("Caution:") == 2
    assert "lxc, qemu-tcg (emulated)" in first
    assert "Verdicts on emulated platforms are not counted." in first


@pytest.mark.parametrize("file_format", ["csv", "parquet", "json"])
def test_a_format_of_one_run_refuses_several(store, tmp_path, file_format):
    fill(begin(store))
    fill(begin(store, "tour-2"), seed=2)
    arguments = [
        "export",
        "tour-1",
        "tour-2",
        "--format",
        file_format,
        "--output",
        str(tmp_path / "x"),
    ]
    error = CliRunner().invoke(group, arguments, standalone_mode=False).exception
    assert isinstance(error, BadInput)
    assert f"{file_format} holds one run" in str(error)
    assert "--format markdown" in str(error.hint)
    assert not (tmp_path / "x").exists()
