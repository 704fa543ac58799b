"""checkout: what comes before work on a program: its repository is cloned, an environment made, its types checked.

It measures what a fresh sandbox of a build service or of a program that writes programs does first, from files in the
guest alone: `git clone` of a repository with a commit for each file, through git's own transport; `python3 -m venv`,
and the unpacking of a wheel of some 500 files into it; and mypy over what was cloned, without a cache. It does not
measure a network, nor a disk: files are in the page cache after an untimed clone, and what is written is not flushed.

The program is five packages of Python's own library in the image. Its trap is comparing other versions: those of git,
Python and mypy are recorded, and what mypy said of how many files must be the same everywhere, else the run has a
warning. The time is the controller's, around all three; that of each is by the guest's clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, successful_result
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.image.recipe import DataSet

_DATA = """
export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
export GIT_AUTHOR_NAME=vtax GIT_COMMITTER_NAME=vtax
export GIT_AUTHOR_EMAIL=vtax@example.org GIT_COMMITTER_EMAIL=vtax@example.org
library=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')
git init --quiet --initial-branch=main /tmp/program
cd /tmp/program
mkdir program
: > program/__init__.py
for package in concurrent http json urllib wsgiref; do
    cp -r "$library/$package" program/
done
find program -name '*.py' | LC_ALL=C sort | while read -r file; do
    git add "$file"
    git commit --quiet --message "$file"
done
git clone --quiet --bare /tmp/program "$1/program.git"
git -C "$1/program.git" gc --quiet
cd /
rm -rf /tmp/program
"""
_STEPS = """
directory=$1 repository=$2
mkdir "$directory" && cd "$directory" || exit
timed() {
    name=$1; shift
    begun_ns=$(date +%s%N)
    "$@"; status=$?
    echo "$name $(($(date +%s%N) - begun_ns)) ns"
    return $status
}
timed clone git clone --quiet --no-local "$repository" program || exit
timed install sh -c '
    python3 -m venv --without-pip environment &&
    python3 -m zipfile --extract /usr/share/python-wheels/pip-*.whl environment/lib/python3*/site-packages
' || exit
cd program
timed check mypy --cache-dir=/dev/null --no-error-summary program > ../mypy 2>&1
[ $? -le 1 ] || { cat ../mypy >&2; exit 2; }
grep '^check ' ../mypy
echo "said $(grep -vc '^check ' ../mypy) of $(find program -name '*.py' | wc -l) files"
"""
_REPORT = re.compile(
    r"clone (\d+) ns\ninstall (\d+) ns\ncheck (\d+) ns\nsaid (\d+) of (\d+) files\n?"
)
_VERSIONS = re.compile(r"git version (\S+)\nPython (\S+)\nmypy (\S+).*\n?")
_SIZE_BYTES = 1 << 20
_EXPECTED_S = 8.0


class CheckoutParameters(Parameters):
    """It has none: what is cloned and checked is the same in every run."""


@register_benchmark
class Checkout(Benchmark):
    name = "checkout"
    title = "clone, environment and type check of a program (git, venv, mypy)"
    tool = "git"
    packages = ("git", "mypy", "python3-venv")
    same_everywhere = ("said_by_mypy", "files")
    Parameters = CheckoutParameters
    work = Operations("checkout")
    metrics: Sequence[Metric] = (
        Metric("time", "s", "lower", "time of all steps, on the controller's clock", primary=True),
        Metric("clone", "s", "lower", "time of the clone, by the guest's clock"),
        Metric("install", "s", "lower", "time of environment and wheel, by the guest's clock"),
        Metric("check", "s", "lower", "time of the type check, by the guest's clock"),
        Metric(
            "cpu_time",
            "s",
            "lower",
            "CPU time of all its processes, as the guest's kernel accounts it",
            most="cpus",
        ),
    )
    version_argv = ("sh", "-c", "git --version; python3 --version; mypy --version")

    def version_of(self, output: str) -> str:
        """Return the version of git with those of Python and mypy."""
        match = _VERSIONS.fullmatch(output)
        if not match:
            raise BenchmarkError("git, Python or mypy printed no version", where=output[:200])
        return f"{match[1]}, Python {match[2]}, mypy {match[3]}"

    def data(self, parameters: CheckoutParameters) -> DataSet:
        return DataSet("program-1", _DATA, _SIZE_BYTES)

    def commands(self, parameters: CheckoutParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, which works in a directory of its own, removed after it."""
        directory = f"{context.scratch}/vtax-checkout-{context.flow}"
        repository = f"{self.data(parameters).directory}/program.git"
        remove = ("rm", "-rf", directory)
        read = ("git", "clone", "--quiet", "--no-local", repository, directory)
        steps = ("sh", "-c", _STEPS, "sh", directory, repository)
        return (Command("single", steps, before=(read, remove), makes=(directory,)),)

    def expected_s(self, parameters: CheckoutParameters, context: Context) -> float:
        return _EXPECTED_S

    def parse(
        self,
        parameters: CheckoutParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        result = successful_result("checkout", results)
        match = _REPORT.fullmatch(result.stdout)
        if not match:
            raise BenchmarkError(
                "the steps printed no report that vtax knows", where=result.stdout[-200:]
            )
        if int(match[5]) == 0:
            raise BenchmarkError("the repository that was cloned has no files")
        check_cpu("checkout", result, context)
        values = {"time": result.outside_s}
        for number, name in enumerate(("clone", "install", "check"), 1):
            values[name] = int(match[number]) * 1e-9
        if result.cpu_s > 0:  # else too short for the guest's accounting
            values["cpu_time"] = result.cpu_s
        return Outcome(values, {"said_by_mypy": int(match[4]), "files": int(match[5])})
