"""`vtax compare`: any cells against any, paired within a run, as samples across runs. Figures here are invented."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from a_run import DECLARED, PLATFORMS, a_run, begin, cells, fill, trial
from command_line import output_of, refusals
from shown import drawn, english

from vtax.cli.main import main
from vtax.errors import BadInput, NotFound
from vtax.messages import Note
from vtax.report.analysis.result import analyse
from vtax.report.answers.compare.compute import Contrasts, contrast, home_run, side_of
from vtax.report.answers.compare.show import document_of
from vtax.report.answers.gate.compute import check
from vtax.report.renderers import numbers
from vtax.stats.terms import Conditions
from vtax.store.records import RESOLUTIONS
from vtax.store.run import RunHandle
from vtax.store.store import LAST, Store


@pytest.fixture(scope="module")
def store(module_store: Store) -> Store:
    """tour-1; tour-2 on another host, with another image and margin; odd-1 with a colon in a platform."""
    other = {**DECLARED, "design": {**DECLARED["design"], "margin": 0.05}}
    odd = a_run("odd-1").platforms("native", "ssh:me@there").benchmark("sysbench-cpu")
    odd = odd.having(started_at=1.0).blocks(6).ending("")
    odd.values(lambda cell, block, _: 10.0 + block).stored(module_store)
    fill(begin(module_store, started_at=2.0), trials=1, warmup=0)
    fill(
        begin(
            module_store,
            "tour-2",
            started_at=3.0,
            host={"cpu_model": "Other"},
            image_key="other",
            declared=other,
        ),
        trials=1,
        warmup=0,
        seed=5,
    )
    return module_store


def ratios(found: Contrasts) -> dict[str, float]:
    return {f"{c.section.name} {c.name}".strip(): c.ratio.estimate for c in found.pairs if c.ratio}


def test_platforms_of_one_run_are_paired_by_block(store):
    found = contrast(store, "tour-1:qemu-tcg", "tour-1:docker")
    assert found.is_paired
    assert found.families == (1, 2)
    assert ratios(found)["sysbench-cpu events"] == pytest.approx(0.135 / 0.998, rel=0.02)
    for each in found.pairs:
        assert each.verdict.kind == "slower"
        assert each.ratio.half_width < 0.02  # the noise that blocks share is 2 %, and cancels


def test_levels_of_a_factor_are_compared_on_one_platform(store):
    found = contrast(store, "tour-1:qemu-tcg@direction=receive", "tour-1:qemu-tcg@direction=SEND")
    assert ratios(found) == {"iperf3 throughput": pytest.approx(0.135**-0.5, rel=0.05)}
    assert found.baseline.levels == {"direction": "send"}


def test_a_level_named_on_one_side_holds_on_both(store):
    found = contrast(store, "tour-1:lxc@direction=send", "tour-1:docker")
    (each,) = found.pairs
    assert (each.treatment.cell.key, each.baseline.cell.key) == ("s-lxc", "s-docker")


def test_runs_are_compared_as_two_samples_and_what_differs_is_said(store):
    found = contrast(store, "tour-1:docker", "tour-2:docker")
    assert not found.is_paired
    assert (
        found.margin == contrast(store, "tour-2:docker", "tour-1:docker").margin == 0.02
    )  # the smaller of the two
    text = "\n".join(map(english, found.warnings))
    for expected in (
        "hosts differ in CPU: not known and Other",
        "images differ: 4f1d0c77aa31 and other",
        "design: margin 0.02 against 0.05",
    ):
        assert expected in text
    for each in found.pairs:
        assert each.ratio.half_width > 0.01


@pytest.mark.slow
def test_runs_are_judged_at_the_stricter_rules_level_whichever_is_written_first(tmp_path):
    """One run looked at its data after every block (`verdict`), the other did not: a plain test would decide."""
    random, contradictions = np.random.default_rng(2), 0
    rules = {
        "fixed": {"stop": "fixed"},
        "looked": {"stop": "verdict", "min_blocks": 5, "max_blocks": 30},
    }
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for study in range(12):
            for name, design in rules.items():
                declared = {**DECLARED, "design": {**DECLARED["design"], **design}}
                run = begin(opened, f"{name}{study}-1", declared=declared)
                cell = next(cell for cell in run.cells if cell.key == "c-native")
                level = 96.0 if name == "fixed" else 100.0
                for block, noise in enumerate(random.normal(0, 0.04, 10)):
                    if block and block % 2 == 0:  # five sessions of two blocks
                        run.begin_session(f"{block:032}", run.host, 30.0 + block)
                    values = {"events": level * math.exp(noise)}
                    run.add_trial(trial(cell, block=block, position=block, values=values))
            sides = f"fixed{study}-1:native", f"looked{study}-1:native"
            forth, back = (contrast(opened, *pair).pairs[0] for pair in (sides, sides[::-1]))
            assert forth.ratio.estimate * back.ratio.estimate == pytest.approx(1)
            assert (forth.ratio.low, forth.ratio.high) == pytest.approx(
                (1 / back.ratio.high, 1 / back.ratio.low)
            )
            if back.verdict.is_settled:
                mirrored = {"slower": "faster", "faster": "slower", "equivalent": "equivalent"}
                assert forth.verdict.kind == mirrored[back.verdict.kind]
            assert forth.verdict.is_settled == back.verdict.is_settled
            assert forth.verdict.alpha == back.verdict.alpha < 0.02
            is_decided = forth.verdict.kind in ("slower", "faster")
            assert not (is_decided and forth.ratio.low <= 1 <= forth.ratio.high)
            contradictions += not is_decided and forth.ratio.p_value <= 0.05
    assert contradictions > 0  # the noise is such that the plain level would have decided some


def test_a_side_against_the_baseline_carries_the_family_of_the_table(store):
    run = analyse(store, "tour-1")
    found = contrast(store, "tour-1:docker", "tour-1:native", label="iperf3")
    rows = {
        row.cell.key: (row.verdict, section.family)
        for section in run.sections
        for point in section.points
        for row in point.rows
    }
    assert found.is_of_table
    for each in found.pairs:
        assert (each.verdict, each.verdict.family) == rows[each.treatment.cell.key]
        assert each.verdict.family > len(found.pairs)
    shown = drawn(document_of(found))
    assert "verdicts are those of the table of tour-1" in " ".join(shown.split())
    assert "chosen before" not in " ".join(shown.split())
    picked = contrast(store, "tour-1:docker", "tour-1:lxc")
    assert not picked.is_of_table
    assert "before you saw the results of tour-1" in " ".join(drawn(document_of(picked)).split())


def _with_failures(run: RunHandle, first: int, level: float, seed: int) -> None:
    """Six blocks of ten trials on two platforms; of one, the slow trials fail."""
    random = np.random.default_rng(seed)
    for block in range(first, first + 6):
        for cell in run.cells:
            for number in range(10):
                slow = cell.platform == "docker" and number == 9
                speed = level * (1.1 if cell.platform == "docker" else 1.0)
                values = {} if slow else {"events": speed + random.normal()}
                position = run.next_position()
                run.add_trial(
                    trial(
                        cell,
                        block=block,
                        number=number,
                        position=position,
                        values=values,
                        status="timeout" if slow else "ok",
                    )
                )


def _failing(store: Store, name: str) -> RunHandle:
    chosen = [
        c for c in cells() if c.benchmark == "sysbench-cpu" and c.platform in ("native", "docker")
    ]
    return begin(
        store,
        name,
        cells=chosen,
        platforms=[p for p in PLATFORMS if p.name in ("native", "docker")],
    )


def test_contrast_check_and_show_withhold_for_failed_trials_alike(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        _with_failures(_failing(opened, "lost-1"), 0, 100.0, 1)
        found = contrast(opened, "lost-1:docker", "lost-1:native").pairs[0]
        run = analyse(opened, "lost-1")
        (shown,) = (row for row in run.primary[0].points[0].rows if row.platform.name == "docker")
        assert found.ratio is not None
        assert shown.ratio is not None
        assert shown.verdict is not None
        assert found.verdict == shown.verdict
        assert found.verdict.kind == "undecided"
        codes = {note.code for note in found.warnings if isinstance(note, Note)}
        assert codes == {"failures-differ", "withheld-failures"}
        (checked,) = check(
            opened, run, Conditions(), treatment="docker", baseline="native"
        ).comparisons
        assert checked.outcome == "undecided"
        back = contrast(opened, "lost-1:native", "lost-1:docker").pairs[0]
        assert back.verdict.kind == "undecided"


def _in_steps(run: RunHandle, blocks: range) -> None:
    """Figures of a tool that prints steps of 20: all alike."""
    for block in blocks:
        for cell in run.cells:
            run.add_trial(
                trial(
                    cell,
                    block=block,
                    position=run.next_position(),
                    values={"events": 100.0},
                    effective={RESOLUTIONS: {"events": [20.0]}},
                )
            )


def test_contrast_check_and_show_withhold_for_coarse_figures_alike(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        _in_steps(_failing(opened, "coarse-1"), range(6))
        run = analyse(opened, "coarse-1")
        (shown,) = (row for row in run.primary[0].points[0].rows if row.platform.name == "docker")
        found = contrast(opened, "coarse-1:docker", "coarse-1:native").pairs[0]
        (checked,) = check(
            opened, run, Conditions(), treatment="docker", baseline="native"
        ).comparisons
        assert shown.verdict.kind == found.verdict.kind == checked.outcome == "undecided"
        assert "withheld-resolution" in {note.code for note in found.warnings}
        assert "withheld-resolution" in {note.code for note in checked.reasons}


def test_a_contrast_across_runs_withholds_for_coarse_figures(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for name in ("old-1", "new-1"):
            run = _failing(opened, name)
            for session in range(5):
                if session:
                    run.begin_session(f"{session:032}", run.host, 30.0 + session)
                _in_steps(run, range(2 * session, 2 * session + 2))
        found = contrast(opened, "new-1:docker", "old-1:native").pairs[0]
        assert (found.verdict.kind, found.ratio.low) == ("undecided", pytest.approx(0.8))
        assert "withheld-resolution" in {note.code for note in found.warnings}


@pytest.mark.slow
def test_a_contrast_across_runs_withholds_for_failed_trials(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for name in ("old-1", "new-1"):
            run = _failing(opened, name)
            for session in range(6):
                if session:
                    run.begin_session(f"{session:032}", run.host, 30.0 + session)
                _with_failures(run, 6 * session, 100.0, session)
        found = contrast(opened, "new-1:docker", "old-1:native").pairs[0]
        assert found.ratio.low > 1.05
        assert found.verdict.kind == "undecided"
        codes = {note.code for note in found.warnings if isinstance(note, Note)}
        assert {"failures-differ", "withheld-failures"} <= codes
        slower = contrast(opened, "new-1:native", "old-1:docker").pairs[0]
        assert (
            slower.verdict.kind == "undecided"
        )  # docker, that lost its slow trials, is not called faster either


def test_the_last_run_is_meant_where_none_is_named(store):
    assert side_of(store, "lxc").analysis.name == "tour-2"
    assert side_of(store, "last:lxc").analysis.name == "tour-2"


def test_platform_names_may_hold_colons_and_at_signs(store):
    side = side_of(store, "odd-1:ssh:me@there")
    assert (side.analysis.name, side.platform, side.levels) == ("odd-1", "ssh:me@there", {})
    assert contrast(store, "odd-1:ssh:me@there", "odd-1:native").pairs[0].reason == ""


@pytest.mark.parametrize("levels", ["send|receive", "send,receive"])
def test_a_side_has_one_level_of_a_factor(store, levels):
    with pytest.raises(BadInput) as refused:
        side_of(store, f"tour-1:lxc@direction={levels}")
    assert "one level of direction" in refused.value.what


@pytest.mark.usefixtures("store")
def test_what_does_not_exist_is_refused_with_near_names(capsys, golden):
    sides = (
        "tour-1:dokcer",
        "tuor-1:lxc",
        "tour-1:lxc@direktion=send",
        "tour-1:lxc@direction=sent",
        "tour-1:lxc@direction",
        "tour-1:lxc@",
        "tour-1:lxc@direction=send,",
        "tour-1:kvm-virtio",
        "tour-1:docker",
    )
    others = (
        "lxc docker --metric latenc",
        "lxc docker --benchmark iperf",
        "tour-1:lxc@direction=send odd-1:native",
    )
    golden(refusals(capsys, "compare", *(f"{each} tour-1:docker" for each in sides), *others))


def test_a_platform_that_the_last_run_lacks_is_refused_with_a_run_that_has_it(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for number, name in enumerate(("old-1", "new-1")):
            begin(
                opened, name, started_at=float(number), platforms=PLATFORMS[: 2 - number], cells=[]
            )
        native, other = (platform.name for platform in PLATFORMS[:2])
        with pytest.raises(BadInput, match=f"^new-1, the last run, has no {other}") as refused:
            home_run(opened, (native, f"{other}@size=1"))
        assert refused.value.hint == "--run old-1 has both"
        assert home_run(opened, ("old-1", "new-1")) == LAST
        assert home_run(opened, (native, other), "old-1") == "old-1"


def test_a_name_that_no_run_has_is_the_error_and_not_one_that_only_the_last_run_lacks(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for number, name in enumerate(("old-1", "new-1")):
            begin(
                opened, name, started_at=float(number), platforms=PLATFORMS[: 2 - number], cells=[]
            )
        native, other = (platform.name for platform in PLATFORMS[:2])
        wrong = f"{other[:-2]}{other[-1]}{other[-2]}"
        for sides in ((wrong, native), (other, wrong), (f"{wrong}@size=1", other), (wrong, "")):
            with pytest.raises(NotFound) as refused:
                home_run(opened, sides)
            assert repr(wrong) in refused.value.what
            assert refused.value.hint == f"did you mean {other}?"


def test_platforms_that_no_run_has_together_are_looked_for_by_list(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for number in range(3):
            listed = PLATFORMS[number : number + 1]
            begin(opened, f"run-{number}", started_at=float(number), platforms=listed, cells=[])
        first, second = (platform.name for platform in PLATFORMS[:2])
        with pytest.raises(BadInput, match=r"^run-2, the last run, has no") as refused:
            home_run(opened, (first, second))
        assert refused.value.hint.startswith(f"vtax list --where platform={first}")


def test_metrics_and_benchmarks_can_be_named(store):
    found = contrast(store, "tour-1:lxc", "tour-1:docker", metric="latency", label="sysbench-cpu")
    assert list(ratios(found)) == ["sysbench-cpu latency"]


@pytest.mark.slow
@pytest.mark.parametrize("other", ["bad-1:native", "good-1:native"])
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([5.0], ""),
        ([5.0] * 6, ""),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], ""),
        ([0.0, 0.0, 0.0, 3.0, 4.0, 5.0], "zero or a negative number"),
        ([-1.0] * 6, "zero or a negative number"),
        ([math.nan] * 6, "the treatment has no values"),
        ([math.nan, 5.0, 5.1, math.nan, 5.2, 5.0, 5.1], ""),
    ],
)
def test_bad_input_has_an_answer_or_a_reason(tmp_path, values, reason, other):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        for name in ("good-1", "bad-1"):
            run = begin(opened, name)
            mine = [cell for cell in cells() if cell.key in ("c-native", "c-docker")]
            position = 0
            for cell in mine:
                bad = name == "bad-1" and cell.platform == "docker"
                for block, value in enumerate(values if bad else [5.0 + b / 100 for b in range(6)]):
                    lost: dict[str, Any] = {"status": "failed", "values": {}, "error": "lost"}
                    given = lost if math.isnan(value) else {"values": {"events": value}}
                    run.add_trial(trial(cell, block=block, position=position, **given))
                    position += 1
        found = contrast(opened, "bad-1:docker", other, label="sysbench-cpu")
        (each,) = found.pairs
        if reason:
            assert reason in each.reason
            assert each.ratio is None
        else:
            assert each.ratio is not None
            assert (each.verdict is None) == (other == "good-1:native")  # of one session a side
            assert (
                bool(each.warnings) or len(values) == 6 or other == "good-1:native"
            )  # a block without a pair
            if len(values) == 1:
                assert each.verdict is None or each.verdict.kind == "undecided"
                assert Note("one-block") in each.warnings


@pytest.mark.usefixtures("store")
def test_the_command_prints_a_table_or_json(golden):
    golden(output_of("compare", "tour-1:qemu-tcg", "tour-2:docker"))
    plain = json.loads(output_of("compare", "tour-1:qemu-tcg", "tour-2:docker", "--json"))
    assert plain["schema"] == "vtax.compare/1"
    assert plain["treatment"] == {
        "text": "tour-1:qemu-tcg",
        "run": "tour-1",
        "runs": ["tour-1"],
        "platform": "qemu-tcg",
        "levels": {},
    }
    assert [each["verdict"] for each in plain["contrasts"]] == [None] * 3


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_splits_no_words_and_reads_as_that_of_show(store, width):
    found = contrast(store, "tour-1:lxc", "tour-1:docker")
    text = drawn(document_of(found), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    for side in ("tour-1:lxc ", "tour-1:docker "):
        assert (
            sum(
                line.lstrip().startswith(side)
                for line in lines
                if not {"/", "against"} & {*line.split()}
            )
            == 3
        )
    assert sum("baseline" in line for line in lines) == 3
    for each in found.pairs:
        share = each.ratio.efficiency(each.section.better)
        assert numbers.relative(share.estimate, share.low, share.high)[1] in text
    assert "needs about" not in text


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_sides_without_figures_are_a_failure_that_says_why(store, capsys, form):
    begin(store, "empty-1", started_at=0.5)
    with pytest.raises(SystemExit) as caught:
        main(["compare", "empty-1:lxc", "tour-1:docker", *form])
    printed = capsys.readouterr()
    assert caught.value.code == 1
    assert "nothing to compare\n  where: empty-1:lxc: not measured yet\n" in printed.err
    assert (
        [each["ratio"] for each in json.loads(printed.out)["contrasts"]] == [None] * 3
        if form
        else not printed.out
    )
    store.remove_runs("empty-1")


@pytest.mark.usefixtures("store")
def test_the_answer_names_the_metrics_of_each_verdict(golden):
    """First in a document, last on a terminal, as of `vtax show`."""
    sides = (
        ("tour-1:qemu-tcg", "tour-1:docker"),
        ("tour-1:docker", "tour-1:qemu-tcg"),
        ("tour-1:lxc", "tour-1:docker"),
    )
    printed = [output_of("compare", *each) for each in (*sides, ("tour-1", "tour-2"))]
    golden("\n".join(f"Summary{each.partition('Summary')[2]}" for each in printed))


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ((1.6, 1.2), "120 % to 160 % of of-1"),
        ((3.4, 1.6), "1.6 to 3.4 times faster"),
        ((0.9, 0.3), "1.1 to 3.3 times slower"),
        ((3.4, 0.9), "1.1 times slower to 3.4 times faster"),
    ],
)
def test_a_range_without_a_verdict_has_both_ends_in_times_or_none(tmp_path, rates, words):
    with Store.open(tmp_path / "store.sqlite") as own:
        for name, factors in {"of-1": (1.0, 1.0), "to-1": rates}.items():
            rate = dict(zip(("sysbench-cpu", "iperf3"), factors, strict=True))
            run = a_run(name).platforms("native").benchmark("sysbench-cpu").metric("m")
            run = run.benchmark("iperf3").metric("m").blocks(6)
            run = run.values(lambda cell, block, _, rate=rate: rate[cell.label] * (100 + block % 3))
            run.stored(own)
        text = drawn(document_of(contrast(own, "to-1", "of-1")), 200)
    text = " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())
    assert f"a side was measured once; {words}." in text


def test_what_is_undecided_has_a_next_step_and_programs_get_the_same_values(store):
    document = document_of(contrast(store, "tour-1:lxc", "tour-1:docker"))
    assert document.parts[0].key == "answer"
    assert document.parts[0].role == "summary"
    assert set(document_of(contrast(store, "tour-1:lxc", "tour-1:docker")).data) >= {
        "schema",
        "contrasts",
        "family",
    }
