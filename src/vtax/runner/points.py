"""The combinations of levels that a study asks for, checked against tools, topologies and link settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from vtax.benchmarks import registry as benchmark_registry
from vtax.benchmarks.base import Benchmark, Context, Metric, Parameters, Place, metrics_of
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

    key: hash of all that defines it except the platform. is_cold: whether a command of it is.
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

    def programs(self, *places: Place) -> list[str]:
        """Return the programs that its benchmark runs at these places and does not bring as files.

        Raises BadInput where the size of a guest decides them.
        """
        context = Context(1, 1 << 40)
        commands = [
            each
            for each in self.benchmark.commands(self.parameters, context)
            if each.place in places
        ]
        started = [(_started(each.argv), [file.path for file in each.files]) for each in commands]
        return [program for program, brought in started if program not in brought]

    @property
    def guests(self) -> int:
        """How many guests of the platform under test run at once."""
        of_topology = topology_registry.get(self.topology).guests(self.link) if self.link else 1
        return of_topology * self.colocation.guests + bool(self.colocation.neighbour)

    @property
    def guests_here(self) -> int:
        """How many of them run on this host: those that serve may stand on another machine."""
        return self.guests - (
            topology_registry.get(self.topology).guests_there(self.link) if self.link else 0
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of the benchmark, and of several guests that run it at once where their number is a factor."""
        own = self.own_metrics
        return (*own, *density.metrics(own)) if self.colocation.is_counted else own

    @cached_property
    def own_metrics(self) -> tuple[Metric, ...]:
        """Metrics of the benchmark alone."""
        return metrics_of(self.benchmark, self.parameters)

    def expected_s(self, context: Context) -> float:
        """About how long one trial takes, with the rate of its link."""
        rate = self.link.rate_mbit_s if self.link else None
        return self.benchmark.expected_s(self.parameters, replace(context, link_mbit_s=rate))

    @property
    def kind(self) -> GuestKind:
        """The kind of guest that runs this point, its network left out."""
        return (self.tuning, self.scratch, bool(self.benchmark.stages), self.colocation.kind)

    @property
    def configuration(self) -> GuestConfiguration:
        """The kind, topology and structure of links of a guest that runs this point."""
        return (self.kind, (self.topology, self.link.structure()) if self.link else None)


def checked_points(loaded: LoadedStudy, image: Image) -> tuple[Point, ...]:
    """Every point of a study, in its order. Raises BadInput naming source, table and key of every problem.

    Addresses are of the right form only: nothing is made yet.
    """
    guest = loaded.study.guest
    context = Context(guest.vcpus, guest.memory)
    allowed = guest.model_dump(exclude={"disk", "image"})  # its key says them
    own, of_programs = _programs(loaded)
    refused_programs = {table.name for table in loaded.study.program} - own.keys()
    checked: dict[str, Point] = {}
    links: dict[Any, LinkSettings] = {}
    problems: dict[str, BadInput] = {}
    for raw in points(loaded.study):
        if raw.benchmark in refused_programs:
            continue
        where = f"{loaded.source}: [[benchmark]] number {raw.table + 1} ({raw.label})"
        try:
            with placed(where):
                point = _checked_point(raw, own, context, image, allowed, links, where)
            _refuse_same(checked.get(point.key), point, where)
            checked[point.key] = point
        except BadInput as error:
            problems.setdefault(str(error), error)
            if len(problems) > BadInputs.MAX_SHOWN:
                break
    if found := [*of_programs, *problems.values()]:
        raise refused(found, loaded.source)
    return tuple(checked.values())


def _started(argv: Sequence[str]) -> str:
    """Return the program of a command: of one that an image's entry becomes, that one."""
    return argv[1] if argv[0] == PATH_OF_ENTRY and argv[1:] and argv[1].startswith("/") else argv[0]


def programs_of(loaded: LoadedStudy) -> dict[str, ProgramBenchmark]:
    """Return the programs that a study declares, by name, with their files.

    Raises BadInput for every one that cannot be.
    """
    made, problems = _programs(loaded)
    if problems:
        raise refused(problems, loaded.source)
    return made


def _programs(loaded: LoadedStudy) -> tuple[dict[str, ProgramBenchmark], list[BadInput]]:
    """Return the programs of a study that can be, by name, and a problem for each of the others."""
    problems = Problems()
    made: dict[str, ProgramBenchmark] = {}
    for number, table in enumerate(loaded.study.program, 1):
        where = f"{loaded.source}: [[program]] number {number} ({table.name})"
        if table.name in benchmark_registry.benchmarks():
            what = f"there is a benchmark {table.name} already"
            problems.found.append(
                BadInput(what, where=f"{where}, key name", hint="another name for the program")
            )
        elif program := problems.of(partial(load_program, table), f"{where}, key files"):
            made[table.name] = program
    return made, problems.found


def _refuse_same(known: Point | None, point: Point, where: str) -> None:
    """Raise BadInput for a point that another one of the study already is: `64KiB` and 65536 are one level."""
    if known is not None:
        same = " and ".join(str(each.levels) or each.label for each in (known, point))
        raise BadInput(
            f"{same} are the same point", where=where, hint="measure it once: keep one of the two"
        )


def _checked_point(
    raw: RawPoint,
    own: Mapping[str, ProgramBenchmark],
    context: Context,
    image: Image,
    guest: Mapping[str, Any],
    links: dict[Any, LinkSettings],
    where: str,
) -> Point:
    with placed(f"{where}, key name"):
        benchmark: Benchmark = own.get(raw.benchmark) or benchmark_registry.get(raw.benchmark, own)
    problems = Problems()
    parameters = problems.of(lambda: _checked_parameters(benchmark, raw, where))
    network = problems.of(lambda: _checked_network(benchmark, raw, where, links))
    if parameters is None or network is None:
        raise refused(problems.found, where)
    topology, link = network
    try:
        is_cold = any(command.is_cold for command in benchmark.commands(parameters, context))
    except BadInput as error:
        for each in error.problems if isinstance(error, BadInputs) else [error]:
            if each.where in benchmark.Parameters.model_fields:
                each.where = f"{where}, key {'factors' if each.where in raw.levels else 'parameters'}.{each.where}"
        raise
    _refuse_colocation(benchmark, raw, where)
    defining = {
        "benchmark": benchmark.name,
        "parameters": parameters.model_dump(mode="json"),
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
    key = key_of(defining)
    return Point(
        key,
        raw.label,
        benchmark,
        parameters,
        topology,
        link,
        raw.levels,
        raw.tuning,
        raw.scratch,
        raw.colocation,
        is_cold,
    )


def _refuse_colocation(benchmark: Benchmark, raw: RawPoint, where: str) -> None:
    """Raise BadInput for a benchmark that cannot run beside further guests as the study asks."""
    if benchmark.stages and raw.colocation.total > 1:
        key = "guests" if raw.colocation.guests > 1 else "neighbour"
        what = f"{benchmark.name} starts guests one after the other, so {key} has no place"
        raise BadInput(what, where=f"{where}, key {key}", hint="take that key out")
    topology = raw.topology or DEFAULT_TOPOLOGY
    if (
        benchmark.needs_network
        and raw.colocation.is_counted
        and not topology_registry.get(topology).joins_several
    ):
        able = ", ".join(
            name for name, each in topology_registry.topologies().items() if each.joins_several
        )
        raise BadInput(
            f"{topology} has a number of guests of its own, so guests has no place",
            where=f"{where}, key guests",
            hint=f"take that key out, or choose a topology that joins several side by side: {able}",
        )


def _checked_network(
    benchmark: Benchmark, raw: RawPoint, where: str, links: dict[Any, LinkSettings]
) -> tuple[str, LinkSettings | None]:
    """Topology and link settings; "" and None of a benchmark that needs no network."""
    if benchmark.needs_network:
        topology = raw.topology or DEFAULT_TOPOLOGY
        return topology, _checked_link(raw, benchmark, topology, where, links)
    if raw.topology or raw.link:
        raise BadInput(
            f"{raw.benchmark} uses no network, so topology and link have no place",
            where=f"{where}, key {'topology' if raw.topology else _link_key(raw, next(iter(raw.link)))}",
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
    parameters = benchmark.Parameters.model_fields
    try:
        return topology_registry.settings(topology, raw.link)
    except topology_registry.ForeignSetting as error:
        raise BadInput(
            error.what, where=f"{where}, key {_link_key(raw, error.setting)}", hint=error.hint
        ) from error
    except RefusedStudy as error:
        problems = []
        for problem in error.problems:
            setting = str(problem.place[0]) if problem.place else ""
            hint = (
                f"{setting} is a parameter of {raw.benchmark}: it belongs in parameters or factors"
            )
            is_parameter = problem.is_unknown and setting in parameters
            problems.append(
                BadInput(
                    f"unknown link setting {setting!r}" if is_parameter else problem.what,
                    where=f"{where}, key {_link_key(raw, setting) if setting else 'link'}",
                    hint=hint if is_parameter else problem.hint or "vtax topologies explains them",
                )
            )
        raise refused(problems, where) from error


def _link_key(raw: RawPoint, setting: str) -> str:
    return f"{'link_factors' if setting in raw.levels.link else 'link'}.{setting}"


def _checked_parameters(benchmark: Benchmark, raw: RawPoint, where: str) -> Parameters:
    hint_of_all = f"vtax benchmarks {_help_name(benchmark, where)} explains every parameter"
    try:
        return validated(benchmark.Parameters, raw.parameters, "parameter", hint_of_all)
    except RefusedStudy as error:
        problems = []
        for problem in error.problems:
            name = ".".join(map(str, problem.place))
            table = "factors" if name in raw.levels else "parameters"
            hint = _hint_of_table(name) if problem.is_unknown else ""
            if problem.is_unknown and benchmark.needs_network:
                hint = hint or _hint_of_link(name, table)
            problems.append(
                BadInput(
                    f"{benchmark.name}: unknown parameter {name!r}"
                    if hint
                    else f"{benchmark.name}: {problem.what}",
                    where=f"{where}, key {table}.{name}" if name else where,
                    hint=hint or problem.hint or hint_of_all,
                )
            )
        raise refused(problems, where) from error


def _help_name(benchmark: Benchmark, where: str) -> str:
    """Return what `vtax benchmarks` calls a benchmark: its name, or the study that declares the program."""
    return where.partition(": [[")[0] if isinstance(benchmark, ProgramBenchmark) else benchmark.name


def _hint_of_table(name: str) -> str:
    """Where a factor of the whole table belongs that stands among a tool's parameters; empty when it is none."""
    if name in ("tuning", "scratch"):
        return f"{name} is a factor over everything: write its levels above the first table in brackets"
    if name not in ("guests", "neighbour"):
        return ""
    return f"{name} is a key of [[benchmark]], with a list of levels; write it beside name"


def _hint_of_link(name: str, table: str) -> str:
    """Where a setting of the link belongs that stands among a tool's parameters; empty when it is none."""
    name = name.removeprefix(LINK)
    if not any(
        name in topology.Settings.model_fields
        for topology in topology_registry.topologies().values()
    ):
        return ""
    belongs = (
        "link_factors" if table == "factors" else "link, or with several levels in link_factors"
    )
    return f"{name} is a setting of the link: it belongs in {belongs}"
