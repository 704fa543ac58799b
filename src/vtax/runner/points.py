"""The combinations of levels that a study asks for, checked against tools, topologies and link settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from vtax.benchmarks import length
from vtax.benchmarks import registry as benchmark_registry
from vtax.benchmarks.base import (
    Benchmark,
    Context,
    Metric,
    Parameters,
    Place,
    WorkParameter,
    metrics_of,
)
from vtax.benchmarks.program import ProgramBenchmark, load_program
from vtax.errors import BadInput, BadInputs, Problems, placed
from vtax.image.image import Image
from vtax.image.toolbox import ENTRY as PATH_OF_ENTRY
from vtax.levels import LINK, NO_LEVELS, Levels
from vtax.network import registry as topology_registry
from vtax.network.settings import LinkSettings
from vtax.runner import density
from vtax.study.expand import ALONE, DEFAULT_TOPOLOGY, Colocation, RawPoint, key_of, points
from vtax.study.fields import Scratch
from vtax.study.load import LoadedStudy, refused
from vtax.study.refusals import RefusedStudy, validated

GuestKind = tuple[str, Scratch, bool, tuple[int, bool, bool]]
"""Kind of a guest, its network left out: tuning, where its /scratch is to lie, whether trials start guests of their own, and the kind of
their colocation."""
GuestConfiguration = tuple[GuestKind, Hashable]
"""The kind of a guest, and its network or None."""


@dataclass(frozen=True)
class Point:
    """A combination of levels, checked.

    key: hash of all that defines it except the platform.
    is_cold: whether a command of it is.
    trial_time_s: how long trials are to measure, of a tool that is given a count of work. The parameters then hold the
        least count, until a platform's own is known.
    """

    key: str
    label: str
    benchmark: Benchmark
    parameters: Parameters
    topology: str
    link: LinkSettings | None
    levels: Levels = NO_LEVELS
    tuning: str = ""
    scratch: Scratch = "volume"
    colocation: Colocation = ALONE
    is_cold: bool = False
    trial_time_s: float | None = None

    @property
    def counted(self) -> WorkParameter | None:
        """The parameter whose value every platform finds out for itself; None where the study says how much is done."""
        return None if self.trial_time_s is None else self.benchmark.counted(self.parameters)

    def with_count(self, counted: WorkParameter, count: float) -> Point:
        """Return the point with a count of work in a trial."""
        return replace(self, parameters=length.with_count(self.parameters, counted, count))

    @property
    def count_of_work(self) -> tuple[str, Any]:
        """The name of the parameter that is found out, and its value."""
        counted = self.counted
        assert counted is not None
        return counted.parameter, self.parameters.model_dump(mode="json")[counted.parameter]

    @property
    def stored_parameters(self) -> dict[str, Any]:
        """The parameters as a run keeps them with each cell."""
        counted = self.counted
        if counted is None or self.trial_time_s is None:
            return self.parameters.model_dump(mode="json")
        return length.stored_parameters(self.parameters, counted, self.trial_time_s)

    def programs(self, *places: Place) -> list[str]:
        """Return the programs that its benchmark runs at these places and does not bring as files.

        Raises BadInput where the size of a guest decides them.
        """
        programs = []
        for command in self.benchmark.commands(self.parameters, Context(1, 1 << 40)):
            program = _started_program(command.argv)
            is_brought = any(file.path == program for file in command.files)
            if command.place in places and not is_brought:
                programs.append(program)
        return programs

    @property
    def guests(self) -> int:
        """How many guests of the platform under test run at once."""
        of_topology = topology_registry.get(self.topology).guests(self.link) if self.link else 1
        return of_topology * self.colocation.guests + bool(self.colocation.neighbour)

    @property
    def guests_here(self) -> int:
        """How many of them run on this host: those that serve may stand on another machine."""
        if self.link is None:
            return self.guests
        return self.guests - topology_registry.get(self.topology).guests_there(self.link)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of the benchmark, and of several guests that run it at once where their number is a factor."""
        own = self.own_metrics
        if not self.colocation.is_counted:
            return own
        if self.benchmark.stages:
            return (*own, *density.MEMORY)
        return (*own, *density.metrics(own))

    @cached_property
    def own_metrics(self) -> tuple[Metric, ...]:
        """Metrics of the benchmark alone; where platforms do unlike counts of work, those that can be compared."""
        metrics = metrics_of(self.benchmark, self.parameters)
        return metrics if self.trial_time_s is None else length.comparable_metrics(metrics)

    def expected_s(self, context: Context) -> float:
        """Return about how long one trial takes, with the rate of its link."""
        rate = self.link.rate_mbit_s if self.link else None
        on_link = replace(context, link_mbit_s=rate)
        return length.expected_s(self.benchmark, self.parameters, on_link, self.trial_time_s)

    @property
    def kind(self) -> GuestKind:
        """The kind of guest that runs this point, its network left out."""
        return (self.tuning, self.scratch, bool(self.benchmark.stages), self.colocation.kind)

    @property
    def configuration(self) -> GuestConfiguration:
        """The kind, topology and structure of links of a guest that runs this point."""
        network = (self.topology, self.link.structure()) if self.link else None
        return (self.kind, network)


def checked_points(loaded: LoadedStudy, image: Image) -> tuple[Point, ...]:
    """Return every point of a study, in its order. Raises BadInput naming source, table and key of every problem.

    Addresses are of the right form only: nothing is made yet.
    """
    guest = loaded.study.guest
    context = Context(guest.vcpus, guest.memory)
    guest_key = guest.model_dump(exclude={"disk", "image"})  # the image's key says them
    programs, program_problems = _load_programs(loaded)
    refused_programs = {table.name for table in loaded.study.program} - programs.keys()
    checked: dict[str, Point] = {}
    links: dict[Any, LinkSettings] = {}
    problems: dict[str, BadInput] = {}
    for raw in points(loaded.study):
        if raw.benchmark in refused_programs:
            continue
        where = f"{loaded.source}: [[benchmark]] number {raw.table + 1} ({raw.label})"
        try:
            with placed(where):
                point = _checked_point(raw, programs, context, image, guest_key, links, where)
            _refuse_same(checked.get(point.key), point, where)
            checked[point.key] = point
        except BadInput as error:
            problems.setdefault(str(error), error)
            if len(problems) > BadInputs.MAX_SHOWN:
                break
    if program_problems or problems:
        raise refused([*program_problems, *problems.values()], loaded.source)
    return tuple(checked.values())


def _started_program(argv: Sequence[str]) -> str:
    """Return the program of a command: of one that an image's entry becomes, that one."""
    if argv[0] == PATH_OF_ENTRY and argv[1:] and argv[1].startswith("/"):
        return argv[1]
    return argv[0]


def programs_of(loaded: LoadedStudy) -> dict[str, ProgramBenchmark]:
    """Return the programs that a study declares, by name, with their files.

    Raises BadInput for every one that cannot be.
    """
    programs, problems = _load_programs(loaded)
    if problems:
        raise refused(problems, loaded.source)
    return programs


def _load_programs(loaded: LoadedStudy) -> tuple[dict[str, ProgramBenchmark], list[BadInput]]:
    """Return the programs of a study that can be, by name, and a problem for each of the others."""
    problems = Problems()
    programs: dict[str, ProgramBenchmark] = {}
    for number, table in enumerate(loaded.study.program, 1):
        where = f"{loaded.source}: [[program]] number {number} ({table.name})"
        if table.name in benchmark_registry.benchmarks():
            what = f"there is a benchmark {table.name} already"
            problems.found.append(
                BadInput(what, where=f"{where}, key name", hint="another name for the program")
            )
            continue
        program = problems.of(partial(load_program, table), f"{where}, key files")
        if program:
            programs[table.name] = program
    return programs, problems.found


def _refuse_same(known: Point | None, point: Point, where: str) -> None:
    """Raise BadInput for a point that another one of the study already is: `64KiB` and 65536 are one level."""
    if known is not None:
        first, second = (str(same.levels) or same.label for same in (known, point))
        hint = "measure it once: keep one of the two"
        raise BadInput(f"{first} and {second} are the same point", where=where, hint=hint)


def _checked_point(
    raw: RawPoint,
    programs: Mapping[str, ProgramBenchmark],
    context: Context,
    image: Image,
    guest: Mapping[str, Any],
    links: dict[Any, LinkSettings],
    where: str,
) -> Point:
    """Return a point of a study, checked.

    raw: the point as the study has it.
    programs: that the study declares, by name.
    context: of a trial, for the commands.
    image: that guests are started from.
    guest: settings of guests that define the point.
    links: settings of links that were checked before; those of this point are added.
    where: the table, for errors.
    """
    with placed(f"{where}, key name"):
        benchmark: Benchmark = programs.get(raw.benchmark) or benchmark_registry.get(
            raw.benchmark, programs
        )
    problems = Problems()
    parameters = problems.of(lambda: _checked_parameters(benchmark, raw, where))
    trial_time_s = None
    if parameters is not None and raw.trial_time_s is not None:
        timed = problems.of(partial(_timed_parameters, benchmark, parameters, raw, where))
        parameters, trial_time_s = timed or (None, None)
    network = problems.of(lambda: _checked_network(benchmark, raw, where, links))
    if parameters is None or network is None:
        raise refused(problems.found, where)
    topology, link = network
    try:
        is_cold = any(command.is_cold for command in benchmark.commands(parameters, context))
    except BadInput as error:
        for problem in error.problems if isinstance(error, BadInputs) else [error]:
            if problem.where in benchmark.Parameters.model_fields:
                table = "factors" if problem.where in raw.levels else "parameters"
                problem.where = f"{where}, key {table}.{problem.where}"
        raise
    _refuse_colocation(benchmark, raw, where)
    point = Point(
        key="",
        label=raw.label,
        benchmark=benchmark,
        parameters=parameters,
        topology=topology,
        link=link,
        levels=raw.levels,
        tuning=raw.tuning,
        scratch=raw.scratch,
        colocation=raw.colocation,
        is_cold=is_cold,
        trial_time_s=trial_time_s,
    )
    defining = {
        "benchmark": benchmark.name,
        "parameters": point.stored_parameters,
        "topology": topology,
        "link": link.model_dump(mode="json") if link else {},
        "guest": guest,
        "image": image.key,
        "scratch": raw.scratch,
    }
    if raw.tuning:
        defining["tuning"] = raw.tuning
    defining |= raw.colocation.defining
    if isinstance(benchmark, ProgramBenchmark):
        defining["program"] = benchmark.definition
    return replace(point, key=key_of(defining))


def _refuse_colocation(benchmark: Benchmark, raw: RawPoint, where: str) -> None:
    """Raise BadInput for a benchmark that cannot run beside further guests as the study asks."""
    if benchmark.stages and raw.colocation.neighbour:
        what = f"{benchmark.name} starts guests of its own, so neighbour has no place"
        raise BadInput(what, where=f"{where}, key neighbour", hint="take that key out")
    name = raw.topology or DEFAULT_TOPOLOGY
    if not benchmark.needs_network or not raw.colocation.is_counted:
        return
    if not topology_registry.get(name).joins_several:
        topologies = topology_registry.topologies().items()
        able = ", ".join(name for name, topology in topologies if topology.joins_several)
        raise BadInput(
            f"{name} has a number of guests of its own, so guests has no place",
            where=f"{where}, key guests",
            hint=f"take that key out, or choose a topology that joins several side by side: {able}",
        )


def _checked_network(
    benchmark: Benchmark, raw: RawPoint, where: str, links: dict[Any, LinkSettings]
) -> tuple[str, LinkSettings | None]:
    """Return topology and link settings; "" and None of a benchmark that needs no network."""
    if benchmark.needs_network:
        topology = raw.topology or DEFAULT_TOPOLOGY
        return topology, _checked_link(raw, benchmark, topology, where, links)
    if raw.topology or raw.link:
        key = "topology" if raw.topology else _link_key(raw, next(iter(raw.link)))
        raise BadInput(
            f"{raw.benchmark} uses no network, so topology and link have no place",
            where=f"{where}, key {key}",
            hint="take that key out, or choose a network benchmark such as iperf3",
        )
    return "", None


def _checked_link(
    raw: RawPoint, benchmark: Benchmark, topology: str, where: str, known: dict[Any, LinkSettings]
) -> LinkSettings:
    """Return the settings of a point's links, checked against this host. known: those that were checked before."""
    given = (topology, *((name, type(value), value) for name, value in raw.link.items()))
    if given not in known:
        with placed(f"{where}, key topology"):
            chosen = topology_registry.get(topology)
        link = _parsed_link(raw, benchmark, topology, where)
        with placed(f"{where}, keys topology and link"):
            chosen.check(link)
        known[given] = link
    return known[given]


def _parsed_link(raw: RawPoint, benchmark: Benchmark, topology: str, where: str) -> LinkSettings:
    try:
        return topology_registry.settings(topology, raw.link)
    except topology_registry.ForeignSetting as error:
        key = _link_key(raw, error.setting)
        raise BadInput(error.what, where=f"{where}, key {key}", hint=error.hint) from error
    except RefusedStudy as error:
        problems = []
        for problem in error.problems:
            setting = str(problem.place[0]) if problem.place else ""
            what, hint = problem.what, problem.hint or "vtax topologies explains them"
            if problem.is_unknown and setting in benchmark.Parameters.model_fields:
                what = f"unknown link setting {setting!r}"
                hint = f"{setting} is a parameter of {raw.benchmark}: it belongs in parameters or factors"
            key = _link_key(raw, setting) if setting else "link"
            problems.append(BadInput(what, where=f"{where}, key {key}", hint=hint))
        raise refused(problems, where) from error


def _link_key(raw: RawPoint, setting: str) -> str:
    table = "link_factors" if setting in raw.levels.link else "link"
    return f"{table}.{setting}"


def _checked_parameters(benchmark: Benchmark, raw: RawPoint, where: str) -> Parameters:
    general_hint = f"vtax benchmarks {_help_name(benchmark, where)} explains every parameter"
    try:
        return validated(benchmark.Parameters, raw.parameters, "parameter", general_hint)
    except RefusedStudy as error:
        problems = []
        for problem in error.problems:
            name = ".".join(map(str, problem.place))
            table = "factors" if name in raw.levels else "parameters"
            hint = _hint_of_table(name) if problem.is_unknown else ""
            if problem.is_unknown and benchmark.needs_network:
                hint = hint or _hint_of_link(name, table)
            what = f"unknown parameter {name!r}" if hint else problem.what
            problems.append(
                BadInput(
                    f"{benchmark.name}: {what}",
                    where=f"{where}, key {table}.{name}" if name else where,
                    hint=hint or problem.hint or general_hint,
                )
            )
        raise refused(problems, where) from error


def _timed_parameters(
    benchmark: Benchmark, parameters: Parameters, raw: RawPoint, where: str
) -> tuple[Parameters, float | None]:
    """Return the parameters of trials of a time, and that time where the tool is given a count of work."""
    assert raw.trial_time_s is not None
    with placed(f"{where}, key trial_time"):
        given = length.given_time(benchmark, parameters, raw.trial_time_s)
    counted = benchmark.counted(given)
    if length.DURATION in given.model_fields_set or counted is None:
        return given, None
    return length.with_count(given, counted, counted.least), raw.trial_time_s


def _help_name(benchmark: Benchmark, where: str) -> str:
    """Return what `vtax benchmarks` calls a benchmark: its name, or the study that declares the program."""
    return where.partition(": [[")[0] if isinstance(benchmark, ProgramBenchmark) else benchmark.name


def _hint_of_table(name: str) -> str:
    """Return where a factor of the whole table belongs that stands among a tool's parameters; empty for others."""
    if name in ("tuning", "scratch"):
        return f"{name} is a factor over everything: write its levels above the first table in brackets"
    if name not in ("guests", "neighbour"):
        return ""
    return f"{name} is a key of [[benchmark]], with a list of levels; write it beside name"


def _hint_of_link(name: str, table: str) -> str:
    """Return where a setting of the link belongs that stands among a tool's parameters; empty for others."""
    name = name.removeprefix(LINK)
    topologies = topology_registry.topologies().values()
    if not any(name in topology.Settings.model_fields for topology in topologies):
        return ""
    belongs = "link, or with several levels in link_factors"
    if table == "factors":
        belongs = "link_factors"
    return f"{name} is a setting of the link: it belongs in {belongs}"
