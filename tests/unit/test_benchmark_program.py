"""A program of a study as a benchmark: its commands, and what it reads out of an output it does not know."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from vtax.benchmarks.base import Context, Operations, Role
from vtax.benchmarks.program import ProgramBenchmark
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.runner.parsers import ParserFailed, Parsers
from vtax.study.programs import ProgramTable

CONTEXT = Context(
    2, 1 << 28, scratch="/s", guest_address="198.18.0.1", peer_address="198.18.0.2", flow=1
)


def program(
    metric: dict[str, Any] | None = None,
    metrics: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> ProgramBenchmark:
    figure = {
        "name": "figure",
        "unit": "s",
        "better": "lower",
        **(metric or {"pattern": "took ([^ ]+) s"}),
    }
    declared = {
        "name": "own",
        "argv": {"guest": ["tool"]},
        "version": ["tool", "-V"],
        "metric": metrics or [figure],
        **changes,
    }
    return ProgramBenchmark(
        ProgramTable.model_validate(declared), [b"data"] * len(declared.get("files", ()))
    )


def read(
    program: ProgramBenchmark, stdout: str, stderr: str = "", status: int = 0
) -> Mapping[str, float]:
    results: dict[Role, CommandResult] = {
        "single": CommandResult(("tool",), status, stdout, stderr, 1.0, 1.0)
    }
    return program.parse(program.Parameters(), CONTEXT, results).values


@pytest.mark.parametrize(
    ("rate", "argv", "share"),
    [
        (4000.0, ["-n", "1000"], 1.0),  # 250 ms, of a timer of 250 ms
        (1995.0, ["-c", "n=1000; run"], 0.998),  # 501 ms: one of 500 ms
        (1000 / 0.31, ["-n", "1000"], 0.0),  # 310 ms
        (4000.0, ["--duration", "10"], 0.0),
        (4000.0, ["-c", "\nprint(1000)\n"], 0.0),
        (4000.0, ["-n", "900"], 0.0),
    ],
)
def test_a_rate_of_work_that_ended_on_a_timer_is_known_to_its_step(rate, argv, share):
    made = program({"pattern": "rate ([0-9.]+)", "unit": "requests/s", "better": "higher"})
    words = ("tool", *argv)
    results = {"single": CommandResult(words, 0, f"rate {rate:.6f}", "", 0.6, 0.6)}
    found = made.parse(made.Parameters(), CONTEXT, results)
    assert found.resolutions["figure"] / rate == pytest.approx(share, rel=0.01)


def test_a_figure_of_an_output_knows_its_last_digit():
    assert read(program(), "took 0.02 s")["figure"].step == pytest.approx(0.01)
    pointed = program({"pointer": "/time"})
    assert read(pointed, '{"time": 2.50}')["figure"].step == pytest.approx(0.01)
    assert read(pointed, '{"time": 2}')["figure"].step == 1.0


@pytest.mark.parametrize(
    ("printed", "value", "step"),
    [("231us", 0.231, 0.001), ("43.43ms", 43.43, 0.01), ("1.5 s", 1500.0, 100.0), ("7", 7.0, 1.0)],
)
def test_a_time_that_is_printed_with_its_unit_is_converted(printed, value, step):
    made = program({"pattern": "took (.+)$", "unit": "ms"})
    found = read(made, f"took {printed}\n")["figure"]
    assert (float(found), found.step) == (pytest.approx(value), pytest.approx(step))


@pytest.mark.parametrize(("unit", "printed"), [("points", "43.43ms"), ("ms", "43.43m")])
def test_a_unit_that_is_none_of_time_is_no_figure(unit, printed):
    with pytest.raises(BenchmarkError, match="it has a suffix"):
        read(program({"pattern": "took (.+)$", "unit": unit}), f"took {printed}\n")


def test_a_number_of_operations_shares_out_what_the_host_spends():
    answers = {
        "name": "answers",
        "unit": "requests",
        "better": "higher",
        "pattern": "^([0-9]+) done",
    }
    figure = {"name": "figure", "unit": "s", "better": "lower", "elapsed": True}
    made = program(metrics=[figure, {**answers, "counts": "request"}])
    results: dict[Role, CommandResult] = {
        "single": CommandResult(("tool",), 0, "450 done\n", "", 1.0, 1.0)
    }
    work = made.work
    assert work is not None
    assert (work.unit, work.number(made.parse(made.Parameters(), CONTEXT, results))) == (
        "request",
        450.0,
    )
    assert made.metrics[1].effective_role == "count"
    assert program({"elapsed": True}).work == Operations("run")
    assert program().work is None
    several = [{**answers, "name": name, "counts": "request"} for name in ("a", "b")]
    with pytest.raises(ValidationError, match="a and b both count"):
        program(metrics=several)
    with pytest.raises(ValidationError, match="is a time, and no number"):
        program({"elapsed": True, "counts": "request"})


def test_an_output_that_shows_a_failure_fails_the_trial():
    checked = program(fails_if="^errors: [1-9].*$")
    assert read(checked, "errors: 0\ntook 2 s\n") == {"figure": 2.0}
    for outputs in (("errors: 3 of 9\ntook 2 s\n", ""), ("took 2 s\n", "errors: 3 of 9\n")):
        with pytest.raises(BenchmarkError, match=r"tool reports a failure .*errors: 3 of 9"):
            read(checked, *outputs)


def test_an_output_that_must_show_success_and_does_not_fails_the_trial(golden):
    checked = program(must_match="^all (well|good)$")
    assert read(checked, "took 2 s\nall well\n") == {"figure": 2.0}
    assert read(checked, "took 2 s\n", "all good\n") == {"figure": 2.0}
    with pytest.raises(BenchmarkError) as caught:
        read(checked, "took 2 s\nnot all well\n")
    golden(str(caught.value))


@pytest.mark.parametrize("key", ["fails_if", "must_match"])
def test_what_an_output_shows_is_a_regular_expression(key):
    with pytest.raises(ValidationError, match="no regular expression"):
        program(**{key: "(open"})


def test_a_figure_is_found_by_a_pattern():
    assert read(program(), "hello\ntook 1.5e-3 s\n") == {"figure": 0.0015}
    assert read(program({"pattern": r"^(\d+)$", "output": "stderr"}), "7", "a\n12\n") == {
        "figure": 12.0
    }


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("/a/1/b", 3.0), ("/x~1y", 4.0), ("/m~0n", 5.0), ("/", 6.0), ("/text", 7.5)],
)
def test_a_figure_is_found_by_a_json_pointer(pointer, value):
    text = '{"a": [0, {"b": 3}], "x/y": 4, "m~n": 5, "": 6, "text": "7.5"}'
    assert read(program({"pointer": pointer}), text) == {"figure": value}


def test_a_figure_may_be_the_time_on_the_controllers_clock():
    assert read(program({"elapsed": True}), "prints nothing of use") == {"figure": 1.0}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (
            {"elapsed": True, "pattern": "took ([^ ]+) s"},
            "a pattern, a pointer or elapsed, one of the three",
        ),
        ({"elapsed": False}, "a pattern, a pointer or elapsed, one of the three"),
        ({"elapsed": True, "unit": "ms"}, "an elapsed time, in s, not in ms"),
    ],
)
def test_a_metric_has_one_source_and_elapsed_time_is_in_seconds(metric, expected):
    with pytest.raises(ValidationError, match=expected):
        program(metric)


def test_a_pattern_with_the_right_digits_proves_a_result_before_its_time():
    proof = {"pattern": r"(?s)3421170679.*Total Computation Time:\s+([0-9.]+)"}
    text = "70679\n3421170679\nTotal Computation Time:    1.250 seconds\n"
    assert read(program(proof), text) == {"figure": 1.25}
    with pytest.raises(BenchmarkError, match="matches nothing"):
        read(program(proof), text.replace("3421170679", "3421170678"))


def test_a_whole_document_may_be_the_figure():
    assert read(program({"pointer": ""}), " 5\n") == {"figure": 5.0}


@pytest.mark.parametrize(
    ("metric", "stdout", "expected"),
    [
        ({"pattern": "took (.*) s"}, "it ran for 3 s", "matches nothing in stdout: it ran for 3 s"),
        ({"pattern": "took (.*) s"}, "", "it is empty"),
        ({"pattern": "took (.*) s"}, "took 1 s\ntook 2 s", "more than once: '1', '2'"),
        ({"pattern": "took (.*) s"}, "took nan s", "no finite number"),
        ({"pattern": "took (.*) s"}, "took 1,000 s", "no finite number"),
        ({"pattern": "took (.*) s"}, "took 1_0 s", "no finite number"),
        ({"pattern": "took (.*) s"}, "took 1e999 s", "no finite number"),
        ({"pattern": "took(x)? s"}, "took s", "no finite number"),
        ({"pointer": "/a"}, "{", "is not JSON"),
        ({"pointer": "/a"}, "[" * 100_000, "is not JSON"),
        ({"pointer": "/a"}, "9" * 5000, "is not JSON"),
        ({"pointer": "/a"}, '{"b": 1}', "nothing at /a"),
        ({"pointer": "/01"}, "[1, 2]", "nothing at /01"),
        ({"pointer": "/-1"}, "[1, 2]", "nothing at /-1"),
        ({"pointer": "/a"}, '{"a": true}', "no finite number"),
        ({"pointer": "/a"}, '{"a": NaN}', "no finite number"),
        ({"pointer": "/a"}, '{"a": 1' + "0" * 400 + "}", "no finite number"),
    ],
)
def test_what_is_no_figure_fails_the_trial_with_an_excerpt(metric, stdout, expected):
    with pytest.raises(BenchmarkError) as caught:
        read(program(metric), stdout)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_program_that_fails_is_no_figure():
    with pytest.raises(BenchmarkError, match=r"tool .*status 3: out of luck"):
        read(program(), "took 1 s", "out of luck\n", status=3)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:(x)|a|aa)+$", "(.*).*.*.*.*=x"])
def test_a_catastrophic_pattern_ends_in_bounded_time(pattern):
    before, made = time.monotonic(), program({"pattern": pattern})
    results: dict[Role, CommandResult] = {
        "single": CommandResult(("tool",), 0, "a" * 5000 + "!", "", 1.0, 1.0)
    }
    with (
        Parsers() as parsers,
        pytest.raises(ParserFailed, match="tool's output took more than 1 s"),
    ):
        parsers.outcome(made, made.Parameters(), CONTEXT, results, timeout_s=1.0)
    assert time.monotonic() - before < 20


def test_odd_texts_reach_the_pattern_unchanged():
    assert read(program({"pattern": "([0-9]) µs"}), "\ud800 \x00 \u2028 5 µs\r\n") == {
        "figure": 5.0
    }


def test_the_guest_is_given_only_what_is_declared():
    made = program(
        argv={
            "client": ["{files}/c", "{n}", "{peer_address}:{port}"],
            "server": ["{files}/c", "-p", "{port}"],
        },
        parameters={"n": 3},
        files=["/x/c"],
        port=7000,
        timeout="1min",
    )
    server, client = made.commands(made.Parameters.model_validate({"n": 4}), CONTEXT)
    assert server.argv == ("/scratch/vtax-own-server-1/c", "-p", "7001")
    assert (server.role, server.place, server.ready_port) == ("server", "peer", 7001)
    assert client.argv == ("/s/vtax-own-client-1/c", "4", "198.18.0.2:7001")
    assert (client.role, client.place, client.timeout_s) == ("client", "guest", 60.0)
    assert [(file.path, file.data) for file in client.files] == [
        ("/s/vtax-own-client-1/c", b"data")
    ]
    assert made.needs_network


def test_the_version_is_what_the_command_prints_or_what_the_files_hold():
    assert program().version_of("tool 1.2\nmore") == "tool 1.2"
    with pytest.raises(BenchmarkError, match="printed no version"):
        program().version_of(" \n")
    own = program(argv={"guest": ["{files}/x"]}, files=["/y/x"], version=None)
    (digest,) = own.host_files.values()
    assert digest == hashlib.sha256(b"data").hexdigest(), "what sha256sum prints"
    assert own.version_of("") == f"sha256:{digest[:12]}"


def test_variables_are_filled_like_arguments_and_decide_what_runs():
    plain = program()
    own = program(environment={"THREADS": "{vcpus}", "MODE": "{mode}"}, parameters={"mode": "fast"})
    (command,) = own.commands(own.Parameters(), CONTEXT)
    assert dict(command.environment) == {"THREADS": "2", "MODE": "fast"}
    assert plain.definition != own.definition
    assert "with: THREADS={vcpus}, MODE={mode}" in own.command_line


def test_packages_are_the_images_and_decide_what_runs():
    own = program(packages=["stress-ng", "libc6-dev"])
    assert own.packages == ("stress-ng", "libc6-dev")
    assert own.definition != program().definition
    assert "packages: stress-ng, libc6-dev" in own.command_line


def test_without_either_a_program_is_what_it_was():
    """The key of its cells must not change."""
    assert program().definition == program(environment={}, packages=[]).definition


def test_files_stay_in_the_guest():
    own = program(files=["/x/a"], argv={"guest": ["{files}/a"]})
    (command,) = own.commands(own.Parameters(), CONTEXT)
    assert command.directory == "/s/vtax-own-guest-1"
    assert [file.path for file in command.files] == ["/s/vtax-own-guest-1/a"]
    assert command.after == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": {"1A": "x"}}, "names of variables"),
        ({"environment": {"A=B": "x"}}, "names of variables"),
        ({"environment": {"A": "{nothing}"}}, "no parameter 'nothing'"),
        ({"packages": ["--reinstall"]}, "no name of a Debian package"),
        ({"packages": ["a; rm"]}, "no name of a Debian package"),
    ],
)
def test_what_is_no_variable_and_no_package_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        program(**changes)


RATE = {"name": "rate", "unit": "req/s", "better": "higher"}


@pytest.mark.parametrize(
    ("pattern", "line", "part"),
    [
        (r"rate.*?([0-9.]+) req", "rate 1,234.5 req/s", "thousands"),
        (r"rate ([0-9.]+)", "rate 1,234.5 req/s", "thousands"),
        (r"rate ([0-9]+)", "rate 1234.5 req/s", "decimals"),
        (r"rate ([0-9.]+)", "rate 0,574 req/s", "decimals"),
        (r"rate ([0-9.]+)", "rate 1'234 req/s", "thousands"),
        (r"rate ([0-9.]+)", "rate 1\N{NARROW NO-BREAK SPACE}234 req/s", "thousands"),
        (r"rate ([0-9.]+)", "rate 1.5e-3 req/s", "an exponent"),
        (r"rate ([0-9.]+)", "rate 1.5E6", "an exponent"),
        (r"rate ([0-9.]+)", "rate 12k", "a suffix"),
        (r"rate ([0-9.]+)", "rate 1.5M req/s", "a suffix"),
        (r"rate ([0-9.]+)", "rate 1.5 G", "a suffix"),
        (r"rate ([0-9.]+)", "rate 6.63MB/s", "a suffix"),
        (r"rate ([0-9.]+)", "rate 512KiB", "a suffix"),
        (r"rate ([0-9.]+).*", "rate 12k", "a suffix"),
        (r"rate \D*([0-9.]+)", "rate -12.5", "a sign"),
        (r"rate (\d{2})", "rate 1234", "more digits"),
        (r"(\d{2})$", "rate 1234", "more digits"),
    ],
)
def test_a_pattern_that_reads_a_part_of_a_number_is_refused_with_its_line(pattern, line, part):
    with pytest.raises(BenchmarkError) as refusal:
        read(program({**RATE, "pattern": pattern}), f"starting\n{line}\ndone\n")
    assert part in refusal.value.what
    assert "a part of a number" in refusal.value.what
    assert " ".join(line.split()) in refusal.value.what
    assert "done" not in refusal.value.what


@pytest.mark.parametrize(
    ("pattern", "line", "value"),
    [
        (r"rate ([0-9.]+)", "rate 1234.5 req/s", 1234.5),
        (r"rate ([0-9.]+)$", "rate 1234.5", 1234.5),
        (r"rate ([0-9.e+-]+)", "rate 1.5e3 req/s", 1500.0),
        (r"rate ([0-9.]+)k", "rate 12k", 12.0),  # the pattern names it: the unit is a thousand
        (r"rate ([0-9.]+)[kM]B", "rate 12kB", None),  # it may be either
        (r"^a,([0-9.]+),", "a,12,13", 12.0),
        (r"^a,\d+,([0-9.]+)$", "a,12,13", 13.0),
        (r"rate ([0-9.]+)", "rate 12, of which 3 failed", 12.0),
        (r"rate ([0-9.]+)", "rate 12 Trials", 12.0),
        (r"rate ([0-9.]+)", "rate 12ms", 12.0),
        (r"rate ([0-9.]+)", "rate 12%", 12.0),
        (r"x=([0-9]+)", "x=5-7", 5.0),
        (r"([0-9.]+) req/s", "at 10:12:33 12.5 req/s", 12.5),
        (r"rate ([0-9]+)", "rate 12.", 12.0),
    ],
)
def test_a_pattern_that_reads_a_whole_number_or_names_what_follows_is_not_refused(
    pattern, line, value
):
    made = program({**RATE, "pattern": pattern})
    if value is None:
        with pytest.raises(BenchmarkError, match="a suffix"):
            read(made, line)
    else:
        assert read(made, line) == {"rate": value}


def test_the_unit_behind_a_number_is_no_suffix_where_it_is_the_declared_one():
    metric = {**RATE, "unit": "MB/s", "pattern": "rate ([0-9.]+)"}
    assert read(program(metric), "rate 6.63MB/s") == {"rate": 6.63}
    assert read(program(metric), "rate 6.63 MB/s") == {"rate": 6.63}
    with pytest.raises(BenchmarkError, match="a suffix"):
        read(program(metric), "rate 663.2 KB/s")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1,234.5", "separators of thousands"),
        ("1'234", "separators of thousands"),
        ("12,5", "a decimal comma"),
        ("1.234,5", "a decimal comma"),
        ("12k", "a suffix"),
        ("1.5 GB/s", "a suffix"),
    ],
)
def test_a_number_in_another_form_is_named(text, form):
    for metric, printed in (
        ({"pattern": "took (.*) s"}, f"took {text} s"),
        ({"pointer": "/a"}, f'{{"a": "{text}"}}'),
    ):
        with pytest.raises(BenchmarkError, match=f"no finite number: .*{form}"):
            read(program(metric), printed)


@pytest.mark.parametrize(
    ("metric", "printed", "is_figure"),
    [
        ({"better": "higher"}, "0", False),
        ({"better": "higher", "zero": True}, "0", True),
        ({"better": "lower"}, "0", True),
        ({"better": "higher", "zero": True}, "-1", False),
        ({"better": "lower"}, "-1", False),
        ({"better": "lower", "unit": "%"}, "180", True),  # what it is of is not known
    ],
)
def test_zero_is_a_figure_where_less_is_better_or_the_study_says_so(metric, printed, is_figure):
    made = program({"name": "figure", "unit": "1/s", "pattern": "^(.+)$", **metric})
    results: dict[Role, CommandResult] = {
        "single": CommandResult(("tool",), 0, printed, "no server\n", 1.0, 1.0)
    }
    parameters = made.Parameters()
    with Parsers([(made, parameters)]) as parsers:
        if is_figure:
            found = parsers.outcome(made, parameters, CONTEXT, results)
            assert found.values == {"figure": float(printed)}
            return
        with pytest.raises(BenchmarkError, match=f"figure {printed} ") as refusal:
            parsers.outcome(made, parameters, CONTEXT, results)
    assert refusal.value.where == "no server"
    assert ("zero = true" in refusal.value.hint) == (printed == "0")


def test_zero_is_no_key_of_what_is_better_lower():
    with pytest.raises(ValidationError, match="better lower"):
        program({"pattern": "(.*)", "better": "lower", "zero": True})
