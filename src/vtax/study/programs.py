"""`[[program]]`: a benchmark of the user's own program, without Python, as declared; `benchmarks.program` runs it.

An argument may hold `{name}` in braces: a parameter, or one of the names in BUILT_IN. `{{` and `}}` stand for braces.
Nothing is a shell's: one entry of argv is one argument of the program, whatever a parameter holds.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path, PurePath, PurePosixPath
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from vtax.errors import BadInput
from vtax.levels import Level
from vtax.stats.terms import Better, MetricRole
from vtax.study import limits
from vtax.study.fields import Duration, Name, Privilege, StudyTable, disagreement
from vtax.study.text import beside, parse, read

FILES = "files"
ENTRY = "entry"
BUILT_IN = {
    FILES: "the directory of the program's files in the guest",
    ENTRY: "the program of your own image, or what follows, with the image's environment, directory and user",
    "scratch": "a writable directory in the guest",
    "vcpus": "virtual CPUs of the guest",
    "memory_bytes": "memory of the guest",
}
BUILT_IN_NETWORK = {
    "guest_address": "address of the guest under test",
    "peer_address": "address of its peer, where the server runs",
    "port": "the program's port, one more for each flow that runs at once",
}
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,100}")
_OPERATION = re.compile("[a-z]{1,40}")
_POINTER = re.compile(r"(?:/(?:[^/~]|~[01])*)*")  # RFC 6901, section 3

Argv = Annotated[list[str], Field(min_length=1, max_length=limits.MAX_ARGUMENTS)]


def _expression(pattern: str) -> str:
    _groups_of(pattern)
    return pattern


def _pattern(pattern: str) -> str:
    groups = _groups_of(pattern)
    if groups != 1:
        raise ValueError(
            f"a pattern with {groups} groups; it needs one, around the number, others as (?:...)"
        )
    return pattern


def _groups_of(pattern: str) -> int:
    """Return how many groups a regular expression has. Raises ValueError for what is none."""
    if len(pattern) > limits.LONGEST_PATTERN:
        raise ValueError(f"a pattern has at most {limits.LONGEST_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern, re.MULTILINE).groups
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"no regular expression ({error})") from error


def _pointer(pointer: str) -> str:
    if not _POINTER.fullmatch(pointer):
        raise ValueError("no JSON Pointer, which begins with '/' (RFC 6901)")
    return pointer


def _package(name: str) -> str:
    if not _PACKAGE.fullmatch(name):
        raise ValueError("no name of a Debian package (Debian Policy 5.6.1)")
    return name


def _operation(name: str) -> str:
    if not _OPERATION.fullmatch(name):
        raise ValueError("the name of one operation is at most 40 lower-case letters")
    return name


class ArgvTable(StudyTable):
    """`[program.argv]`: the program of each role and its arguments; `guest` alone, or `client` and `server`."""

    guest: Argv | None = Field(None, description="the program that is measured, in the guest")
    client: Argv | None = Field(None, description="the program whose output is read, with a server")
    server: Argv | None = Field(
        None, description="the program that serves it, ended after the client"
    )

    @property
    def roles(self) -> dict[str, list[str]]:
        """The commands that are given, by the name of their key."""
        commands = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: argv for name, argv in commands.items() if argv is not None}


class MetricTable(StudyTable):
    """`[[program.metric]]`: one figure in what the program prints. The first metric is the one tables show first."""

    name: Name
    unit: Annotated[str, Field(min_length=1, max_length=40)]
    better: Better = Field(description="whether higher or lower is better")
    role: MetricRole | None = Field(
        None,
        description="what it is, by which verdicts are worded; by its name and unit where it is not given",
    )
    title: str = ""
    pattern: Annotated[str, AfterValidator(_pattern)] | None = Field(
        None,
        description="Python regular expression with one group, the number; '^' and '$' are those of a line",
    )
    pointer: Annotated[str, AfterValidator(_pointer)] | None = Field(
        None, description="JSON Pointer (RFC 6901) to the number, when the output is JSON"
    )
    elapsed: bool = Field(
        False,
        description="whether the figure is the time of the program on the controller's clock, in s",
    )
    counts: Annotated[str, AfterValidator(_operation)] | None = Field(
        None,
        description="what it is the number of, such as 'request': the host's CPU time is then given for one",
    )
    output: Literal["stdout", "stderr"] = Field("stdout", description="where the program prints it")
    average: Literal["arithmetic", "harmonic"] = Field(
        "arithmetic", description="of the trials of a block: 'harmonic' for a rate over fixed work"
    )
    over_flows: Literal["mean", "sum"] = Field("mean", description="of several flows at once")
    zero: bool = Field(
        False,
        description="whether 0 is a figure where higher is better; otherwise a trial with it fails",
    )

    @model_validator(mode="after")
    def _is_one_figure(self) -> MetricTable:
        sources = {
            "pattern": self.pattern is not None,
            "pointer": self.pointer is not None,
            "elapsed": self.elapsed,
        }
        given_sources = [name for name, is_given in sources.items() if is_given]
        if len(given_sources) != 1:
            what = f"the metric {self.name} needs a pattern, a pointer or elapsed, one of the three"
            raise disagreement(what, given_sources[0] if given_sources else "pointer")
        if self.zero and self.better == "lower":
            raise disagreement(
                f"the metric {self.name} is better lower, where 0 is a figure anyway", "zero"
            )
        if self.counts is not None and self.elapsed:
            raise disagreement(f"the metric {self.name} is a time, and no number", "counts")
        if self.elapsed and self.unit != "s":
            raise disagreement(
                f"the metric {self.name} is an elapsed time, in s, not in {self.unit}", "unit"
            )
        return self


class ProgramTable(StudyTable):
    """`[[program]]`: a program of one's own; `[[benchmark]]` uses it by its name."""

    name: Name
    title: str = ""
    argv: ArgvTable
    parameters: dict[str, Level] = Field(
        default_factory=dict,
        max_length=limits.MAX_PARAMETERS,
        description="parameter -> default; a level is of the same type",
    )
    files: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        max_length=limits.MAX_FILES,
        description="files of this host, beside the study, that are put into the directory {files} of the guest",
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        max_length=limits.MAX_PARAMETERS,
        description="variables of the program's environment; values may hold names in braces, as arguments do",
    )
    packages: list[Annotated[str, AfterValidator(_package)]] = Field(
        default_factory=list,
        max_length=limits.MAX_FILES,
        description="Debian packages that the program needs: a layer of the image has those that the base lacks",
    )
    privileges: list[Privilege] = Field(
        default_factory=list,
        description="what the program needs beyond the confinement of guests; all guests of the run get it alike",
    )
    port: int | None = Field(
        None, ge=1, le=65000, description="TCP port that the server listens on when it is ready"
    )
    server_in: Literal["peer", "guest"] = Field(
        "peer", description="where the server runs; the client runs at the other end"
    )
    version: Argv | None = Field(
        None,
        description="prints the version, whose first line is kept; absent: SHA-256 of the files, or {entry}'s image",
    )
    expected_duration: Duration = Field(
        10.0, gt=0, le=limits.MAX_TRIAL_S, description="about how long one trial takes, e.g. '5s'"
    )
    timeout: Duration | None = Field(
        None,
        gt=0,
        le=limits.MAX_TRIAL_S,
        description="longest one trial may take; absent: that of [design]",
    )
    must_match: Annotated[str, AfterValidator(_expression)] | None = Field(
        None,
        description="Python regular expression for the output: a trial whose stdout and stderr it does not match fails",
    )
    fails_if: Annotated[str, AfterValidator(_expression)] | None = Field(
        None,
        description="Python regular expression for the output: a trial whose stdout or stderr it matches fails",
    )
    metric: list[MetricTable] = Field(min_length=1, max_length=limits.MAX_METRICS)

    @property
    def needs_network(self) -> bool:
        """Whether it has a client and a server."""
        return self.argv.guest is None

    @property
    def is_of_image(self) -> bool:
        """Whether it is a program of an image of the user's."""
        return any(argv[0] == f"{{{ENTRY}}}" for argv in self.argv.roles.values())

    @property
    def built_in(self) -> dict[str, str]:
        """Names that an argument may hold besides the parameters, with what they stand for."""
        return {**BUILT_IN, **BUILT_IN_NETWORK} if self.needs_network else BUILT_IN

    @model_validator(mode="after")
    def _agrees(self) -> ProgramTable:
        self._roles_agree()
        self._names_agree()
        self._arguments_agree()
        self._durations_agree()
        counting_metrics = [metric.name for metric in self.metric if metric.counts is not None]
        if len(counting_metrics) > 1:
            raise disagreement(
                f"{' and '.join(counting_metrics)} both count; one metric can", "metric"
            )
        return self

    def _roles_agree(self) -> None:
        if set(self.argv.roles) not in ({"guest"}, {"client", "server"}):
            role_names = ", ".join(self.argv.roles) or "nothing"
            raise disagreement(
                f"argv has {role_names}; it needs guest alone, or client and server", "argv"
            )
        if self.port is not None and not self.needs_network:
            raise disagreement("port is where a server listens, and this program has none", "port")
        if self.version is None and not self.files and not self.is_of_image:
            raise disagreement(
                "version is needed, as there are no files whose SHA-256 tells it", "version"
            )

    def _names_agree(self) -> None:
        for name in self.parameters:
            if name in {**BUILT_IN, **BUILT_IN_NETWORK} or hasattr(BaseModel, name):
                raise disagreement(
                    f"the parameter {name!r} has a name that is taken; choose another",
                    "parameters",
                    name,
                )
            if not _PARAMETER.fullmatch(name):
                what = "names of parameters are at most 40 lower-case letters, digits and '_', a letter first"
                raise disagreement(f"the parameter {name!r}: {what}", "parameters", name)
        for number, metric in enumerate(self.metric):
            if metric.name in [other.name for other in self.metric[:number]]:
                raise disagreement(
                    f"there are two metrics {metric.name!r}", "metric", number, "name"
                )
        names = [PurePath(path).name for path in self.files]
        for number, name in enumerate(names):
            what = ""
            if name in names[:number]:
                what = "is the name of another file already"
            elif name in ("", ".."):
                what = "names no file"
            if what:
                raise disagreement(f"{self.files[number]!r} {what}", "files")

    def _arguments_agree(self) -> None:
        used_names: set[str] = set()
        known_names = {**self.parameters, **self.built_in}
        for role, argv in self.argv.roles.items():
            for number, argument in enumerate(argv):
                names, problem = _names_in(argument, known_names if number else (FILES, ENTRY))
                if problem:
                    raise disagreement(f"argv.{role} holds {argument!r}: {problem}", "argv", role)
                used_names.update(names)
        for variable, value in self.environment.items():
            if not _VARIABLE.fullmatch(variable):
                what = "names of variables are at most 64 letters, digits and '_', no digit first"
                raise disagreement(f"the variable {variable!r}: {what}", "environment", variable)
            names, problem = _names_in(value, known_names)
            if problem:
                raise disagreement(
                    f"environment.{variable} holds {value!r}: {problem}", "environment", variable
                )
            used_names.update(names)
        for argument in self.version or ():
            if _names_in(argument, ())[1]:
                raise disagreement(
                    "the command of version holds no braces: nothing is put into it", "version"
                )
        for name in self.parameters:
            if name not in used_names:
                what = f"no argument holds the parameter {name}; write {{{name}}} in one, or take it out"
                raise disagreement(what, "parameters", name)
        if self.files and FILES not in used_names:
            raise disagreement(
                "no argument holds {files}, the directory that the files are put into", "files"
            )
        if "port" in used_names and self.port is None:
            raise disagreement("an argument holds {port}, and the program has no port", "port")

    def _durations_agree(self) -> None:
        if self.timeout is not None and self.timeout <= self.expected_duration:
            what = f"the timeout ({self.timeout:g} s) ends a trial before its expected duration"
            raise disagreement(f"{what} ({self.expected_duration:g} s)", "timeout")


def _names_in(argument: str, known_names: Collection[str]) -> tuple[list[str], str]:
    """Return (the names in braces, what is wrong with them)."""
    try:
        names = [name for _, name in pieces(argument) if name is not None]
    except ValueError as error:
        return [], f"{error}; write {{{{ and }}}} for braces"
    for name in names:
        if name not in known_names:
            suggestions = get_close_matches(name, known_names, 2)
            hint = f"known here: {', '.join(known_names) or 'none'}"
            if suggestions:
                hint = f"did you mean {' or '.join(suggestions)}?"
            return names, f"there is no parameter {name!r}; {hint}"
    return names, ""


def pieces(argument: str) -> Iterator[tuple[str, str | None]]:
    """(text, the name in braces after it, None at the end) of an argument. Raises ValueError for stray braces."""
    for text, name, form, conversion in Formatter().parse(argument):
        if name is not None and (form or conversion or not _PARAMETER.fullmatch(name)):
            raise ValueError(f"{{{name}}} is no name in braces")
        yield text, name


def filled(argument: str, values: Mapping[str, Level]) -> str:
    """Return an argument with what its names stand for; true and false as TOML writes them."""
    text = ""
    for before, name in pieces(argument):
        text += before
        if name is not None:
            text += _as_toml(values[name])
    return text


def files_beside(study: Path) -> tuple[str, ...]:
    """Return the files of the programs of a valid study, relative to its file. Raises BadInput for one elsewhere."""
    declared = parse(read(study), str(study))
    names: dict[str, None] = {}
    for program in declared.get("program", ()):
        names |= dict.fromkeys(program.get("files", ()))
    for name in names:
        beside(study, name)
    return tuple(str(PurePosixPath(name)) for name in names)


def with_absolute_files(
    data: Mapping[str, Any], study: Path
) -> tuple[list[BadInput], dict[str, Any]]:
    """(every file of a program that is elsewhere, a study's plain values with absolute paths of these files)."""
    programs = data.get("program")
    if not isinstance(programs, list):
        return [], dict(data)
    problems: list[BadInput] = []
    tables = []
    for number, table in enumerate(programs, 1):
        files = table.get("files") if isinstance(table, dict) else None
        if not isinstance(files, list) or len(files) > limits.MAX_FILES:  # refused for that
            tables.append(table)
            continue
        paths = []
        for name in files:
            if not isinstance(name, str) or not name:
                paths.append(name)
                continue
            try:
                paths.append(str(beside(study, name)))
            except BadInput as error:
                error.where = f"{study}: [[program]] number {number}, key {FILES}"
                problems.append(error)
                paths.append(str(study.absolute().parent / name))
        tables.append({**table, FILES: paths})
    return problems, {**data, "program": tables}


def with_names_of_files(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's plain values with the files of programs by their names alone: where they are is a host's."""
    programs = data.get("program")
    if not isinstance(programs, list):
        return dict(data)
    tables = []
    for table in programs:
        files = table.get("files") if isinstance(table, dict) else None
        if not isinstance(files, list):
            tables.append(table)
            continue
        names = [PurePath(path).name if isinstance(path, str) else path for path in files]
        tables.append({**table, "files": names})
    return {**data, "program": tables}


def _as_toml(value: Level) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)
