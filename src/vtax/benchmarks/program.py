"""The user's own program as a benchmark: what a study's `[[program]]` declares, run and read like any other tool.

Measures what the program itself prints. It says nothing of what the program does; known trap: a figure that the
guest's clock timed, see the warning `clock-skew`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import create_model

from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    GuestFile,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
)
from vtax.benchmarks.numbers_in_text import NUMBER, form_of, rest_of_number
from vtax.benchmarks.printed import Printed, printed
from vtax.benchmarks.words import own_message
from vtax.errors import BadInput, BenchmarkError
from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.guest.results import CommandResult
from vtax.host.foreign_file import open_foreign
from vtax.host.trust import refuse_file_of_others
from vtax.image.toolbox import ENTRY as PATH_OF_ENTRY
from vtax.image.toolbox import OF_IMAGE
from vtax.stats.terms import is_rate
from vtax.study import limits
from vtax.study.fields import Privilege
from vtax.study.programs import ENTRY, FILES, MetricTable, ProgramTable, filled
from vtax.units import about_size

_EXCERPT = 300
_LONGEST_VERSION = 80
_DIGITS = 12  # of a SHA-256 in a version
_LONGEST_MATCH = 100
_TIMERS_S = (1.0, 0.5, 0.25, 0.2, 0.1, 0.05)  # steps that clients look at their end in
_LATE = 0.03  # of a step, that a timer may be late
_MOST_BESIDE = 4.0  # times as long as its rate is of, that a client runs
_SEE_OUTPUT = "vtax show RUN --raw all prints what the program wrote"
_NEAR = 100  # characters of a line beside a figure
_SECONDS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = re.compile(r"([0-9]+\.?[0-9]*) ?(ns|us|µs|ms|s)")
_INTERPRETERS = ("sh", "python3")  # whose names say nothing of a client
_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # of an array, in a JSON Pointer
_ROLES: Mapping[str, Role] = {"guest": "single", "client": "client", "server": "server"}
"""Key of [program.argv] -> the role of its command."""


class ProgramBenchmark(Benchmark):
    """A program of a study, run like any other tool.

    contents: of its files, in their order; none where it is only to read outputs.
    """

    hint_of_zero = "zero = true in [[program.metric]], if 0 is a figure of this program"

    def __init__(self, table: ProgramTable, contents: Sequence[bytes] = ()) -> None:
        self._table = table
        self._contents = tuple(contents)
        self._argv: Mapping[str, Sequence[str]] = table.argv.roles
        self.name = table.name
        self.title = table.title or f"{table.name}, a program of the study"
        self.tool = PurePosixPath(_program_of(table)).name
        self.needs_network = table.needs_network
        self.Parameters: type[Parameters] = _parameters(table)
        primary, *others = table.metric
        self.metrics: Sequence[Metric] = (
            _metric(primary, is_primary=True),
            *(_metric(other, is_primary=False) for other in others),
        )
        self.work = _work(table)
        self.packages = tuple(table.packages)
        self.version_argv = ("true",)
        if table.version:
            self.version_argv = tuple(table.version)
        elif table.is_of_image:
            self.version_argv = tuple(OF_IMAGE)

    @property
    def definition(self) -> str:
        """SHA-256, as hexadecimal digits, of all that decides what runs: commands, defaults and files."""
        defining = {
            "argv": dict(self._argv),
            "parameters": self._table.parameters,
            "port": self._table.port,
            "version": self._table.version,
            "files": {path.name: hashlib.sha256(data).hexdigest() for path, data in self._files()},
        }
        if self._table.server_in == "guest":
            defining["server_in"] = "guest"
        if self._table.environment:
            defining["environment"] = self._table.environment
        if self._table.packages:
            defining["packages"] = self._table.packages
        if self._table.privileges:
            defining["privileges"] = sorted(self._table.privileges)
        return hashlib.sha256(json.dumps(defining, sort_keys=True).encode()).hexdigest()

    def privileges(self, parameters: Any) -> frozenset[Privilege]:
        return frozenset(self._table.privileges)

    @property
    def command_line(self) -> str:
        """The commands, the names of packages, the privileges and the environment, for people."""
        parts = [f"{role}: {shlex.join(argv)}" for role, argv in self._argv.items()]
        if self.packages:
            parts.append(f"packages: {', '.join(self.packages)}")
        if self._table.privileges:
            parts.append(f"privileges: {', '.join(sorted(self._table.privileges))}")
        variables = [f"{name}={value}" for name, value in self._table.environment.items()]
        if variables:
            parts.append(f"with: {', '.join(variables)}")
        return "; ".join(parts)

    @property
    def host_files(self) -> dict[Path, str]:
        """The files of this host that guests get: absolute path without symbolic links and `..` -> its SHA-256."""
        return {path.resolve(): hashlib.sha256(data).hexdigest() for path, data in self._files()}

    def version_of(self, output: str) -> str:
        """Return the first line of what the version command prints; without one, the SHA-256 of every file."""
        if self._table.version is None and not self._table.is_of_image:
            digests = [hashlib.sha256(data).hexdigest()[:_DIGITS] for data in self._contents]
            return f"sha256:{'+'.join(digests)}"
        lines = output.strip().splitlines()
        if not lines:
            raise BenchmarkError(f"{shlex.join(self.version_argv)} printed no version")
        return one_line(lines[0], _LONGEST_VERSION)

    def commands(self, parameters: Any, context: Context) -> Sequence[Command]:
        commands = []
        for role, argv in sorted(self._argv.items(), reverse=True):
            is_server = role == "server"
            at_peer = is_server == (self._table.server_in == "peer") and role != "guest"
            scratch = context.scratch_of(peer=at_peer)
            directory = f"{scratch}/vtax-{self.name}-{role}-{context.flow}"
            port = (self._table.port or 0) + context.flow
            values = {
                **parameters.model_dump(),
                FILES: directory,
                ENTRY: PATH_OF_ENTRY,
                "scratch": scratch,
                "vcpus": context.vcpus,
                "memory_bytes": context.memory_bytes,
                "guest_address": context.guest_address,
                "peer_address": context.peer_address,
                "port": port,
            }
            files = []
            for path, content in self._files():
                files.append(GuestFile(f"{directory}/{path.name}", content, 0o755))
            variables = self._table.environment
            command = Command(
                _ROLES[role],
                tuple(filled(argument, values) for argument in argv),
                place="peer" if at_peer else "guest",
                ready_port=port if is_server and self._table.port else None,
                environment={name: filled(text, values) for name, text in variables.items()},
                files=tuple(files),
                directory=directory if files else "",
                timeout_s=None if is_server else self._table.timeout,
            )
            commands.append(command)
        return commands

    def expected_s(self, parameters: Any, context: Context) -> float:
        """Return the seconds that the study declares."""
        return self._table.expected_duration

    def parse(
        self, parameters: Any, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """Read the metrics; the error of one that is missing has an excerpt of the output."""
        result = results.get("single") or results["client"]
        program = PurePosixPath(result.argv[0]).name
        if "single" not in results and program in _INTERPRETERS:
            program = "the client"
        texts = {"stdout": result.stdout, "stderr": result.stderr}
        if result.status != 0:
            words = own_message(result) or "it printed nothing"
            raise BenchmarkError(f"{program} failed with {result.ended_with}: {words}")
        self._check_success(program, texts.values())
        values: dict[str, float] = {}
        resolutions: dict[str, float] = {}
        for metric in self._table.metric:
            value = _figure(metric, texts[metric.output], result)
            values[metric.name] = value
            if is_rate(metric.unit):
                resolutions[metric.name] = _client_tick(result, value)
        return Outcome(values, resolutions=resolutions)

    def _check_success(self, program: str, texts: Iterable[str]) -> None:
        """Raise BenchmarkError for an output that shows a failure, or does not show the success that it must."""
        texts = list(texts)
        failure = _search(self._table.fails_if, texts)
        if failure is not None:
            raise BenchmarkError(
                f"{program} reports a failure (fails_if): {_excerpt(failure[0])}",
                hint=_SEE_OUTPUT,
            )
        if self._table.must_match is not None and not _search(self._table.must_match, texts):
            raise BenchmarkError(
                f"{program} reports no success: must_match matches nothing in {_excerpt(''.join(texts))}",
                hint=_SEE_OUTPUT,
            )

    def _files(self) -> list[tuple[Path, bytes]]:
        return list(zip(map(Path, self._table.files), self._contents, strict=False))


def _program_of(table: ProgramTable) -> str:
    """Return the program that is measured; of an image's own, what its entry is given first."""
    served = table.argv.server if table.server_in == "guest" else None
    first, *others = table.argv.guest or served or table.argv.client or [""]
    if first != f"{{{ENTRY}}}":
        return first
    return others[0] if others else table.name


def _work(table: ProgramTable) -> Operations | None:
    """Return what a trial does: what a metric counts, or one run where the time of it is the figure."""
    for metric in table.metric:
        if metric.counts is not None:
            return Operations(metric.counts, metric.name, time="µs")
    return Operations("run") if table.metric[0].elapsed else None


def _metric(table: MetricTable, *, is_primary: bool) -> Metric:
    return Metric(
        table.name,
        table.unit,
        table.better,
        table.title,
        is_primary,
        average=table.average,
        over_flows=table.over_flows,
        may_be_zero=table.zero,
        most="unknown",
        role=table.role or ("count" if table.counts is not None else None),
    )


def _search(pattern: str | None, texts: Iterable[str]) -> re.Match[str] | None:
    """Return the first match of a pattern in several texts; None without one, or without a pattern."""
    for text in texts:
        match = re.search(pattern, text, re.MULTILINE) if pattern is not None else None
        if match:
            return match
    return None


def load_program(table: ProgramTable) -> ProgramBenchmark:
    """Return a program with what its files hold now.

    Raises BadInput naming a file that is missing, too large, or that other users may change.
    """
    contents: list[bytes] = []
    for path in table.files:
        remaining_bytes = limits.MAX_FILES_BYTES - sum(map(len, contents))
        contents.append(_content(Path(path), remaining_bytes))
    return ProgramBenchmark(table, contents)


def _content(path: Path, limit: int) -> bytes:
    """Return what a file holds. Raises BadInput when that is more than limit bytes, or the file cannot be read."""
    hint = "name files, not directories or devices"
    try:
        with open_foreign(path, "a file of a program", limits.MAX_FILES_BYTES, hint=hint) as file:
            refuse_file_of_others(path, os.fstat(file.fileno()))
            content = file.read(limit + 1) or b""
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(
            f"{path} cannot be read: {why}", hint="files are looked for beside the study"
        ) from error
    if len(content) > limit:
        raise BadInput(
            f"the files of a program hold at most {about_size(limits.MAX_FILES_BYTES)} together; {path} is beyond",
            hint="put large data into the image, or let the program make it",
        )
    return content


def _parameters(table: ProgramTable) -> type[Parameters]:
    """Return a model in which every parameter has its default and the default's type."""
    fields: dict[str, Any] = {}
    for name, value in table.parameters.items():
        fields[name] = (type(value), value)
    return create_model("ProgramParameters", __base__=Parameters, **fields)


def _figure(metric: MetricTable, text: str, result: CommandResult) -> float:
    """Return the value of a metric. text: of its output."""
    if metric.elapsed:
        return result.outside_s
    if metric.pattern is None:
        return _number_by_pointer(metric, text)
    return _number_by_pattern(metric, metric.pattern, text)


def _number_by_pattern(metric: MetricTable, pattern: str, text: str) -> float:
    compiled = re.compile(pattern, re.MULTILINE)
    matches = list(islice(compiled.finditer(text), 2))
    if not matches:
        raise BenchmarkError(
            f"the pattern of {metric.name} matches nothing in {metric.output}: {_excerpt(text)}",
            hint="correct the pattern; vtax show RUN --raw all prints what the program wrote",
        )
    if len(matches) > 1:
        first, second = (repr((match[1] or "")[:_LONGEST_MATCH]) for match in matches)
        raise BenchmarkError(
            f"the pattern of {metric.name} matches {metric.output} more than once: {first}, {second}",
            hint="a pattern that only the figure itself matches",
        )
    (match,) = matches
    value = _number(metric, match[1] or "")
    rest = rest_of_number(compiled, match, metric.unit)
    if rest:
        raise BenchmarkError(
            f"the pattern of {metric.name} matches {match[1][:_LONGEST_MATCH]!r}, a part of a number: {rest}, in "
            f"{_line_of(text, match)!r}",
            hint="a pattern whose group is the whole number, and that has what follows it, such as its unit",
        )
    return value


def _line_of(text: str, match: re.Match[str]) -> str:
    """Return the line of a match's group, of a long one what is near it."""
    start = max(text.rfind("\n", 0, match.start(1)) + 1, match.start(1) - _NEAR)
    end = text.find("\n", match.end(1))
    return one_line(text[start : end if end >= 0 else len(text)][: 3 * _NEAR])


def _client_tick(result: CommandResult, rate: float) -> float:
    """Return the smallest step of a rate whose client ends on a timer of its own, by this one trial; 0 if it may not.

    The work is a number of its command line, which over the rate is a time that the program ran, and a whole number
    of a usual timer's steps. By chance that is so in some trials, of a client with a timer in most.
    """
    if rate <= 0:
        return 0.0
    words = [word for word in result.argv if "\n" not in word]  # a script has other numbers
    for number in set(re.findall(r"(?<![0-9.])[0-9]{2,12}(?![0-9.])", " ".join(words))):
        elapsed_s = int(number) / rate
        if not result.outside_s / _MOST_BESIDE <= elapsed_s <= result.outside_s:
            continue
        for step_s in _TIMERS_S:
            late_s = elapsed_s % step_s
            if elapsed_s >= step_s and late_s <= _LATE * step_s:
                return rate * step_s / elapsed_s
    return 0.0


def _number_by_pointer(metric: MetricTable, text: str) -> float:
    """Return the number at a JSON Pointer (RFC 6901, section 4)."""
    try:
        value = parse_json(text, parse_float=printed)
    except ValueError as error:
        raise BenchmarkError(
            f"{metric.output} is not JSON, where {metric.name} is: {_excerpt(text)}"
        ) from error
    pointer = metric.pointer or ""
    for part in pointer.split("/")[1:]:
        token = part.replace("~1", "/").replace("~0", "~")
        is_index = isinstance(value, list) and _INDEX.fullmatch(token) is not None
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif is_index and int(token) < len(value):
            value = value[int(token)]
        else:
            raise BenchmarkError(
                f"{metric.output} has nothing at {pointer}, for {metric.name}: {_excerpt(text)}"
            )
    return _number(metric, value)


def _number(metric: MetricTable, value: Any) -> float:
    text = value if isinstance(value, str) else repr(value)
    number = math.nan
    if isinstance(value, Printed):
        number = value
    elif not isinstance(value, bool) and NUMBER.fullmatch(text):
        number = printed(text)
    time = _TIME.fullmatch(text)
    if time and metric.unit in _SECONDS:  # 43.43ms
        number = printed(time[1]) * (_SECONDS[time[2]] / _SECONDS[metric.unit])
    if math.isfinite(number):
        return number
    what = f"{metric.name} is {one_line(repr(value), 80)}, which is no finite number"
    form = form_of(value) if isinstance(value, str) else ""
    raise BenchmarkError(f"{what}: it has {form}" if form else what)


def _excerpt(text: str) -> str:
    """Return the beginning of an output on one line."""
    return one_line(text[:_EXCERPT], _EXCERPT) or "it is empty"
