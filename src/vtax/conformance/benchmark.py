"""Checks of a benchmark: its declarations, commands, parser and a real trial."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    Metric,
    Outcome,
    Parameters,
    Place,
    Role,
    counted_metrics,
)
from vtax.conformance import declared
from vtax.conformance.check import Check, Failed, Skipped, require
from vtax.conformance.fillings import NAMES, filling
from vtax.conformance.stage import MEMORY_BYTES, CheckEnvironment, GuestStage
from vtax.conformance.target import Target
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host.bounded_calls import CallEnded
from vtax.host.emulated_cpu import timeout_factor
from vtax.image.recipe import is_package_name
from vtax.network import registry as topologies
from vtax.platforms import registry as platforms
from vtax.runner.lanes import Lane
from vtax.runner.parsers import TIMEOUT_S, ParserFailed, Parsers
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point
from vtax.runner.trial import TrialResult, run_trial
from vtax.stats.checks import Better
from vtax.stats.means import Average
from vtax.stats.terms import MetricRole

_MAX_EXPECTED_S = 3600.0
_TIMEOUT_S = 300.0
_LONG_OUTPUT = 1 << 20  # characters
_PARSER_S = 2.0  # for one of them
_GARBAGE = ("", "\n", "{}", "[]", "null", "0 0 0\n", "vtax: \ufffd\x00 is no output\n" * 50)
_CONTEXT = Context(1, MEMORY_BYTES, mtu=1500)


class BenchmarkSubject:
    """The benchmark under test. outputs, failed_outputs: files with its tool's output. values: parameters."""

    def __init__(
        self,
        target: Target,
        environment: CheckEnvironment,
        outputs: Sequence[Path] = (),
        failed_outputs: Sequence[Path] = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.target, self.environment = target, environment
        self.benchmark: Benchmark = target.plugin
        self.outputs, self.failed_outputs = tuple(outputs), tuple(failed_outputs)
        self._values = dict(values or {})
        self._trial: TrialResult | None = None

    @property
    def parameters(self) -> Parameters:
        """The default parameters with the given values. Raises Failed."""
        try:
            return self.benchmark.Parameters(**self._values)
        except ValidationError as error:
            raise Failed(
                f"parameters {self._values or 'by default'}: {error.errors()[0]['msg']}"
            ) from error

    def parsed(self, text: str, status: int = 0, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Return the parser's outcome for a text on stdout and stderr of every program of the trial."""
        commands = self.benchmark.commands(self.parameters, _CONTEXT)
        longest_s = max(10.0, self.benchmark.expected_s(self.parameters, _CONTEXT))
        results: dict[Role, CommandResult] = {
            command.role: CommandResult(command.argv, status, text, text, longest_s, longest_s)
            for command in commands
        }
        parameters = self.parameters
        with Parsers([(self.benchmark, parameters)]) as parsers:
            return parsers.outcome(self.benchmark, parameters, _CONTEXT, results, timeout_s)

    def trial(self) -> TrialResult:
        """Return a trial in native guests, executed once."""
        if self._trial is None:
            self._trial = _trial(self.benchmark, self.parameters, self.environment)
        return self._trial


def _trial(
    benchmark: Benchmark, parameters: Parameters, environment: CheckEnvironment
) -> TrialResult:
    native = platforms.get("native")
    with GuestStage(environment) as stage, Parsers() as parsers:
        if not benchmark.needs_network:
            stage.start(native)
            lane = Lane(Context(1, MEMORY_BYTES), {"guest": stage.endpoints["guest"]})
            point = Point("point", benchmark.name, benchmark, parameters, "", None)
            return run_trial(
                parsers,
                PlannedCell("cell", native, point),
                [lane],
                stage.endpoints,
                None,
                _TIMEOUT_S,
            )
        settings = topologies.settings("point-to-point", {})
        links = topologies.get("point-to-point").build(stage.journal, settings)
        stage.start_ends(links, {"guest": native})
        links.apply(settings)
        flow = links.flows[0]
        context = Context(
            1,
            MEMORY_BYTES,
            guest_address=flow.client_address,
            peer_address=flow.server_address,
            mtu=settings.mtu,
        )
        lane = Lane(
            context, {"guest": stage.endpoints[flow.client], "peer": stage.endpoints[flow.server]}
        )
        point = Point("point", benchmark.name, benchmark, parameters, "point-to-point", settings)
        return run_trial(
            parsers, PlannedCell("cell", native, point), [lane], stage.endpoints, links, _TIMEOUT_S
        )


def _metrics(subject: BenchmarkSubject) -> None:
    metrics = subject.benchmark.metrics
    require(metrics and all(isinstance(m, Metric) for m in metrics), f"metrics is {metrics!r}")
    names = [metric.name for metric in metrics]
    require(len(set(names)) == len(names), f"two metrics have the same name: {', '.join(names)}")
    require(any(metric.primary for metric in metrics), "no metric is primary")
    for metric in metrics:
        require(metric.unit, f"{metric.name} has no unit")
        require(metric.better in get_args(Better), f"{metric.name}: better is {metric.better!r}")
        require(
            metric.effective_role in get_args(MetricRole), f"{metric.name}: role is {metric.role!r}"
        )
        require(
            metric.average in get_args(Average), f"{metric.name}: average is {metric.average!r}"
        )


def _json(subject: BenchmarkSubject) -> None:
    declared.check_json(subject.parameters)


def _commands(subject: BenchmarkSubject) -> None:
    benchmark = subject.benchmark
    commands = benchmark.commands(subject.parameters, _CONTEXT)
    require(
        commands and all(isinstance(c, Command) for c in commands), f"commands returns {commands!r}"
    )
    roles = [command.role for command in commands]
    foreground = [role for role in roles if role in ("single", "client")]
    require(
        set(roles) <= set(get_args(Role)) and len(foreground) == 1,
        f"the roles are {', '.join(roles)}",
    )
    for command in commands:
        require(command.place in get_args(Place), f"{command.role} runs at {command.place!r}")
        for argv in (command.argv, *command.before, *command.after):
            words = isinstance(argv, tuple) and argv and all(isinstance(word, str) for word in argv)
            require(words, f"{command.role}: {argv!r} is no tuple of words")
        are_paths = all(isinstance(path, str) and path.startswith("/") for path in command.makes)
        require(are_paths, f"{command.role} makes {command.makes!r}, which are no paths from /")
    uses_peer = any(command.place == "peer" for command in commands)
    require(
        uses_peer <= benchmark.needs_network,
        "a command runs at the peer, and needs_network is false",
    )


def _expected(subject: BenchmarkSubject) -> None:
    expected_s = subject.benchmark.expected_s(subject.parameters, _CONTEXT)
    is_time = isinstance(expected_s, int | float) and 0 < expected_s < _MAX_EXPECTED_S
    require(is_time, f"expected_s returns {expected_s!r}")


def _version(subject: BenchmarkSubject) -> None:
    argv = subject.benchmark.version_argv
    require(isinstance(argv, tuple) and argv, f"version_argv is {argv!r}")
    with Parsers() as parsers:
        _check_raises(
            "version_of", lambda: parsers.version(subject.benchmark, "sh: command not found\n")
        )


def _parser_garbage(subject: BenchmarkSubject) -> None:
    for text in _GARBAGE:
        _check_raises(f"parse of {text[:20]!r}", partial(subject.parsed, text))


def _parser_time(subject: BenchmarkSubject) -> None:
    real_output = subject.outputs[0].read_text() if subject.outputs else ""
    for name in NAMES:
        try:
            subject.parsed(
                filling(name, _LONG_OUTPUT, real_output), timeout_s=_PARSER_S * timeout_factor()
            )
        except BenchmarkError as error:
            if isinstance(error.__cause__, CallEnded):
                raise Failed(
                    f"parse of {_LONG_OUTPUT >> 20} MiB of {name}: {error.what}"
                ) from error


def _failed_tool(subject: BenchmarkSubject) -> None:
    texts = [path.read_text() for path in subject.outputs] or [""]
    for text in texts:
        _check_raises("parse of a tool that ended with status 1", partial(subject.parsed, text, 1))


def _outputs(subject: BenchmarkSubject) -> None:
    if not subject.outputs:
        raise Skipped("no output of the tool (--output FILE)")
    for path in subject.outputs:
        try:
            _check_outcome(subject.benchmark, subject.parsed(path.read_text()))
        except (BenchmarkError, Failed) as error:
            raise Failed(f"{path.name}: {error}") from error


def _failed_outputs(subject: BenchmarkSubject) -> None:
    if not subject.failed_outputs:
        raise Skipped("no output of a failed run (--failed-output FILE)")
    for path in subject.failed_outputs:
        _check_raises(f"parse of {path.name}", partial(subject.parsed, path.read_text()))


def _check_raises(what: str, call: Any) -> None:
    try:
        returned = call()
    except ParserFailed as error:
        raise Failed(f"{what} raises no BenchmarkError: {error.what}") from error
    except BenchmarkError:
        return
    raise Failed(f"{what} returns {returned!r}")


def _packages(subject: BenchmarkSubject) -> None:
    for name in subject.benchmark.packages:
        require(is_package_name(name), f"packages has {name!r}, which names no package")


def _runs(subject: BenchmarkSubject) -> None:
    result = subject.trial()
    require(not result.error, f"a trial in a native guest fails: {result.error}")
    _check_outcome(subject.benchmark, result.outcome, counted_metrics(subject.benchmark))


def _versions(subject: BenchmarkSubject) -> None:
    benchmark = subject.benchmark
    with GuestStage(subject.environment) as stage:
        stage.start(platforms.get("native"))
        result = stage.guest().run(benchmark.version_argv, timeout_s=30.0)
        with Parsers() as parsers:
            version = parsers.version(benchmark, result.stdout + result.stderr)
    require(version, "version_of returns an empty text")


def _check_outcome(
    benchmark: Benchmark, outcome: Outcome, added_metrics: Iterable[Metric] = ()
) -> None:
    """Require values of declared metrics only, finite and not negative, and all primary metrics.

    added_metrics: those that the runner has added.
    """
    known_names = {metric.name for metric in (*benchmark.metrics, *added_metrics)}
    unknown_names = sorted(set(outcome.values) - known_names)
    require(not unknown_names, f"values of undeclared metrics: {', '.join(unknown_names)}")
    missing = []
    for metric in benchmark.metrics:
        if metric.primary and metric.name not in outcome.values:
            missing.append(metric.name)
    require(not missing, f"no value of {', '.join(missing)}")
    wrong_values = []
    for name, value in outcome.values.items():
        if not _is_value(value):
            wrong_values.append(f"{name} = {value!r}")
    require(not wrong_values, f"values that are not finite or negative: {', '.join(wrong_values)}")
    try:
        json.dumps({**outcome.effective, **outcome.samples}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Failed(f"`effective` or `samples` as JSON: {error}") from error


def _is_value(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )


_S = BenchmarkSubject
CHECKS: tuple[Check[BenchmarkSubject], ...] = (
    Check[_S](
        "type",
        lambda s: declared.check_type(s.benchmark, Benchmark),
        "derive from vtax.benchmarks.base.Benchmark",
    ),
    Check[_S](
        "name",
        lambda s: declared.check_name(s.benchmark.name, s.target.shipped_names),
        "choose a name of lower-case letters, digits and hyphens",
        ("type",),
    ),
    Check[_S](
        "title",
        lambda s: declared.check_line("title", s.benchmark.title),
        "describe it in one line",
        ("type",),
    ),
    Check[_S](
        "parameters-model",
        lambda s: declared.check_model(s.benchmark.Parameters, defaults=False),
        "derive from vtax.benchmarks.base.Parameters; Field(..., description=...) for each parameter",
        ("type",),
    ),
    Check[_S](
        "parameters-json",
        _json,
        "use types that pydantic writes as JSON and reads again",
        ("parameters-model",),
    ),
    Check[_S](
        "metrics", _metrics, "declare a Metric for each value, at least one primary", ("type",)
    ),
    Check[_S](
        "commands",
        _commands,
        "one `single`, or a `client` and a `server`; words in tuples",
        ("parameters-json",),
    ),
    Check[_S]("packages", _packages, "name Debian packages in a tuple of words", ("type",)),
    Check[_S](
        "expected-time",
        _expected,
        "return seconds, above 0 and below an hour",
        ("parameters-json",),
    ),
    Check[_S]("version", _version, "raise BenchmarkError for output without a version", ("type",)),
    Check[_S](
        "parser-garbage",
        _parser_garbage,
        "raise BenchmarkError for unrecognized output",
        ("commands",),
    ),
    Check[_S](
        "parser-time",
        _parser_time,
        "replace nested repetitions, and \\s that crosses lines, in patterns",
        ("commands",),
    ),
    Check[_S](
        "parser-failed-tool",
        _failed_tool,
        "raise BenchmarkError unless the tool ended with 0",
        ("commands",),
    ),
    Check[_S]("parser-outputs", _outputs, "parse the output of the tool", ("commands", "metrics")),
    Check[_S](
        "parser-failed-outputs",
        _failed_outputs,
        "raise BenchmarkError for a failed run",
        ("commands",),
    ),
    Check[_S](
        "runs",
        _runs,
        "see the error; `vtax shell native` opens the same guest",
        ("commands", "metrics"),
    ),
    Check[_S]("version-in-guest", _versions, "print the version with version_argv", ("version",)),
)
