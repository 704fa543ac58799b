"""Platforms of somebody else's packages: a shipped one of the same name wins, and a broken one is left out."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from click.testing import CliRunner
from foreign_driver import good

from vtax.cli import platforms as command
from vtax.cli.main import group
from vtax.conformance.target import find
from vtax.errors import BadInput, RunInterrupted
from vtax.host.plugins import discover, registered
from vtax.messages import Note
from vtax.platforms import registry
from vtax.platforms.base import Driver, Platform


def test_the_baseline_cannot_be_replaced_and_is_listed_once(install):
    install("thirdparty", good("theirs", "{'native': {}, 'theirs-fast': {}}"))
    assert registry.get("native").driver.name == "native"
    assert registry.get("theirs-fast").driver.name == "theirs"
    assert registry.names().count("native") == 1
    assert registry.names()[0] == "native"


def test_a_shipped_driver_cannot_be_replaced(install, capsys):
    install("thirdparty", good("qemu", "{'qemu-tcg': {}}"))
    assert type(registry.get("qemu-tcg").driver).__module__ == "vtax.platforms.qemu.driver"
    printed = capsys.readouterr().err
    assert "thirdparty 1.5" in printed
    assert "name 'qemu' exists already" in printed


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("OTHER = 1\n", "broken registers no platform"),
        (
            "from vtax.platforms.base import register_platform\n@register_platform\nclass D:\n"
            "    name = 'd'\n    summary = ''\n    Options = probe = start = None\n",
            "a driver must be an instance of vtax.platforms.base.Driver, or of a class derived from it",
        ),
        (
            good("d", "{'d': {}}").replace("    def start", "    def begin"),
            "Can't instantiate abstract class Made with abstract method start",
        ),
        (
            good("d", "{}").replace("Options(DriverOptions)", "Options"),
            "a driver has Options = <class",
        ),
        (good("d", "None"), "a driver has variants = None, which is not of the type"),
        (
            good("d", "{}").replace("summary =", "tunings = 'pinned'; summary ="),
            "a driver has tunings = 'pinned'",
        ),
        (
            good("d", "{}").replace("summary =", "title ="),
            "a driver must have summary, and it has not",
        ),
    ],
)
def test_a_broken_package_is_named_and_left_out(source, printed, install):
    install("broken", source)
    install("fine", good("fine", "{'fine': {}}"))
    message: list[str] = []
    found = discover("platform", Driver, message.append)
    assert {"native", "fine"} <= found.keys()
    assert len(message) == 1
    assert "the package broken 1.5" in message[0]
    assert printed in message[0]
    result = CliRunner().invoke(group, ["platforms", "--no-probe"])
    assert result.exit_code == 0
    assert "fine" in result.output


def test_an_entry_point_of_something_in_a_module_is_refused_with_a_hint(install, tmp_path, golden):
    install("whole", good("whole", "{'whole': {}}"))
    (tmp_path / "whole-1.5.dist-info/entry_points.txt").write_text(
        "[vtax.platforms]\nwhole = whole:Made\n"
    )
    message: list[str] = []
    assert "whole" not in discover("platform", Driver, message.append)
    assert "whole:Made" in message[0]
    with pytest.raises(BadInput) as caught:
        find("whole")
    golden(str(caught.value))


def test_a_probe_that_raises_is_an_answer(install, monkeypatch, tmp_path, unmade_home):
    install("thirdparty", good("theirs", "{'theirs': {}}"))
    monkeypatch.setattr(command, "names", lambda: ["theirs"])
    result = CliRunner().invoke(group, ["platforms"])
    assert result.exit_code == 0, result.exception
    failed = Note("probe-failed", kind="RuntimeError", error="no")
    assert failed in " ".join(result.output.split())


def test_a_request_to_stop_is_heard_in_a_probe(install):
    install(
        "thirdparty",
        "from vtax.errors import RunInterrupted\n"
        + good("a", "{'a': {}}", "RunInterrupted('stop')"),
    )
    platform = registry.get("a")
    assert isinstance(platform, Platform)
    with pytest.raises(RunInterrupted):
        platform.probe(None)


def test_every_module_among_the_answers_is_a_view_and_so_is_view_in_a_package():
    import vtax.report.answers

    names = []
    for module in pkgutil.walk_packages(vtax.report.answers.__path__, "vtax.report.answers."):
        depth = module.name.count(".")
        if (depth == 3 and not module.ispkg) or module.name.endswith(".view"):
            names.append(module.name)
    modules = [importlib.import_module(name) for name in names]
    assert names
    assert [module.__name__ for module in modules if not registered(module)] == []
