"""fio's job files: which are accepted, what fio is given, and real reports of two versions."""

import json

import pytest
from pydantic import ValidationError
from service_reports import read
from tool_under_test import Tool

from vtax.benchmarks import fio_jobs
from vtax.benchmarks.base import Context, metrics_of
from vtax.benchmarks.fio import Fio, FioParameters
from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.messages import Note
from vtax.runner.points import checked_points
from vtax.study.load import load

BENCHMARK = Fio()

CONTEXT = Context(vcpus=1, memory_bytes=2**29, flow=3)
TOOL = Tool("fio", CONTEXT)
TWO_JOBS, ONE_AFTER_OTHER = read("fio/two-jobs.fio"), read("fio/one-after-other.fio")
VERSIONS = pytest.mark.parametrize("version", ["3.33", "3.39"])
JOB = "[reads]\nrw=randread\nsize=1m\n"


def parse(text, report, **given):
    return TOOL.parse(report, job_file=text, **given)


def command(text, **given):
    return TOOL.command(job_file=text, **given)


@VERSIONS
def test_every_job_has_figures_and_so_do_all_together(version):
    report = read(f"fio/{version}-two-jobs.json")
    first, second, log = json.loads(report)["jobs"]
    values = parse(TWO_JOBS, report).values
    assert (
        values["read_iops.readers"]
        == first["read"]["iops"] + second["read"]["iops"]
        == values["read_iops"]
    )
    assert values["write_bandwidth.log"] == log["write"]["bw_bytes"] / 1e6
    assert (
        values["write_latency_p99.log"] == log["write"]["clat_ns"]["percentile"]["99.000000"] / 1000
    )
    assert (
        values["fsync_latency_p50.log"] == log["sync"]["lat_ns"]["percentile"]["50.000000"] / 1000
    )
    declared = {metric.name for metric in metrics_of(BENCHMARK, FioParameters(job_file=TWO_JOBS))}
    assert values.keys() <= declared
    assert "write_iops.readers" not in declared


@VERSIONS
def test_percentiles_of_several_processes_are_of_all_their_operations(version):
    report = read(f"fio/{version}-two-jobs.json")
    processes = [job["read"]["clat_ns"] for job in json.loads(report)["jobs"][:2]]
    nanoseconds = sorted(
        int(value)
        for each in processes
        for value, count in each["bins"].items()
        for _ in range(count)
    )
    found = parse(TWO_JOBS, report).values["read_latency_p95.readers"]
    assert found == nanoseconds[-(-95 * len(nanoseconds) // 100) - 1] / 1000
    alone = [each["percentile"]["95.000000"] / 1000 for each in processes]
    assert min(alone) <= found <= max(alone)


@VERSIONS
def test_rates_of_jobs_that_run_one_after_the_other_are_not_added_up(version):
    values = parse(ONE_AFTER_OTHER, read(f"fio/{version}-one-after-other.json")).values
    assert {"write_iops.fill", "read_iops.mix", "write_iops.mix"} <= values.keys()
    assert not {"write_iops", "read_iops", "write_bandwidth"} & values.keys()


def test_jobs_run_as_written_in_a_directory_of_the_guest():
    made = command(TWO_JOBS)
    create, jobs = (file.data.decode() for file in made.files)
    assert jobs.startswith(
        "[global]\ndirectory=/scratch/vtax-fio-files-3\npercentile_list=50:95:99:99.9\n"
    )
    log = jobs.partition("[log]\n")[2].splitlines()
    assert log == [
        "size=4m",
        "ioengine=psync",
        "runtime=1",
        "time_based",
        "randseed=7",
        "rw=write",
        "bs=64k",
        "fsync=16",
    ]
    assert "group_reporting" not in jobs  # every job is reported
    assert create == jobs.replace("99.9\n", "99.9\ncreate_only=1\n", 1)
    assert made.before[-1] == ("fio", "--output-format=json", "/scratch/vtax-fio-jobs-3/create.fio")
    assert made.makes == ("/scratch/vtax-fio-files-3",)
    assert command(TWO_JOBS, cold=True).is_cold
    assert not made.is_cold


def test_the_last_of_two_settings_holds_under_either_name():
    text = "[global]\nblocksize=8k\nbs=4k\n[a]\nblocksize=16k\nsize=1m\n[global]\nrw=write\n[b]\nsize=1m\n"
    a, b = fio_jobs.jobs_of(text)
    assert (a.options, b.options) == (
        {"bs": "16k", "size": "1m"},
        {"bs": "4k", "rw": "write", "size": "1m"},
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("filename=/dev/sda", "line 4: filename=/dev/sda: files are in the scratch directory"),
        ("filename=../other", "files are in the scratch directory"),
        ("filename=a:..", "names no file"),
        ("filename=-", "names no file"),
        ("directory=/home", "files are in the scratch directory"),
        ("filename_format=/etc/$jobnum", "files are in the scratch directory"),
        ("exec_prerun=touch /root/x", "option 'exec_prerun' is not accepted"),
        ("include other.fio", "'include other.fio' is not accepted"),
        ("write_bw_log=/root/x", "'write_bw_log' is not accepted"),
        ("ioscheduler=none", "'ioscheduler' is not accepted"),
        ("runtme=3", "did you mean runtime"),
        ("ioengine=external:/root/x.so", "no path"),
        ("ioengine=net", "ioengine=net is not accepted"),
        ("iodepth=`reboot`", "backquote"),
        ("numjobs=$ncpus", "values have no path"),
        ("bs=${HOME}", "values have no path"),
        ("rw=randtrim", "rw=randtrim is not accepted"),
        ("numjobs=1000", "no number from 1 to 256"),
        ("size=10%", "no size in bytes"),
        ("runtime=soon", "no time"),
        ("[reads]", "two jobs reads"),
        ("[a/b]", "names are at most 40"),
    ],
)
def test_what_reaches_outside_the_scratch_directory_is_refused_with_its_line(line, message):
    with pytest.raises(ValidationError, match=message):
        FioParameters(job_file=f"{JOB}{line}\n")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"job_file": "[global]\nsize=1m\n"}, "no job"),
        ({"job_file": "size=1m\n[a]\n"}, "before the first"),
        ({"job_file": "[a]\nrw=read\n"}, "the job a has no size"),
        ({"job_file": "\n".join(f"[j{n}]\nsize=1m" for n in range(17))}, "17 jobs; at most 16"),
        ({"job_file": "my.fio"}, "was not read"),
        ({"job_file": JOB, "rw": "write"}, "take rw out"),
        ({"job_file": f"{JOB}invalidate=0\n", "cold": True}, "keeps the guest's page cache"),
    ],
)
def test_senseless_job_files_are_refused(parameters, message):
    with pytest.raises(ValidationError, match=message):
        FioParameters(**parameters)


def test_durations_follow_the_jobs():
    together = FioParameters(
        job_file=JOB + "runtime=10\n[w]\nsize=1m\nrw=write\nruntime=1m\ntime_based\n"
    )
    apart = FioParameters(job_file=together.job_file + "stonewall\n")
    assert 60 < BENCHMARK.expected_s(together, CONTEXT) < 62
    assert 70 < BENCHMARK.expected_s(apart, CONTEXT) < 72


def test_writes_that_are_never_flushed_and_reads_through_caches_are_warnings():
    flushed = parse(TWO_JOBS, read("fio/3.39-two-jobs.json"))
    assert flushed.warnings == ()
    assert flushed.disk.if_not_counted == Note("cache-below-jobs", names="readers")
    assert parse(TWO_JOBS, read("fio/3.39-two-jobs.json"), cold=True).disk.if_not_counted == ""
    unflushed = parse(ONE_AFTER_OTHER, read("fio/3.39-one-after-other.json"))
    assert unflushed.warnings[0] == Note("guest-cache-jobs", names=("mix",))


STUDY = """name = "jobs"
platforms = ["native"]
[[benchmark]]
name = "fio"
parameters = { job_file = "my.fio" }
"""


def test_the_file_beside_the_study_is_part_of_the_study_and_of_its_cells(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    (tmp_path / "my.fio").write_text(JOB)
    keys = []
    for text in (JOB, JOB + "direct=1\n"):
        (tmp_path / "my.fio").write_text(text)
        loaded = load(str(study))
        assert loaded.study.benchmark[0].parameters == {"job_file": text}
        keys += [point.key for point in checked_points(loaded, Image("key", tmp_path))]
    assert len(set(keys)) == 2


def test_a_job_file_that_cannot_be_read_is_named(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    with pytest.raises(BadInput, match=r"'my.fio' .*No such"):
        load(str(study))
    (tmp_path / "my.fio").write_text("#" * 5000)
    with pytest.raises(BadInput, match=r"5000 .* 4096") as caught:
        load(str(study))
    assert "key parameters.job_file" in caught.value.where
    (tmp_path / "my.fio").unlink()
    (tmp_path / "my.fio").mkdir()
    with pytest.raises(BadInput, match="is a directory"):
        load(str(study))


def test_operations_exclude_the_ramp_and_the_measured_time_stands_beside_them():
    report = read("fio/3.39-two-jobs.json")
    ramped = TWO_JOBS.replace("[global]", "[global]\nramp_time=4")
    longest_ms = max(
        job[way]["runtime"]
        for job in json.loads(report)["jobs"]
        for way in job
        if way in ("read", "write")
    )
    effective = parse(ramped, report).effective
    assert effective["measured_s"] == longest_ms / 1000
    assert effective["operations"] == parse(TWO_JOBS, report).effective["operations"]
    assert "measured_s" not in parse(TWO_JOBS, report).effective
    assert command(ramped).has_ramp
    assert not command(TWO_JOBS).has_ramp


@pytest.mark.parametrize("line", ["ramp_time=4", "startdelay=1\nramp_time=4"])
def test_jobs_that_are_counted_at_other_times_have_no_number_of_operations(line):
    """What the host spends on them belongs to no number that fio knows."""
    other = TWO_JOBS.replace("[log]", f"[log]\n{line}")
    assert "operations" not in parse(other, read("fio/3.39-two-jobs.json")).effective
