"""The gate of `vtax compare` on stored runs: exit status, table, JSON, JUnit and Markdown files, refusals."""

import re
from functools import partial
from xml.etree import ElementTree

import command_line
import pytest
from a_run import begin, cells, fill, trial
from command_line import refusals

from vtax.store.records import PlatformRecord

GATE = ("--strict",)
invoked, values = (
    partial(command_line.invoked, "compare"),
    partial(command_line.values_of, "compare"),
)


@pytest.mark.usefixtures("tour")
def test_a_slower_platform_fails_the_check(golden):
    result = invoked("tour-1", "--fail-if", "slower-by", "5%")
    assert result.exit_code == 1
    golden(result.output)


@pytest.mark.usefixtures("tour")
def test_a_platform_that_is_not_slower_passes():
    assert invoked("docker", "--fail-if", "slower-by", "0.05").exit_code == 0
    found = values("docker", "--fail-if", "slower-by", "5 %", "--strict")
    assert (found["status"], found["margins"], found["families"]) == (
        "passed",
        {"speed": 0.05},
        [3, 6],
    )
    assert {each["outcome"] for each in found["comparisons"]} == {"passed"}
    assert all(
        each in values("--fail-if", "slower-by", "5 %")["comparisons"]
        for each in found["comparisons"]
    )
    for each in found["comparisons"]:
        assert 1 - each["efficiency"]["low"] < 0.05 < each["detectable"]
        assert each["efficiency"]["estimate"] == pytest.approx(each["ratio"]["estimate"])


@pytest.mark.usefixtures("tour")
@pytest.mark.parametrize(
    "written", ["5%", "0.05", "slower-by=5%", "slower-by 5%", "slower-by  5 %"]
)
def test_the_margin_is_taken_as_people_type_it(written):
    found = values("docker", "--fail-if", written)
    assert found == values("docker", "--fail-if", "slower-by", "5%")
    assert found["margins"] == {"speed": 0.05}


@pytest.mark.usefixtures("tour")
def test_undecided_fails_only_when_strict(golden):
    narrow = ("lxc", "--fail-if", "slower-by", "0.1%")
    assert invoked(*narrow).exit_code == 0
    assert invoked(*narrow, "--strict").exit_code == 3
    golden(invoked(*narrow).output)


@pytest.mark.usefixtures("tour")
def test_the_margin_of_the_study_is_the_default():
    assert values("docker", *GATE)["margins"] == {"speed": 0.02}


@pytest.mark.usefixtures("tour")
def test_any_two_platforms_are_compared():
    found = values("native", "qemu-tcg", *GATE)
    assert found["status"] == "passed"
    assert {each["outcome"] for each in found["comparisons"]} == {"passed"}
    levels = values("docker@direction=send", "native@direction=send", *GATE)
    assert [each["metric"] for each in levels["comparisons"]] == ["throughput"]
    assert found["baseline"] == "qemu-tcg"


@pytest.mark.usefixtures("tour")
def test_any_metric_is_checked_by_name():
    found = values("qemu-tcg", "--metric", "latency", "--fail-if", "slower-by", "5%")
    assert [(each["metric"], each["better"], each["outcome"]) for each in found["comparisons"]] == [
        ("latency", "lower", "slower"),
    ]


@pytest.mark.usefixtures("tour")
def test_a_junit_file_has_one_case_a_comparison(tmp_path):
    path = tmp_path / "check.xml"
    assert invoked("--fail-if", "slower-by", "5%", "--junit", str(path)).exit_code == 1
    suite = ElementTree.parse(path).getroot().find("testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "10",
        "3",
        "0",
        "1",
    ]
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases][-2:] == [
        ("qemu-tcg (emulated)", "iperf3 · throughput, direction=receive"),
        ("kvm-virtio", "all comparisons"),
    ]
    failures = [
        case.find("failure") for case in cases if case.get("classname") == "qemu-tcg (emulated)"
    ]
    assert [each.get("type") for each in failures if each is not None] == ["slower"] * 3
    assert all(
        each is not None and "fails above a loss of 5" in str(each.text) for each in failures
    )
    assert all(float(case.get("time", "")) > 0 for case in cases[:-1])
    assert [child.tag for child in suite][-2:] == ["system-out", "system-err"]
    table = invoked("--fail-if", "slower-by", "5%").output
    shown = [float(each) for each in re.findall(r"(\S+) times slower \[", table)]
    for each in failures:  # with digits of its own, where a table has those of its column
        share = re.search(r"(\S+) times slower \[.*?\], fails above", str(each.text))
        assert any(other == pytest.approx(float(share[1]), abs=0.005) for other in shown)


@pytest.mark.usefixtures("tour")
def test_an_undecided_case_says_what_it_could_see_and_what_would_decide(tmp_path):
    path = tmp_path / "check.xml"
    invoked("lxc", "--fail-if", "slower-by", "0.1%", "--junit", str(path))
    found = [str(each.get("message")) for each in ElementTree.parse(path).getroot().iter("skipped")]
    assert found
    assert all(
        "detectable from" in each and ("more block" in each or "too noisy" in each)
        for each in found
    )


@pytest.mark.usefixtures("tour")
def test_a_summary_is_written_in_markdown(tmp_path, golden, set_locale):
    set_locale("pt_BR")
    path = tmp_path / "check.md"
    invoked("--fail-if", "slower-by", "5%", "--markdown", str(path))
    golden(path.read_text(encoding="utf-8"))


def test_wrong_input_is_refused(tour, capsys, golden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begin(tour, name="empty-1", started_at=1.0)
    _of_one_platform(tour)
    gate = (
        f"--strict {sides}"
        for sides in (
            "dokcer",
            "tour-1 tour-1",
            "kvm-virtio",
            "lxc docker@mtu=9",
            "docker docker",
            "nothing-1",
            "--junit /nowhere/check.xml",
            "tour-1:docker alone-1:native",
            "empty-1",
            "alone-1",
            "--metric latenzy",
        )
    )
    margins = (
        f"--fail-if slower-by {margin}" for margin in ("much", "''", "-5%", "nan", "100", "0%")
    )
    forms = (
        f"--fail-if {form}"
        for form in ("slower-by", "slower-by --strict", "faster-by=5%", "much", "")
    )
    no_gate = ("--markdown x.md", "docker --junit x.xml")
    golden(refusals(capsys, "compare", *gate, *margins, *forms, *no_gate, "", "tour-1"))


def _of_one_platform(store):
    native = PlatformRecord("native", {"driver": "native", "options": {}}, True, is_baseline=True)
    own = [cell for cell in cells() if cell.platform == "native"]
    run = begin(store, name="alone-1", platforms=(native,), cells=own, started_at=2.0)
    run.add_trial(trial(own[0]))


@pytest.mark.usefixtures("tour")
def test_a_gate_that_could_see_nothing_fails(tmp_path):
    """An undecided comparison that could not have shown the slowdown asked for is no reason to go on."""
    narrow = ("lxc", "--fail-if", "slower-by", "0.1%")
    could = max(each["detectable"] for each in values(*narrow)["comparisons"])
    assert invoked(*narrow, "--detect", f"{100 * could + 0.1:.2f}%").exit_code == 0
    path = tmp_path / "check.xml"
    blind = invoked(*narrow, "--detect", f"{100 * could - 0.1:.2f}%", "--junit", str(path))
    assert blind.exit_code == 3
    suite = ElementTree.parse(path).getroot().find("testsuite")
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    assert properties(suite)["status"] == "blind"
    (error,) = suite.iter("error")
    assert error.get("type") == "blind"
    assert "has to be" in error.get("message", "")
    assert "The check is too noisy: 1 comparison could not have shown a fall to" in blind.output


def properties(suite: ElementTree.Element) -> dict[str | None, str | None]:
    return {each.get("name"): each.get("value") for each in suite.iter("property")}


@pytest.mark.usefixtures("tour")
@pytest.mark.parametrize("strict", [(), ("--strict",)])
@pytest.mark.parametrize(
    ("gate", "status", "exits"),
    [
        (("docker", "--fail-if", "5%"), "passed", (0, 0)),
        (("lxc", "--fail-if", "0.1%"), "undecided", (0, 3)),
        (("lxc", "--fail-if", "0.1%", "--detect", "0.11%"), "blind", (3, 3)),
        (("qemu-tcg", "--fail-if", "5%"), "failed", (1, 1)),
        (("--fail-if", "5%", "--detect", "5.1%"), "failed", (1, 1)),
        (("--fail-if", "99%"), "failed", (1, 1)),
    ],
)
def test_exit_status_json_page_and_junit_agree(gate, status, exits, strict, tmp_path):
    path = tmp_path / "check.xml"
    done = invoked(*gate, *strict, "--junit", str(path))
    found = values(*gate, *strict)
    assert found["status"] == status
    assert done.exit_code == found["exit_status"] == exits[bool(strict)]
    suite = ElementTree.parse(path).getroot().find("testsuite")
    assert properties(suite)["exit_status"] == str(done.exit_code)
    assert (int(suite.get("failures")) + int(suite.get("errors")) > 0) is (done.exit_code > 0)
    assert (int(suite.get("failures")) > 0) is (done.exit_code == 1)
    could = "slowdown that" in done.output
    assert could is (status == "undecided")


@pytest.mark.usefixtures("tour")
def test_a_gate_that_decides_nothing_says_what_it_could_have_seen():
    narrow = ("lxc", "--fail-if", "0.1%")
    could = [each["detectable"] for each in values(*narrow)["comparisons"]]
    printed = invoked(*narrow).output.replace("\xa0", " ")
    assert "slowdown that" in printed
    assert f"{100 * min(could):.2g} %" in printed


@pytest.mark.usefixtures("tour")
@pytest.mark.parametrize(
    "gate",
    [("--fail-if", "5%", "--detect", "5%"), ("--detect", "2%"), ("docker", "--detect", "1%")],
)
def test_a_slowdown_within_the_margin_cannot_be_asked_for(gate):
    refused = command_line.refusal("compare", *gate)
    assert refused.where == "--detect"


@pytest.mark.usefixtures("tour")
def test_a_side_without_a_run_is_of_the_run_that_the_other_names(tour):
    fill(begin(tour, name="tour-2", started_at=1_800_000_000.0))
    for sides in (
        ("tour-1:docker", "lxc"),
        ("docker", "tour-1:lxc"),
        ("docker", "lxc", "--run", "tour-1"),
    ):
        found = command_line.values_of("compare", *sides)
        assert found["treatment"]["run"] == found["baseline"]["run"] == "tour-1"
    assert command_line.values_of("compare", "docker")["baseline"]["platform"] == "native"
