"""Compiling a fixed tree: the commands, real reports of make, and what was built."""

from pathlib import Path

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.compile import BENCHMARK, CompileParameters
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult

FIXTURES = Path(__file__).parent / "fixtures" / "compile"
CONTEXT = Context(vcpus=2, memory_bytes=2**29, flow=1)
ALL, SOME, BROKEN = "gcc-14.2.0-465-files.txt", "gcc-14.2.0-20-files.txt", "gcc-14.2.0-broken-file"
DIRECTORY = "/scratch/vtax-compile-1"


def read(name):
    return (FIXTURES / name).read_text()


def parse(text, *, status=0, stderr="", user_s=3.0, **parameters):
    result = CommandResult(("make",), status, text, stderr, 4.0, 3.9, user_s=user_s, system_s=0.5)
    return BENCHMARK.parse(CompileParameters(**parameters), CONTEXT, {"single": result})


def command(context=CONTEXT, **parameters):
    (only,) = BENCHMARK.commands(CompileParameters(**parameters), context)
    return only


@pytest.mark.parametrize(("fixture", "files"), [(ALL, 465), (SOME, 20)])
def test_the_time_is_the_one_outside_and_what_was_built_is_recorded(fixture, files):
    outcome = parse(read(fixture), files=files)
    assert outcome.values == {"time": 4.0, "cpu_time": 3.5}
    assert outcome.effective["files"] == files
    assert outcome.effective["jobs"] == 2
    assert outcome.effective["built_sha256"] in read(fixture)


def test_platforms_must_build_the_same():
    assert BENCHMARK.same_everywhere
    assert BENCHMARK.same_everywhere == ("built_sha256",)


def test_a_file_that_does_not_compile_fails_the_trial_with_the_compilers_words():
    with pytest.raises(BenchmarkError, match=r"make failed with status 2: .*bcmp\.c:1:1: error: .*Error 1"):
        parse(read(f"{BROKEN}.txt"), status=2, stderr=read(f"{BROKEN}.err"), files=3)


@pytest.mark.parametrize(
    ("old", "new"), [("built.a", "other.a"), ("20\n", ""), ("80ed", "xxxx"), ("20\n", "20 20\n")]
)
def test_another_report_is_refused(old, new):
    text = read(SOME).replace(old, new, 1)
    assert text != read(SOME)
    with pytest.raises(BenchmarkError, match="no report that vtax knows"):
        parse(text, files=20)


def test_fewer_files_than_requested_and_impossible_times_fail_the_trial():
    with pytest.raises(BenchmarkError, match="20 files were compiled where 21 were requested"):
        parse(read(SOME), files=21)
    with pytest.raises(BenchmarkError, match="of CPU time"):
        parse(read(SOME), user_s=30.0, files=20)


def test_the_tree_is_new_in_every_trial_written_back_warm_and_removed():
    made = command(files=20, jobs=3)
    make = ("make", "--silent", "-f", f"{DIRECTORY}.mk", "-C", DIRECTORY, "FILES=20")
    assert made.argv == (*make, "-j3")
    remove, unpack, warm = made.before
    assert remove == ("rm", "-rf", DIRECTORY)
    assert unpack[-1] == DIRECTORY
    assert "newlib-*.tar.xz" in unpack[2]
    assert unpack[2].endswith('sync --file-system "$1"')
    assert warm == (*make, "warm")
    assert made.after == (remove, ("rm", "-f", f"{DIRECTORY}.mk"))
    assert [file.path for file in made.files] == [f"{DIRECTORY}.mk"]
    assert command().argv[-1] == "-j2"


def test_more_compilers_than_memory_holds_are_refused_with_both_numbers():
    with pytest.raises(
        BadInput, match=r"32 compilers need about 1\.56 GiB of memory, and the guest has 512 MiB"
    ) as refused:
        command(jobs=32)
    assert refused.value.where == "compile: jobs"
