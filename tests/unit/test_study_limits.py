"""How large a study may be, what its file may be, and that planning takes time in proportion to its points."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from vtax.cli.plan import announce
from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.runner.plan import Plan, make_plan
from vtax.runner.stopping import Stopping
from vtax.study import limits
from vtax.study.load import LoadedStudy, load, validate

SMALL = 'name = "small"\nplatforms = ["native"]\n[[benchmark]]\nname = "stream"\n'
TABLE = {"name": "small", "platforms": ["native"], "benchmark": [{"name": "stream"}]}


def refusal(path: Path, content: str | bytes) -> BadInput:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as caught:
        load(str(path), {})
    return caught.value


def planned(declared: dict[str, Any]) -> Plan:
    study = validate(declared, "test")
    probes = {name: Probe(True) for name in study.platforms}
    return make_plan(
        LoadedStudy(study, "test"), image=Image("key", Path("/nowhere")), seed=1, probes=probes
    )


def levels(count: int, first: int = 1) -> list[int]:
    return list(range(first, first + count))


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (
            "[guest]\nmemory = 1.5",
            "[guest], key memory",
            "memory is 1.5; it must be a size of at least 64MiB",
        ),
        ("[guest]\nmemory = []", "[guest], key memory", "memory is []; it must be a size"),
        ("[guest]\nmemory = true", "[guest], key memory", "true is not understood"),
        ("[guest]\nmemory = '999999999TiB'", "[guest], key memory", "more than any machine has"),
        (
            "[design]\ntimeout = [60]",
            "[design], key timeout",
            "timeout is [60]; it must be a duration above 0s",
        ),
        (
            "[design]\ntimeout = '31d'",
            "[design], key timeout",
            "timeout is 31d; it must be a duration above",
        ),
        (
            "[design]\nbudget = inf",
            "[design], key budget",
            "budget is inf; it must be a finite number",
        ),
        (
            "[design]\nmargin = nan",
            "[design], key margin",
            "margin is nan; it must be a finite number",
        ),
        (
            "[design]\nbudget = '9" + "9" * 400 + "h'",
            "[design], key budget",
            "longer than anything lasts",
        ),
        (
            "[design]\ntrials = 1000000000000000000",
            "[design], key trials",
            "a whole number from 1 to 10000",
        ),
        (
            "[design]\ntrials = 10000\nblocks = 10000",
            "[design]",
            "asks for 100000000 trials; at most 10000000",
        ),
        (
            "[design]\nseed = 99999999999999999999",
            "[design], key seed",
            "seed is a whole number of more",
        ),
        ("[design]\nseed = " + "9" * 5000, "mine.toml", "whole numbers have at most 64 bits"),
        ("[guest]\nx = " + "[" * 90 + "]" * 90, "[guest], key x", "nested more than 8 deep"),
        ("[guest]\nx = " + "[" * 9000 + "]" * 9000, "mine.toml", "nested too deep"),
        ("a." * 9000 + "b = 1", "mine.toml", "a key of the study has too many parts"),
        (
            "[guest]\nx = '" + "y" * 5000 + "'",
            "[guest], key x",
            "x is a text of 5000 characters; at most 4096",
        ),
        ('[guest]\nx = "\\u0000"', "[guest], key x", "the text of x holds a control character"),
        (
            '[guest]\n"\\u001b[2J" = 1',
            "[guest], key",
            "the key '\\x1b[2J' holds a control character",
        ),
        ("[design]\nx = [" + "1," * 20_000 + "]", "the file as a whole", "at most 20000 values"),
        ("[design]\n" + "#" * 300_000, "mine.toml", "a study holds at most 256 KiB"),
    ],
)
def test_what_no_study_may_hold_is_refused_with_its_place(tmp_path, text, where, what):
    top_level, tables = (text, "") if not text.startswith("[") else ("", text)
    error = refusal(tmp_path / "mine.toml", f"{top_level}\n{SMALL}\n{tables}")
    assert what in error.what
    assert where in error.where
    assert error.hint


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        (
            {"platforms": ["native", *(f"p{n}" for n in range(64))]},
            "key platforms",
            "a list of 1 to 64 entries",
        ),
        ({"tuning": ["default"] * 9000}, "key tuning", "a list of at most 4 entries"),
        (
            {"platform": [{"name": "x", "driver": "lxc"}] * 65},
            "platform",
            "at most 64 tables, each under [[...]]",
        ),
        (
            {"benchmark": [{"name": "stream"}] * 257},
            "benchmark",
            "1 to 256 tables, each under [[...]]",
        ),
        (
            {"benchmark": [{"name": "dd", "factors": {f"f{n}": [1, 2] for n in range(200)}}]},
            "[[benchmark]] number 1 (dd), key factors",
            "combine to more than 10000 points",
        ),
        (
            {
                "platforms": ["native", *(f"p{n}" for n in range(9))],
                "benchmark": [{"name": "stream", "factors": {"threads": levels(2001)}}],
            },
            "key platforms",
            "2001 points on 10 platforms are 20010 cells; at most 20000",
        ),
    ],
)
def test_what_a_study_may_ask_for_is_limited(change, where, what):
    with pytest.raises(BadInput) as caught:
        validate({**TABLE, **change}, "test")
    assert what in caught.value.what
    assert where in caught.value.where


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SMALL, encoding="utf-8-sig")
    assert load(str(path), {}).study.name == "small"


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_named_with_its_line(tmp_path, encoding):
    error = refusal(
        tmp_path / "mine.toml", f"{SMALL}# \N{LATIN SMALL LETTER U WITH DIAERESIS}".encode(encoding)
    )
    assert "not UTF-8: line" in error.what
    assert "as UTF-8" in error.hint


def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, printed in (
        (tmp_path, "is a directory, not a study"),
        (tmp_path / "pipe", "is a named pipe, not a study"),
        (Path("/dev/zero"), "is a device, not a study"),
    ):
        with pytest.raises(BadInput, match=printed):
            load(str(path))


@pytest.mark.parametrize("reference", ["x" * 5000, "\0", "", "tour/x", "a\nb"])
def test_a_path_that_no_file_can_have_is_no_study(reference):
    with pytest.raises(BadInput, match=r"no study|no such file|cannot be read"):
        load(reference)


def test_values_that_are_one_level_in_two_spellings_are_refused(golden):
    with pytest.raises(BadInput) as caught:
        planned(
            {**TABLE, "benchmark": [{"name": "iperf3", "factors": {"length": ["64KiB", 65536]}}]}
        )
    golden(str(caught.value))
    assert "number 1 (iperf3)" in caught.value.where


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "share"),
    [
        (
            {
                "name": "sysbench-cpu",
                "factors": {"duration_s": levels(100), "cpu_max_prime": levels(100, 1000)},
            },
            1,
        ),
        (
            {
                "name": "netperf",
                "factors": {"message_size": levels(25, 64), "socket_buffer": levels(25, 4096)},
                "link_factors": {"mtu": levels(2, 1500), "queues": [1, 2]},
            },
            4,
        ),
    ],
    ids=["processor", "network"],
)
def test_ten_thousand_points_are_planned_in_a_moment(benchmark, share):
    declared = {**TABLE, "platforms": ["native", "podman"], "benchmark": [benchmark]}
    started_at = time.process_time()
    plan = planned(declared)
    announce(plan, lambda line: None)
    assert time.process_time() - started_at < 15.0 / share
    assert len(plan.points) == limits.MAX_POINTS // share
    assert sum(len(session.cells) for session in plan.guests(0)) == limits.MAX_CELLS // share
    started_at = time.process_time()
    Stopping(plan, []).decide(1, 1.0)
    assert time.process_time() - started_at < 10.0 / share


def test_ten_thousand_blocks_of_one_platform_after_the_other_are_announced_at_once():
    lines: list[str] = []
    started_at = time.process_time()
    announce(planned({**TABLE, "design": {"order": "sequential", "blocks": 10_000}}), lines.append)
    assert time.process_time() - started_at < 1.0
    assert "order: all blocks of native" in lines


@pytest.mark.parametrize("memory", ["8MiB", "1MB", "4096B", "63.9MiB"])
def test_a_size_with_a_unit_is_not_taken_for_one_that_lacks_its_unit(memory):
    with pytest.raises(BadInput) as refusal:
        validate({"platforms": ["native"], "guest": {"memory": memory}}, "mine.toml")
    assert "64MiB" in str(refusal.value)
    assert "MiB write" not in str(refusal.value)


def test_a_number_that_lacks_its_unit_has_a_hint_of_it():
    with pytest.raises(BadInput, match='write memory = "512MiB"'):
        validate({"platforms": ["native"], "guest": {"memory": 512}}, "mine.toml")
