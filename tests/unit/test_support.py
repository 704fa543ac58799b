import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import alone_on_host

HOLD = """
import sys, time
from pathlib import Path
from vtax.host.lock import measuring_lock
with measuring_lock("tour-7", Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def held(lock: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that measures for a time, once it does."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, lock, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("name", ["measuring", "testing"])
def test_tests_of_guests_wait_for_what_measures_or_tests_and_say_so(name, tmp_path):
    lines: list[str] = []
    locks = {kind: tmp_path / kind for kind in ("measuring", "testing")}
    with held(locks[name], 1.5) as process, alone_on_host(60, lines.append, **locks):
        assert process.wait(5) == 0
    assert len(lines) == 1
    assert lines[0].startswith("waiting for ")
    assert f"process {process.pid}" in lines[0]


def test_tests_of_guests_go_on_after_a_limit(tmp_path):
    with held(tmp_path / "measuring", 60) as process:
        started_at = time.monotonic()
        with alone_on_host(0.3, lambda _: None, tmp_path / "measuring", tmp_path / "testing"):
            assert process.poll() is None
        assert time.monotonic() - started_at < 30
        process.kill()


@pytest.mark.slow
def test_tests_of_parsers_load_neither_the_store_nor_the_statistics():
    helpers = "conftest, tool_under_test, tool_reports, service_reports"
    loads = f"import sys, {helpers}; print({{'scipy', 'sqlalchemy', 'rich'}} & {{*sys.modules}})"
    tests = Path(__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-c", loads], capture_output=True, text=True, check=True, cwd=tests
    )
    assert found.stdout == "set()\n"
