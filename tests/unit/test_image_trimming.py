"""Modules without what is read for nothing: their code is what the kernel would have made of it."""

import shutil
import subprocess

import pytest

from vtax.host.architecture import HOST
from vtax.image.trimming import trimmed

_SOURCE = r"""
static int zeros[100];
int number = 42;
int *const pointer = &number;
__attribute__((noinline)) int twice(int n) { return 2 * n + zeros[n]; }
int main(void) { return twice(*pointer) - 84; }
__asm__(".pushsection .orc_unwind_ip,\"a\"\n.long main - .\n.popsection\n"
        ".pushsection .BTF,\"a\"\n.ascii \"many types\"\n.popsection\n");
"""
_SIGNATURE = bytes(12) + b"~Module signature appended~\n"

needs_compiler = pytest.mark.skipif(
    HOST.machine != "x86_64" or not shutil.which("cc") or not shutil.which("readelf"),
    reason="needs cc and readelf on x86-64",
)


@pytest.fixture
def module(tmp_path):
    """A relocatable file whose functions call a tracer, as the kernel's modules do."""
    path = tmp_path / "module.o"
    flags = [
        "-c",
        "-O2",
        "-pg",
        "-mfentry",
        "-mrecord-mcount",
        "-fno-pie",
        "-x",
        "c",
        "-",
        "-o",
        path,
    ]
    subprocess.run(["cc", *flags], input=_SOURCE.encode(), check=True)
    return path


def _shown(path, *options):
    return subprocess.run(
        ["readelf", "-W", *options, path], capture_output=True, text=True, check=True
    ).stdout


@needs_compiler
def test_a_trimmed_module_is_a_module_that_runs(module, tmp_path):
    symbols = [line.split()[1:] for line in _shown(module, "--symbols").splitlines()]
    module.write_bytes(trimmed(module.read_bytes() + _SIGNATURE))
    assert [line.split()[1:] for line in _shown(module, "--symbols").splitlines()] == symbols
    subprocess.run(["cc", "-no-pie", module, "-o", tmp_path / "program"], check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0


@needs_compiler
def test_what_is_read_for_nothing_is_gone(module):
    before = module.read_bytes()
    assert {"__mcount_loc", ".orc_unwind_ip", ".BTF"} <= set(_shown(module, "--sections").split())
    module.write_bytes(trimmed(before))
    found = _shown(module, "--sections", "--relocs")
    assert not {"__mcount_loc", ".orc_unwind_ip", ".BTF"} & set(found.split())
    assert "__fentry__" not in found
    assert b"many types" not in module.read_bytes()
    assert module.read_bytes().count(bytes.fromhex("0f1f440000")) == 2


@needs_compiler
def test_a_call_of_the_tracer_that_is_not_as_expected_stays_with_all_others(module):
    before = module.read_bytes()
    changed = before.replace(bytes.fromhex("e800000000"), bytes.fromhex("e900000000"), 1)
    module.write_bytes(trimmed(changed))
    found = _shown(module, "--sections", "--relocs")
    assert "__mcount_loc" in found
    assert found.count("__fentry__") == 2


def test_another_file_only_loses_its_signature():
    assert trimmed(b"text" + b"key" + _SIGNATURE.replace(b"\0~", b"\3~")) == b"text"
