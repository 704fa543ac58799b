"""A benchmark of one program under test: its command, and what its parser makes of a report."""

from dataclasses import dataclass
from pathlib import Path

from vtax.benchmarks import registry
from vtax.benchmarks.base import Context
from vtax.guest.results import CommandResult

FIXTURES = Path(__file__).parent / "unit" / "fixtures"
CONTEXT = Context(vcpus=1, memory_bytes=2**29)


@dataclass(frozen=True)
class Tool:
    """A benchmark by its name, whose real reports are in a directory of fixtures; how long its program ran."""

    name: str
    context: Context = CONTEXT
    outside_s: float = 100.0
    inside_s: float | None = None
    cpu_s: float = 0.1

    def read(self, file):
        return (FIXTURES / self.name / file).read_text()

    def parse(
        self,
        text,
        *,
        status=0,
        stderr="",
        context=None,
        outside_s=None,
        inside_s=None,
        cpu_s=None,
        **given,
    ):
        benchmark, outside_s = registry.get(self.name), outside_s or self.outside_s
        inside_s = inside_s or self.inside_s or outside_s
        cpu_s = self.cpu_s if cpu_s is None else cpu_s
        result = CommandResult(
            (benchmark.tool,), status, text, stderr, outside_s, inside_s, cpu_s=cpu_s
        )
        return benchmark.parse(
            benchmark.Parameters(**given), context or self.context, {"single": result}
        )

    def command(self, context=None, **given):
        benchmark = registry.get(self.name)
        (only,) = benchmark.commands(benchmark.Parameters(**given), context or self.context)
        return only
