"""Good plug-ins, and for every check of `vtax conformance` a change of their text that makes it fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doc_examples import text_of

from vtax.conformance.check import Check, CheckResult, results
from vtax.conformance.target import Target, find

PLATFORM = text_of("add-a-platform.md", "python")
BENCHMARK = text_of("add-a-benchmark.md", "python")
VIEW = text_of("add-a-view.md", "python")
TOPOLOGY = text_of("add-a-topology.md", "python")

_START = "        return self.launch(options, spec, bootstrap.argv"
_PROBE = "        return probing.probe("
BAD_PLATFORM = {
    "type": ("class Unshare(Driver):", "class Unshare:"),
    "name": ('name = "unshare"', 'name = "Un Share"'),
    "summary": ('summary = "', 'summary = "two\\n'),
    "options-model": ('Field(True, description="give', 'Field(description="give'),
    "variants": ('{"ipc": False}', '{"ipcs": False}'),
    "argument": (
        "    Options = UnshareOptions",
        '    Options = UnshareOptions\n    argument = "host"',
    ),
    "options-json": (
        "    ipc: bool",
        '    other: Any = Field(default_factory=object, description="what no JSON holds")\n    ipc: bool',
    ),
    "tunings": (
        "    Options = UnshareOptions",
        '    Options = UnshareOptions\n    tunings = ("fast",)',
    ),
    "network-limits": (
        "    def launch",
        "    def network_limits(self, options): return None\n\n    def launch",
    ),
    "probe-without-image": (_PROBE, f"        1 / (image is not None)\n{_PROBE}"),
    "probe": ('            version_argv=("unshare", "--version"),\n', ""),
    "probe-leaks": (_PROBE, f"        __import__('subprocess').Popen(['sleep', '9'])\n{_PROBE}"),
    "start": (_START, f"        raise RuntimeError('not today')\n{_START}"),
    "confinement": ('return "nothing"', 'return "confined"'),
    "fairness": ('command = ["unshare"', 'command = ["nice", "unshare"'),
    "scratch": ("        mounts += scratch.mounts(spec, root.path)\n", ""),
    "network": ("return containers.finish_start(guest, spec, argv)", "return guest"),
}
_COMMANDS = "        return (Command("
BAD_BENCHMARK = {
    "type": ('    title = "writing JSON (timeit)"\n', ""),
    "name": ('name = "timeit"', 'name = "time it"'),
    "title": ('title = "writing JSON (timeit)"', 'title = ""'),
    "parameters-model": (', description="keys of the document"', ""),
    "parameters-json": (
        "    keys: int",
        "    other: object = Field(object(), description='no JSON')\n    keys: int",
    ),
    "metrics": (", primary=True", ""),
    "commands": ('"single", ("python3"', '"server", ("python3"'),
    "packages": ('tool = "python3"', 'tool = "python3"\n    packages = ("Not a name",)'),
    "expected-time": ("return 0.05 +", "return -1e9 +"),
    "version": ('version_pattern = r"\\APython (', 'version_pattern = r"('),
    "parser-garbage": ("if result.status != 0 or not match:", "if result.status != 0:"),
    "parser-time": ('r"^(\\d+) loops?', 'r"^\\s*(\\d+) loops?'),
    "parser-failed-tool": ("if result.status != 0 or not match:", "if not match:"),
    "parser-outputs": ('return Outcome({"time": time_ns}', 'return Outcome({"other": time_ns}'),
    "parser-failed-outputs": ("if result.status != 0 or not match:", "if False:"),
    "runs": ('"python3", "-m", "timeit"', '"python3", "-m", "time_it"'),
    "version-in-guest": ('version_argv = ("python3"', 'version_argv = ("echo"'),
}
_END = (
    'guest = NetworkEnd("guest", [(make_interface(0, 0, 2, settings), network)], under_test=True)'
)
BAD_TOPOLOGY = {
    "type": ("register_topology(Topology(", "register_topology(dict(a=1) or Topology("),
    "name": ('"chain", "', '"router", "'),
    "summary": ('"guest and native peer on a bridge"', '""'),
    "settings-model": (', description="a word that is recorded with the link"', ""),
    "attachments": ("wire, ChainSettings", "wire, ChainSettings, attachments=()"),
    "settings-json": (
        "    label: str",
        "    other: object = Field(object(), description='no JSON')\n    label: str",
    ),
    "sizes": ("wire, ChainSettings", "wire, ChainSettings, guests=lambda settings: 0"),
    "check-host": ("wire, ChainSettings", "wire, ChainSettings, check_host=lambda: 1 / 0"),
    "build": ("    network = segment", "    return None\n    network = segment"),
    "ends": ("wire, ChainSettings", "wire, ChainSettings, natives=('peer', 'other')"),
    "flows": ("guest.address(), peer.address()", 'guest.address(), "192.0.2.1"'),
    "host-untouched": ("    network = segment", "    leak()\n    network = segment"),
    "close": ("    network = segment", "    lab.close = lambda: None\n    network = segment"),
    "traffic": (_END, _END.replace("network)]", 'segment(lab.namespace("far"), 1, settings))]')),
    "mtu-change": ("return Links(", "return Stubborn("),
    "leaks-after-kill": ("    network = segment", "    leak()\n    network = segment"),
}
BAD_VIEW = {
    "type": ('View("failures", ', '(lambda *a, **k: 3)("failures", '),
    "name": ('View("failures"', 'View("Failed Trials"'),
    "help": ('msg("Failed trials by platform.")', 'msg("")'),
    "document": ("    return doc.Document(", "    return dict(a=1) or doc.Document("),
    "json": (
        "    return doc.Document(VIEW.title,",
        "    return doc.Document(data={'a': object()}, title=VIEW.title, parts=",
    ),
    "rendered": ("(doc.Titled(msg(", "(3.5, doc.Titled(msg("),
    "repeatable": ("Count(failed)", "Count(id(object()) + __import__('time').monotonic_ns())"),
}


def changed(source: str, change: tuple[str, str]) -> str:
    """A source with one change, which must apply."""
    old, new = change
    assert old in source, old
    return source.replace(old, new, 1)


def target(source: str, directory: Path, name: str = "theirs") -> Target:
    """The plug-in of a source that is saved as a file."""
    path = directory / f"{name}.py"
    path.write_text(source)
    (found,) = find(str(path))
    return found


def needed(checks: Sequence[Check[Any]], name: str) -> list[Check[Any]]:
    """A check and those that it needs, in their order."""
    by_name = {check.name: check for check in checks}
    wanted, todo = set(), [name]
    while todo:
        each = todo.pop()
        wanted.add(each)
        todo += by_name[each].needs
    return [check for check in checks if check.name in wanted]


def result_of(checks: Sequence[Check[Any]], name: str, subject: Any) -> CheckResult:
    """The result of one check."""
    return list(results(needed(checks, name), subject))[-1]
