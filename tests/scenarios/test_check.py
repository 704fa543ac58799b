"""`vtax check` on stored runs: exit status, table, JSON, JUnit and Markdown files, and what is refused."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import command_line
import pytest
import synthetic_run

from vtax.errors import BadInput
from vtax.store.records import PlatformRecord
from vtax.store.store import Store

invoked, values = partial(command_line.invoked, "check"), partial(command_line.values_of, "check")


@pytest.mark.usefixtures("tour")
def test_a_slower_platform_fails_the_check() -> None:
    result = invoked("tour-1", "--margin", "5%")
    text = result.output.replace("\xa0", " ")
    assert result.exit_code == 1
    assert "margin 5 %; Holm-corrected over 9 comparisons" in text
    assert "3 comparisons are slower by more than 5 %: qemu-tcg (emulated), sysbench-cpu · events;" in text
    assert "6 comparisons passed: not slower by 5 %" in text
    assert re.search(r"kvm-virtio .* not tested +guests are started as root", text)


@pytest.mark.usefixtures("tour")
def test_a_platform_that_is_not_slower_passes() -> None:
    assert invoked("--treatment", "docker", "--margin", "0.05").exit_code == 0
    found = values("--treatment", "docker", "--margin", "5 %", "--strict")
    assert (found["status"], found["margin"], found["family"]) == ("passed", 0.05, 9)
    assert {each["outcome"] for each in found["comparisons"]} == {"passed"}
    assert all(each in values("--margin", "5 %")["comparisons"] for each in found["comparisons"])
    for each in found["comparisons"]:
        assert each["slowdown"]["high"] < 0.05 < each["detectable_slowdown"]
        assert each["slowdown"]["estimate"] == pytest.approx(1 - each["ratio"]["estimate"])


@pytest.mark.usefixtures("tour")
def test_undecided_fails_only_when_strict() -> None:
    narrow = ("--treatment", "lxc", "--margin", "0.1%")
    assert invoked(*narrow).exit_code == 0
    assert invoked(*narrow, "--strict").exit_code == 3
    text = invoked(*narrow).output.replace("\xa0", " ")
    assert "Nothing failed, and not everything passed." in text
    assert "3 comparisons are undecided: lxc, sysbench-cpu · events;" in text


@pytest.mark.usefixtures("tour")
def test_the_margin_of_the_study_is_the_default() -> None:
    assert values("--treatment", "docker")["margin"] == 0.02


@pytest.mark.usefixtures("tour")
def test_any_two_platforms_are_compared() -> None:
    found = values("--treatment", "native", "--baseline", "qemu-tcg")
    assert found["status"] == "passed"
    assert {each["outcome"] for each in found["comparisons"]} == {"passed"}
    levels = values("--treatment", "docker@direction=send", "--baseline", "native@direction=send")
    assert [each["metric"] for each in levels["comparisons"]] == ["throughput"]
    assert found["baseline"] == "qemu-tcg"


@pytest.mark.usefixtures("tour")
def test_any_metric_is_checked_by_name() -> None:
    found = values("--treatment", "qemu-tcg", "--metric", "latency", "--margin", "5%")
    assert [(each["metric"], each["better"], each["outcome"]) for each in found["comparisons"]] == [
        ("latency", "lower", "slower"),
    ]  # fmt: skip
    assert "has no metric 'latenzy'" in str(invoked("--metric", "latenzy").exception)


@pytest.mark.usefixtures("tour")
def test_a_junit_file_has_one_case_a_comparison(tmp_path: Path) -> None:
    path = tmp_path / "check.xml"
    assert invoked("--margin", "5%", "--junit", str(path)).exit_code == 1
    suite = ElementTree.parse(path).getroot().find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["10", "3", "0", "1"]
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases][-2:] == [
        ("qemu-tcg (emulated)", "iperf3 · throughput, direction=receive"), ("kvm-virtio", "all comparisons"),
    ]  # fmt: skip
    failures = [case.find("failure") for case in cases if case.get("classname") == "qemu-tcg (emulated)"]
    assert [each.get("type") for each in failures if each is not None] == ["slower"] * 3
    assert all(each is not None and "margin 5" in str(each.text) for each in failures)
    assert all(float(case.get("time", "")) > 0 for case in cases[:-1])
    assert [child.tag for child in suite][-2:] == ["system-out", "system-err"]
    table = " ".join(invoked("--margin", "5%").output.split())
    for each in failures:
        assert each is not None
        slowdown = re.search(r"slowdown (.* %) (\[.*?\]), margin", str(each.text))
        assert slowdown is not None
        assert " ".join(slowdown.groups()) in table.replace("\xa0", " ")


@pytest.mark.usefixtures("tour")
def test_an_undecided_case_says_what_it_could_see_and_what_would_decide(tmp_path: Path) -> None:
    path = tmp_path / "check.xml"
    invoked("--treatment", "lxc", "--margin", "0.1%", "--junit", str(path))
    found = [str(each.get("message")) for each in ElementTree.parse(path).getroot().iter("skipped")]
    assert found
    assert all("smallest detectable slowdown" in each and "would decide" in each for each in found)


@pytest.mark.usefixtures("tour")
def test_a_summary_is_written_in_markdown(tmp_path: Path) -> None:
    path = tmp_path / "check.md"
    invoked("--margin", "5%", "--markdown", str(path), "--language", "pt-BR")
    text = path.read_text(encoding="utf-8").replace("\xa0", " ")
    assert text.startswith("# Verificação")
    assert "A verificação falhou." in text
    assert "| qemu-tcg (emulada) | sysbench-cpu · events |" in text
    assert "mais lentas por mais de 5 %: qemu-tcg (emulada), sysbench-cpu · events;" in text


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--margin", "much"), "'much' is not a number"),
        (("--margin", ""), "is not a number"),
        (("--margin", "-5%"), "is not a number"),
        (("--margin", "nan"), "is not a number"),
        (("--margin", "5"), "5 is not a percentage"),
        (("--margin", "0%"), "is not between 0 and 100 %"),
        (("--treatment", "dokcer"), "there is no run or platform 'dokcer'"),
        (("--treatment", "tour-1"), "--treatment tour-1 is not a platform of tour-1"),
        (("--treatment", "kvm-virtio"), "could not test kvm-virtio"),
        (("--baseline", "docker@mtu=9"), "has no factor 'mtu'"),
        (("--treatment", "docker", "--baseline", "docker"), "have nothing in common"),
        (("nothing-1",), "nothing-1"),
        (("--junit", "/nowhere/check.xml"), "cannot be written"),
    ],
)
@pytest.mark.usefixtures("tour")
def test_wrong_input_is_refused(arguments: tuple[str, ...], error: str) -> None:
    found = invoked(*arguments).exception
    assert isinstance(found, BadInput)
    assert error in str(found)
    assert found.hint


def test_another_run_is_no_side(tour: Store) -> None:
    synthetic_run.fill(synthetic_run.begin(tour, name="tour-2"))
    found = invoked("tour-1", "--treatment", "tour-2:docker").exception
    assert "--treatment tour-2:docker is not a platform of tour-1" in str(found)


def test_a_run_without_a_block_is_refused(tour: Store) -> None:
    synthetic_run.begin(tour, name="tour-2")
    assert "tour-2 has no finished block" in str(invoked("tour-2").exception)


def test_a_run_of_one_platform_is_refused(tour: Store) -> None:
    native = PlatformRecord("native", {"driver": "native", "options": {}}, True, is_baseline=True)
    cells = [cell for cell in synthetic_run.cells() if cell.platform == "native"]
    run = synthetic_run.begin(tour, name="tour-2", platforms=(native,), cells=cells)
    for cell in cells[:1]:
        run.add_trial(synthetic_run.trial(cell))
    found = invoked("tour-2").exception
    assert isinstance(found, BadInput)
    assert "tour-2 has one platform" in str(found)


@pytest.mark.usefixtures("tour")
def test_the_keys_of_json_are_documented() -> None:
    found = values("--margin", "0.1%")
    page = (Path(__file__).resolve().parents[2] / "docs/data.md").read_text()
    section = page[page.index("### Of `vtax check`") : page.index("## Counters")]
    keys = {*found, *found["comparisons"][0], *found["not_tested"][0], *found["comparisons"][0]["slowdown"]}
    assert {key for key in keys - {"schema", "run", "study"} if not re.search(rf"\b{key}`", section)} == set()
