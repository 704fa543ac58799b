"""Compiling: a fixed tree of C files, built by make with a pinned compiler.

It measures what a build does: many short processes (make, compiler driver, compiler, assembler), each mapping its
program anew, reading many small files and writing one. It does not measure linking large programs, nor a disk:
sources and compiler are in the guest's page cache (the tree is unpacked anew, written back with sync, and one file
is compiled before each trial).

The tree is the mathematics and string functions of newlib, a C library, from Debian's package of its source: real
code, 5 MB to fetch, and it includes no header but its own and the compiler's, so no other package changes what is
compiled. The compiler is named with its major version, gcc-14, so that a new default changes nothing.

Its trap is comparing builds of different things: the versions of both packages are recorded, and the SHA-256 of
what was built must be the same everywhere, else the run has a warning. The time is the controller's, around the
whole build.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

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
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_memory, successful_result
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

_COMPILER = "gcc-14"
_SOURCE = "newlib-source"
_FILES = 465
_START_BYTES, _JOB_BYTES = 64 * 1024**2, 48 * 1024**2
_EXPECTED_FILE_S = 0.06
_DIRECTORIES = ("libm/common", "libm/math", "libm/complex", "libc/string")
_HEADERS = ("libc/include/*", "libc/ctype/*.h", "libc/locale/*.h")
_VERSIONS = re.compile(r"gcc-14 \(Debian (\S+)\) \S+\nnewlib-source (\S+)\n?")
_REPORT = re.compile(r"(\d+)\n([0-9a-f]{64}) {2}built\.a\n?")
_UNPACK = (
    'mkdir "$1" && tar -x -J -f /usr/src/newlib/newlib-*.tar.xz -C "$1" --strip-components=2 --wildcards '
    + " ".join(
        f"'*/newlib/{name}'" for name in (*(f"{name}/*" for name in _DIRECTORIES), *_HEADERS)
    )
    + ' && sync --file-system "$1"'
)
_MAKEFILE = f"""
ifeq ($(FILES),)
$(error FILES is not set)
endif
CC := {_COMPILER}
FLAGS := -O2 -w -ffreestanding -nostdinc -isystem $(shell {_COMPILER} -print-file-name=include) -Igenerated
FLAGS += -Ilibc/include -Ilibm/common -Ilibc/string
SOURCES := $(wordlist 1,$(FILES),$(sort $(wildcard {" ".join(f"{name}/*.c" for name in _DIRECTORIES)})))
object = $(subst /,_,$(1:.c=.o))
OBJECTS := $(foreach source,$(SOURCES),$(call object,$(source)))
built.a: $(OBJECTS)
	@ar rcs $@ $^ && ar t $@ | wc -l && sha256sum $@
.PHONY: warm
warm: generated/newlib.h generated/_newlib_version.h
	@$(CC) $(FLAGS) -c -o /dev/null $(firstword $(SOURCES)) && ar rcs warm.a && rm warm.a
generated/%.h:
	@mkdir -p generated && : > $@
define rule
$(call object,$(1)): $(1)
	@$$(CC) $$(FLAGS) -c -o $$@ $$<
endef
$(foreach source,$(SOURCES),$(eval $(call rule,$(source))))
"""


class CompileParameters(Parameters):
    """Parameters that a study may fix or vary."""

    files: int = Field(
        100, ge=1, le=_FILES, description="C files that are compiled, the first by name"
    )
    jobs: int | None = Field(
        None,
        ge=1,
        le=256,
        description="compilers that run at once (make -j); default the guest's virtual CPUs",
    )


@register_benchmark
class Compile(Benchmark):
    name = "compile"
    title = "building a C library (gcc, make)"
    tool = _COMPILER
    packages = (_COMPILER, "make", _SOURCE, "xz-utils")
    same_everywhere = ("built_sha256",)
    Parameters = CompileParameters
    work = Operations("build")
    metrics: Sequence[Metric] = (
        Metric(
            "time", "s", "lower", "time of the whole build, on the controller's clock", primary=True
        ),
        Metric(
            "cpu_time",
            "s",
            "lower",
            "CPU time of all its processes, as the guest's kernel accounts it",
            most="cpus",
        ),
    )
    version_argv = (
        "sh",
        "-c",
        f"{_COMPILER} --version | head -n 1; dpkg-query --show {_SOURCE} | tr '\\t' ' '",
    )

    def version_of(self, output: str) -> str:
        """Return the compiler's version with that of the source."""
        match = _VERSIONS.fullmatch(output)
        if not match:
            raise BenchmarkError("gcc-14 or newlib-source printed no version", where=output[:200])
        return f"{match[1]}, newlib {match[2]}"

    def commands(self, parameters: CompileParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, whose tree is in a directory of its own, removed after it."""
        jobs = _jobs(parameters, context)
        check_memory("jobs", f"{jobs} compilers", _START_BYTES + jobs * _JOB_BYTES, context)
        directory = f"{context.scratch}/vtax-compile-{context.flow}"
        makefile = f"{directory}.mk"
        make = ("make", "--silent", "-f", makefile, "-C", directory, f"FILES={parameters.files}")
        return (
            Command(
                "single",
                (*make, f"-j{jobs}"),
                before=(("sh", "-c", _UNPACK, "sh", directory), (*make, "warm")),
                makes=(directory, makefile),
                files=(GuestFile(makefile, _MAKEFILE.encode()),),
            ),
        )

    def expected_s(self, parameters: CompileParameters, context: Context) -> float:
        return (
            parameters.files * _EXPECTED_FILE_S / min(_jobs(parameters, context), context.vcpus)
            + 2.0
        )

    def parse(
        self, parameters: CompileParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        result = successful_result("make", results)
        match = _REPORT.fullmatch(result.stdout)
        if not match:
            raise BenchmarkError(
                "make printed no report that vtax knows", where=result.stdout[-200:]
            )
        if int(match[1]) != parameters.files:
            raise BenchmarkError(
                f"{match[1]} files were compiled where {parameters.files} were requested"
            )
        check_cpu("make", result, context)
        values = {"time": result.outside_s}
        if result.cpu_s > 0:  # else too short for the guest's accounting
            values["cpu_time"] = result.cpu_s
        effective = {
            "files": parameters.files,
            "jobs": _jobs(parameters, context),
            "built_sha256": match[2],
        }
        return Outcome(values, effective)


def _jobs(parameters: CompileParameters, context: Context) -> int:
    return parameters.jobs or context.vcpus
