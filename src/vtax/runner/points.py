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
from vtax.network.topology import Topology
from vtax.runner import density
from vtax.study.expand import ALONE, DEFAULT_TOPOLOGY, Colocation, RawPoint, key_of, points
from vtax.study.fields import Scratch
from vtax.study.load import LoadedStudy, refused
from vtax.study.model import BenchmarkTable
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
    def joined(self) -> Topology[Any]:
        """The topology that joins its guests. Only points with a link have one."""
        return topology_registry.get(self.topology)

    @property
    def machines(self) -> Mapping[str, str]:
        """The platforms that reach other machines, by the roles of the ends that are there."""
        return self.joined.machines(self.link) if self.link else {}

    @property
    def guests(self) -> int:
        """How many guests of the platform under test run at once."""
        of_topology = self.joined.guests(self.link) if self.link else 1
        return of_topology * self.colocation.guests + bool(self.colocation.neighbour)

    @property
    def guests_here(self) -> int:
        """How many of them run on this host: those that serve may stand on another machine."""
        there = self.joined.guests_there(self.link) if self.link else 0
        return self.guests - there

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
        metrics = metrics_of(self.benchmark)
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
                with placed(f"{where}, key name"):
                    benchmark = programs.get(raw.benchmark) or benchmark_registry.get(
                        raw.benchmark, programs
                    )
                point = _AskedPoint(raw, benchmark, where).checked(context, links)
                _check_bound(loaded.study.benchmark[raw.table], point, where)
                point = replace(point, key=_key_of_point(point, guest_key, image))
            _refuse_same(checked.get(point.key), point, where)
            checked[point.key] = point
        except BadInput as error:
            problems.setdefault(str(error), error)
            if len(problems) > BadInputs.MAX_SHOWN:
                break
    if program_problems or problems:
        raise refused([*program_problems, *problems.values()], loaded.source)
    return tuple(checked.values())


def _check_bound(table: BenchmarkTable, point: Point, where: str) -> None:
    """Raise BadInput for a bound on the number of guests that no metric of the point can break."""
    until = table.guests_until
    if until is None:
        return
    where = f"{where}, key guests_until"
    names = {metric.name: metric for metric in point.metrics}
    metric = names.get(until.metric)
    if metric is None:
        raise BadInput(
            f"{point.benchmark.name} has no metric {until.metric!r}",
            where=f"{where}.metric",
            hint=f"its metrics are {', '.join(names)}",
        )
    key, other = ("at_most", "at_least") if metric.better == "lower" else ("at_least", "at_most")
    if getattr(until, key) is None:
        raise BadInput(
            f"{metric.name} is {metric.better} where it is better",
            where=f"{where}.{other}",
            hint=f"write {key}",
        )


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


@dataclass(frozen=True)
class _AskedPoint:
    """A point as a study has it.

    where: its table, for errors.
    """

    raw: RawPoint
    benchmark: Benchmark
    where: str

    def checked(self, context: Context, links: dict[Any, LinkSettings]) -> Point:
        """Return the point, without its key. Raises BadInput for all that is wrong with it.

        context: of a trial, for the commands.
        links: settings of links that were checked before; those of this point are added.
        """
        raw, problems = self.raw, Problems()
        timed = problems.of(self._parameters)
        if timed is not None and raw.trial_time_s is not None:
            timed = problems.of(partial(self._timed, timed[0], raw.trial_time_s))
        network = problems.of(partial(self._network, links))
        if timed is None or network is None:
            raise refused(problems.found, self.where)
        is_cold = self._is_cold(timed[0], context)
        self._refuse_colocation()
        return Point(
            key="",
            label=raw.label,
            benchmark=self.benchmark,
            parameters=timed[0],
            topology=network[0],
            link=network[1],
            levels=raw.levels,
            tuning=raw.tuning,
            scratch=raw.scratch,
            colocation=raw.colocation,
            is_cold=is_cold,
            trial_time_s=timed[1],
        )

    def _problem(self, what: str, key: str, hint: str) -> BadInput:
        return BadInput(what, where=f"{self.where}, key {key}", hint=hint)

    def _parameter_key(self, name: str) -> str:
        return f"{'factors' if name in self.raw.levels else 'parameters'}.{name}"

    def _link_key(self, setting: str) -> str:
        return f"{'link_factors' if setting in self.raw.levels.link else 'link'}.{setting}"

    def _parameters(self) -> tuple[Parameters, float | None]:
        """Return the parameters of the tool, whose trials are of no given time."""
        benchmark, where = self.benchmark, self.where
        # the study that declares a program explains it
        is_program = isinstance(benchmark, ProgramBenchmark)
        page = where.partition(": [[")[0] if is_program else benchmark.name
        general_hint = f"vtax benchmarks {page} explains every parameter"
        try:
            parameters = validated(
                benchmark.Parameters, self.raw.parameters, "parameter", general_hint
            )
        except RefusedStudy as error:
            problems = []
            for problem in error.problems:
                name = ".".join(map(str, problem.place))
                hint = self._hint_of_place(name) if problem.is_unknown else ""
                what = f"unknown parameter {name!r}" if hint else problem.what
                problems.append(
                    BadInput(
                        f"{benchmark.name}: {what}",
                        where=f"{where}, key {self._parameter_key(name)}" if name else where,
                        hint=hint or problem.hint or general_hint,
                    )
                )
            raise refused(problems, where) from error
        return parameters, None

    def _hint_of_place(self, name: str) -> str:
        """Return where a name belongs that is no parameter of the tool; empty for one that belongs nowhere."""
        if name in ("tuning", "scratch"):
            return f"{name} is a factor over everything: write its levels above the first table in brackets"
        if name in ("guests", "neighbour"):
            return f"{name} is a key of [[benchmark]], with a list of levels; write it beside name"
        setting = name.removeprefix(LINK)
        topologies = topology_registry.topologies().values()
        if not self.benchmark.needs_network or not any(
            setting in topology.Settings.model_fields for topology in topologies
        ):
            return ""
        belongs = "link, or with several levels in link_factors"
        if name in self.raw.levels:
            belongs = "link_factors"
        return f"{setting} is a setting of the link: it belongs in {belongs}"

    def _timed(self, parameters: Parameters, time_s: float) -> tuple[Parameters, float | None]:
        """Return the parameters of trials of a time, and that time where the tool is given a count of work."""
        with placed(f"{self.where}, key trial_time"):
            given = length.given_time(self.benchmark, parameters, time_s)
        counted = self.benchmark.counted(given)
        if length.DURATION in given.model_fields_set or counted is None:
            return given, None
        return length.with_count(given, counted, counted.least), time_s

    def _network(self, links: dict[Any, LinkSettings]) -> tuple[str, LinkSettings | None]:
        """Return topology and link settings; "" and None of a benchmark that needs no network."""
        raw = self.raw
        if self.benchmark.needs_network:
            topology = raw.topology or DEFAULT_TOPOLOGY
            # settings are checked against this host once
            given = (topology, *((name, type(value), value) for name, value in raw.link.items()))
            if given not in links:
                links[given] = self._link(topology)
            return topology, links[given]
        if raw.topology or raw.link:
            key = "topology" if raw.topology else self._link_key(next(iter(raw.link)))
            raise self._problem(
                f"{raw.benchmark} uses no network, so topology and link have no place",
                key,
                "take that key out, or choose a network benchmark such as iperf3",
            )
        return "", None

    def _link(self, name: str) -> LinkSettings:
        """Return the settings of the links of a topology, checked against this host."""
        with placed(f"{self.where}, key topology"):
            topology = topology_registry.get(name)
        try:
            link = topology_registry.settings(name, self.raw.link)
        except topology_registry.ForeignSetting as error:
            key = self._link_key(error.setting)
            raise self._problem(error.what, key, error.hint) from error
        except RefusedStudy as error:
            problems = []
            for problem in error.problems:
                setting = str(problem.place[0]) if problem.place else ""
                what, hint = problem.what, problem.hint or "vtax topologies explains them"
                if problem.is_unknown and setting in self.benchmark.Parameters.model_fields:
                    what = f"unknown link setting {setting!r}"
                    hint = f"{setting} is a parameter of {self.raw.benchmark}: it belongs in parameters or factors"
                key = self._link_key(setting) if setting else "link"
                problems.append(self._problem(what, key, hint))
            raise refused(problems, self.where) from error
        with placed(f"{self.where}, keys topology and link"):
            topology.check(link)
        return link

    def _is_cold(self, parameters: Parameters, context: Context) -> bool:
        """Return whether a command is cold. Raises BadInput for commands that there cannot be."""
        try:
            return any(command.is_cold for command in self.benchmark.commands(parameters, context))
        except BadInput as error:
            for problem in error.problems if isinstance(error, BadInputs) else [error]:
                if problem.where in self.benchmark.Parameters.model_fields:
                    problem.where = f"{self.where}, key {self._parameter_key(problem.where)}"
            raise

    def _refuse_colocation(self) -> None:
        """Raise BadInput for a benchmark that cannot run beside further guests as the study asks."""
        benchmark, colocation = self.benchmark, self.raw.colocation
        if benchmark.stages and colocation.neighbour:
            what = f"{benchmark.name} starts guests of its own, so neighbour has no place"
            raise self._problem(what, "neighbour", "take that key out")
        if not benchmark.needs_network or not colocation.is_counted:
            return
        name = self.raw.topology or DEFAULT_TOPOLOGY
        if not topology_registry.get(name).joins_several:
            topologies = topology_registry.topologies().items()
            able = ", ".join(name for name, topology in topologies if topology.joins_several)
            raise self._problem(
                f"{name} has a number of guests of its own, so guests has no place",
                "guests",
                f"take that key out, or choose a topology that joins several side by side: {able}",
            )


def _key_of_point(point: Point, guest: Mapping[str, Any], image: Image) -> str:
    """Return the hash of all that defines a point. guest: settings of guests that do."""
    defining = {
        "benchmark": point.benchmark.name,
        "parameters": point.stored_parameters,
        "topology": point.topology,
        "link": point.link.model_dump(mode="json") if point.link else {},
        "guest": guest,
        "image": image.key,
        "scratch": point.scratch,
    }
    if point.tuning:
        defining["tuning"] = point.tuning
    defining |= point.colocation.defining
    if isinstance(point.benchmark, ProgramBenchmark):
        defining["program"] = point.benchmark.definition
    return key_of(defining)
