"""Plug-ins that vtax does not ship are recorded with a run, shown, and part of what makes the run again."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest
from a_run import begin
from shown import english, values

import vtax.network.topologies
from vtax.benchmarks import registry as benchmark_registry
from vtax.errors import StoreError
from vtax.host import plugins
from vtax.host.plugins import Origin
from vtax.image.image import Image
from vtax.network import registry as topology_registry
from vtax.platforms import registry as platform_registry
from vtax.platforms.base import Probe
from vtax.report.analysis import analyse
from vtax.report.analysis.source import source_of
from vtax.report.answers.host import VIEW as HOST
from vtax.report.answers.method import method
from vtax.report.answers.reproduce.compute import commands
from vtax.report.views.base import Options
from vtax.runner.plan import make_plan
from vtax.runner.records import plugin_records
from vtax.store.records import PluginRecord
from vtax.study.load import load

DRIVER = """
from vtax.platforms.base import Driver, register_platform
from vtax.platforms.options import DriverOptions
class Options(DriverOptions):
    pass
@register_platform
class Theirs(Driver):
    name = "theirs"
    summary = "somebody else's"
    Options = Options
    variants = {"theirs": {}}
    def probe(self, options, image):
        raise RuntimeError("not probed here")
    def start(self, options, spec):
        raise RuntimeError("not started here")
"""
TOPOLOGY = """
from vtax.network.topology import Topology, register_topology
def wire(lab, settings):
    raise NotImplementedError
register_topology(Topology("theirs", "somebody else's", wire))
"""
BENCHMARK = """
from scripted import ScriptBenchmark
from vtax.benchmarks.base import register_benchmark
@register_benchmark
class Theirs(ScriptBenchmark):
    name = "theirs"
"""
STUDY = """
name = "plugged"
platforms = ["native", "theirs"]
[[benchmark]]
name = "iperf3"
topology = "theirs"
[[benchmark]]
name = "sysbench-cpu"
"""


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_shipped_plugins_have_no_origin(install):
    """A new module of vtax has none once it is added to Git."""
    assert "native" in plugins.shipped_names("platform")
    assert (
        platform_registry.foreign()
        == topology_registry.foreign()
        == benchmark_registry.foreign()
        == {}
    )


@pytest.mark.parametrize(
    ("direct_url", "source"),
    [
        (None, ""),
        ({"url": "file:///somewhere/private", "dir_info": {"editable": True}}, "local"),
        ({"url": "https://example.org/x.whl", "archive_info": {}}, "local"),
        (
            {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}},
            "git+https://example.org/x.git@abc123",
        ),
        ("damaged", "local"),
    ],
)
def test_a_package_is_named_with_its_version_and_source(direct_url, source, install):
    install("third", DRIVER, direct_url=direct_url)
    expected = Origin("third", "1.5", source, "third.py", sha256(DRIVER))
    assert platform_registry.foreign() == {"theirs": expected}


def test_a_module_put_beside_the_shipped_ones_is_named_by_its_content(
    install, tmp_path, monkeypatch
):
    directory = tmp_path / "beside"
    directory.mkdir()
    (directory / "own.py").write_text(TOPOLOGY)
    monkeypatch.setattr(
        vtax.network.topologies, "__path__", [*vtax.network.topologies.__path__, str(directory)]
    )
    try:
        assert topology_registry.foreign() == {
            "theirs": Origin(file="own.py", sha256=sha256(TOPOLOGY))
        }
    finally:
        sys.modules.pop("vtax.network.topologies.own", None)


def test_a_benchmark_has_the_name_of_its_module():
    """So it is found by that name, and others are not imported."""
    for name, benchmark in benchmark_registry.benchmarks().items():
        assert plugins.shipped_plugin("benchmark", name) is benchmark


def test_a_benchmark_that_nobody_ships_imports_none():
    program = (
        "import sys\n"
        "from vtax.benchmarks.registry import find_benchmark\n"
        "assert find_benchmark('a-program-of-a-study') is None\n"
        "print('vtax.benchmarks.iperf3' in sys.modules)\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert printed.stdout == b"False\n"


def test_a_benchmark_of_another_package_is_found_by_its_name(install):
    assert not benchmark_registry.has_foreign()
    assert benchmark_registry.find_benchmark("theirs") is None
    install("third", BENCHMARK, "benchmark")
    benchmark_registry.has_foreign.cache_clear()
    assert benchmark_registry.find_benchmark("theirs").name == "theirs"


def put_aside(directory: Path) -> ModuleType:
    """A checkout of vtax with one more module among its platforms, which is not imported."""
    file = directory / "src/vtax/platforms/own.py"
    file.parent.mkdir(parents=True)
    (directory / "src/vtax/__init__.py").touch()
    file.touch()
    module = ModuleType("vtax.platforms.own")
    module.__file__ = str(file)
    return module


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_in_a_checkout_what_git_tracks_is_part_of_vtax(tmp_path, monkeypatch):
    module = put_aside(tmp_path)
    monkeypatch.setattr(vtax, "__file__", str(tmp_path / "src/vtax/__init__.py"))
    assert plugins._is_part_of_vtax(module)  # without Git everything is
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C"]
    subprocess.run([*git, tmp_path, "init", "-q"], check=True)
    subprocess.run([*git, tmp_path, "add", "src/vtax/__init__.py"], check=True)
    assert not plugins._is_part_of_vtax(module)
    subprocess.run([*git, tmp_path, "commit", "-qm", "first"], check=True)
    tree = tmp_path / "worktree"
    subprocess.run([*git, tmp_path, "worktree", "add", "-q", tree], check=True)
    beside = put_aside(tree / "further")
    shutil.copytree(tree / "further/src", tree / "src", dirs_exist_ok=True)
    beside.__file__ = str(tree / "src/vtax/platforms/own.py")
    monkeypatch.setattr(vtax, "__file__", str(tree / "src/vtax/__init__.py"))
    assert not plugins._is_part_of_vtax(beside)
    subprocess.run([*git, tree, "add", "src/vtax/platforms/own.py"], check=True)
    assert plugins._is_part_of_vtax(beside)


def test_of_an_installed_vtax_its_list_of_files_says_what_is_part_of_it(tmp_path, monkeypatch):
    module = put_aside(tmp_path)
    monkeypatch.setattr(vtax, "__file__", str(tmp_path / "src/vtax/__init__.py"))
    files = {"vtax/__init__.py"}
    monkeypatch.setattr(plugins, "_installed_files", lambda: files)
    assert not plugins._is_part_of_vtax(module)
    files.add("vtax/platforms/own.py")
    assert plugins._is_part_of_vtax(module)


def test_no_list_of_files_where_vtax_is_not_installed(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    assert any(name.startswith("vtax-") for name in plugins._installed_files())
    monkeypatch.setattr(plugins, "distribution", missing)
    assert plugins._installed_files() == set()


def test_a_plan_names_what_it_uses_and_nothing_else(install, tmp_path):
    install("third", DRIVER)
    install("wires", TOPOLOGY, "topology")
    path = tmp_path / "plugged.toml"
    views = {"failures": Origin("looks", "2.0")}
    found = []
    for text in (STUDY, STUDY.replace('"theirs"]', '"lxc"]').replace('"theirs"', '"router"')):
        path.write_text(text)
        probes = {name: Probe(True) for name in ("native", "theirs", "lxc")}
        plan = make_plan(load(str(path), {}), image=Image("key", tmp_path), probes=probes)
        found.append([(p.kind, p.name, p.package, p.version) for p in plugin_records(plan, views)])
    view = ("view", "failures", "looks", "2.0")
    assert found == [
        [("platform", "theirs", "third", "1.5"), ("topology", "theirs", "wires", "1.5"), view],
        [view],
    ]


PLUGINS = (
    PluginRecord("platform", "theirs", "third", "1.5", "", "third.py", "ab" * 32),
    PluginRecord("benchmark", "tool", "third", "1.5", "", "tool.py", "cd" * 32),
    PluginRecord("topology", "chain", "", "", "", "chain.py", "ef" * 32),
    PluginRecord(
        "view", "look", "looks", "2.0", "git+https://example.org/x.git@abc123", "look.py", "01" * 32
    ),
    PluginRecord("view", "more", "mine", "0.1", "local", "more.py", "23" * 32),
)


def test_a_run_keeps_them_and_shows_them(store):
    begin(store, plugins=PLUGINS)
    analysis = analyse(store)
    assert analysis.plugins == store.open_run("last").plugins == PLUGINS
    sentence = next(
        text for text in map(english, method(analysis)) if text.startswith("Not part of vtax")
    )
    assert (
        "platform theirs (third 1.5); benchmark tool (third 1.5); topology chain (chain.py, SHA-256 "
        in sentence
    )
    assert values(analysis)["plugins"][2]["sha256"] == "ef" * 32
    _, table = HOST.document(source_of(store), Options()).parts
    assert [row.cells[0] for row in table.groups[0].rows] == [f"{p.kind} {p.name}" for p in PLUGINS]


def test_what_makes_the_run_again_installs_them(store):
    begin(store, plugins=PLUGINS)
    lines = commands(analyse(store))
    assert lines[2:7] == (
        "sudo .venv/bin/pip install third==1.5",
        "sudo .venv/bin/pip install 'looks @ git+https://example.org/x.git@abc123'",
        "# mine 0.1 was installed from a directory or file; install it from there:",
        "sudo .venv/bin/pip install mine==0.1",
        f"# put chain.py (SHA-256 {'ef' * 32}) into src/vtax/network/topologies/",
    )


def test_names_from_a_store_cannot_become_commands(store):
    evil = "x\nsudo reboot; $(reboot)"
    begin(
        store, plugins=[PluginRecord("view", evil, evil, evil), PluginRecord(evil, "a", file=evil)]
    )
    lines = commands(analyse(store))
    assert (
        lines[2]
        == "sudo .venv/bin/pip install 'x sudo reboot; $(reboot)==x sudo reboot; $(reboot)'"
    )
    assert lines[3].startswith("# put x sudo reboot")
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("damaged", ['{"kind": "view"}', '[{"kind": "view"}]', "[7]"])
def test_a_damaged_record_is_an_error_of_the_store(damaged, store):
    begin(store)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("update run set plugins = ?", (damaged,))
    with pytest.raises(StoreError, match="damaged"):
        store.open_run("last")
