"""Firecracker and Cloud Hypervisor, started by vtax on a host that has KVM: a nested machine, given their programs.

No package has them: VTAX_FIRECRACKER and VTAX_CLOUD_HYPERVISOR name programs, built for Debian 12 or static.
"""

import json
import os
from pathlib import Path

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(5400)
TIMES = 3
PROGRAMS = {"firecracker": "VTAX_FIRECRACKER", "cloud-hypervisor": "VTAX_CLOUD_HYPERVISOR"}


@pytest.fixture(scope="module", params=PROGRAMS)
def name(request):
    """The name of a driver whose program the machine has."""
    variable = PROGRAMS[request.param]
    if not os.environ.get(variable):
        pytest.skip(f"no package has {request.param}: {variable}=PROGRAM names one")
    nested = request.getfixturevalue("nested")
    nested.guest.put(
        f"/usr/local/bin/{request.param}", Path(os.environ[variable]).read_bytes(), mode=0o755
    )
    return request.param


def test_it_is_found_to_run_starts_answers_stops_and_leaves_nothing(nested, name):
    found = json.loads(nested.python("start_guests.py", str(TIMES), name, timeout_s=3000))
    keep(f"{name}.json", json.dumps(found))
    assert found["available"], found["reason"]
    assert found["marks"] == ["nested"]
    assert len(found["ready_s"]) == TIMES
    assert found["cpus_inside"] == "1"
    assert found["bytes_equal"]
    assert found["hog"] == [["some"], False]
    assert found["left"] == []


def test_its_guests_are_as_asked_and_join_the_lab_and_what_is_killed_leaves_nothing(nested, name):
    message = nested.pytest(
        "tests/integration/test_platforms_microvm.py", "-rA", "-k", name, timeout_s=5000
    )
    keep(f"{name}.txt", message)
    assert "9 passed" in message


def test_it_conforms(nested, name):
    driver = f"vtax.platforms.{name.replace('-', '_')}"
    message = nested.vtax("conformance", driver, timeout_s=5000, status=None)
    keep(f"{name}-conformance.txt", message.stdout)
    assert message.status == 0, message.stdout
