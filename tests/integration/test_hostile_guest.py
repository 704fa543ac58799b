"""What a real guest does to its own network, while vtax counts there, or to its own files, costs one trial."""

import sys

import pytest
from scripted import ScriptBenchmark
from support import needs_program, needs_root

from vtax.benchmarks import registry as benchmarks
from vtax.host.process import find_program
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.plan import make_plan
from vtax.runner.session import execute
from vtax.store.query import load, outputs
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

pytestmark = needs_root

DELETE = "rm -rf /usr/bin/python3* /usr/lib/python3*; echo 1"
NEST = """python3 -c '
import os
os.chdir("{place}")
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("file", "w").close()
print(1)
'"""
KEEP = """python3 -c '
import fcntl, os
os.makedirs("/scratch/kept/below")
for name in ("/scratch/kept/below/file", "/scratch/kept/below", "/scratch/kept"):
    descriptor = os.open(name, os.O_RDONLY | (0 if os.path.isdir(name) else os.O_CREAT))
    fcntl.ioctl(descriptor, 0x40086602, (0x10).to_bytes(8, "little"))
print(1)
'"""
"""Immutable: FS_IOC_SETFLAGS, FS_IMMUTABLE_FL (linux/fs.h)."""
RENAME = "ip link set eth0 down && ip link set eth0 name evil0 && echo 1"


class Script(ScriptBenchmark):
    """A line of shell."""

    version_argv = ("/usr/bin/python3", "--version")


class Networked(ScriptBenchmark):
    """A line of shell in a guest that has a network."""

    name = "networked"
    needs_network = True
    version_argv = ("/usr/bin/python3", "--version")


def test_an_interface_that_is_renamed_in_a_trial_costs_that_trial_and_no_other(
    image, private_home, monkeypatch
):
    monkeypatch.setattr(benchmarks, "benchmarks", lambda: {"networked": Networked()})
    monkeypatch.setattr(benchmarks, "has_foreign", lambda: True)
    table = {
        "name": "networked",
        "topology": "point-to-point",
        "factors": {"code": ["echo 2", RENAME, "echo 3"]},
    }
    declared = {
        "name": "evil",
        "platforms": ["native"],
        "design": {"blocks": 2, "seed": 3},
        "benchmark": [table],
    }
    plan = make_plan(LoadedStudy(validate(declared, "test"), "test"), image=image)
    with Store.open(private_home.store_url) as store:
        run = begin(store, plan, vtax_version=sys.version[:5])
        execute(plan, run, private_home, Observer())
        data = load(store.engine, run)
        assert (run.status, len(data.trials.id)) == ("finished", 6)
        assert [run.cells[failure.cell].levels["code"] for failure in data.failures] == [RENAME] * 2
        assert all("eth0" in failure.error for failure in data.failures)
        traces = [
            output.stderr for output in outputs(store.engine, run) if output.role == "traceback"
        ]
        assert len(traces) == 2
        assert all("KeyError" in trace for trace in traces)
    assert not any(private_home.guests.iterdir())
    assert not any(private_home.journal.iterdir())


@pytest.mark.push
@needs_program("podman")
def test_a_guest_that_deletes_its_python_costs_the_next_trial_and_no_other(
    image, private_home, monkeypatch
):
    monkeypatch.setattr(benchmarks, "benchmarks", lambda: {"script": Script()})
    monkeypatch.setattr(benchmarks, "has_foreign", lambda: True)
    tools = [f"/usr/bin/python3 -c 'print({figure})'" for figure in (2, 3, 4)]
    table = {"name": "script", "factors": {"code": [DELETE, *tools]}}
    design = {"blocks": 1, "order": "sequential"}
    declared = {
        "name": "evil",
        "platforms": ["podman"],  # native's programs cannot be written
        "baseline": "podman",
        "design": design,
        "benchmark": [table],
    }
    plan = make_plan(LoadedStudy(validate(declared, "test"), "test"), image=image)
    with Store.open(private_home.store_url) as store:
        run = begin(store, plan, vtax_version=sys.version[:5])
        execute(plan, run, private_home, Observer())
        data = load(store.engine, run)
        assert data.trials.is_ok.tolist() == [True, False, True, True]
    assert not any(private_home.guests.iterdir())


@pytest.mark.parametrize("platform", ["native", "podman"])
def test_what_a_guest_makes_of_its_files_is_removed_with_it(
    platform, image, private_home, monkeypatch
):
    if platform == "podman" and find_program("podman") is None:
        pytest.skip("podman is not installed")
    monkeypatch.setattr(benchmarks, "benchmarks", lambda: {"script": Script()})
    monkeypatch.setattr(benchmarks, "has_foreign", lambda: True)
    codes = [NEST.format(place="/scratch"), NEST.format(place="/var/lib"), "echo 2"]
    if platform == "native":  # whose root may do that
        codes.insert(0, KEEP)
    table = {"name": "script", "factors": {"code": codes}}
    design = {"blocks": 2, "order": "sequential"}
    declared = {
        "name": "evil",
        "platforms": [platform],
        "baseline": platform,
        "design": design,
        "benchmark": [table],
    }
    plan = make_plan(LoadedStudy(validate(declared, "test"), "test"), image=image)
    with Store.open(private_home.store_url) as store:
        run = begin(store, plan, vtax_version=sys.version[:5])
        execute(plan, run, private_home, Observer())
        data = load(store.engine, run)
        assert run.status == "finished"
        assert data.trials.is_ok.tolist() == [True] * 2 * len(codes)
    assert not any(private_home.guests.iterdir())
    assert not any(private_home.journal.iterdir())
    assert not private_home.left.exists()
