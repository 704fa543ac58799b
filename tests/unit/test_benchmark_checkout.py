"""Clone, environment and type check: the steps, and a real report of them."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks.base import Context
from vtax.benchmarks.checkout import Checkout, CheckoutParameters

BENCHMARK = Checkout()
TOOL = Tool("checkout", Context(vcpus=1, memory_bytes=2**30, flow=2), outside_s=10.0, cpu_s=6.5)
DIRECTORY = "/scratch/vtax-checkout-2"


def test_each_step_has_its_time_and_what_mypy_said_is_recorded():
    text = TOOL.read("2.47.3.txt")
    outcome = TOOL.parse(text)
    values = outcome.values
    assert (values["time"], values["cpu_time"]) == (10.0, 6.5)
    for name in ("clone", "install", "check"):
        nanoseconds = text.partition(f"{name} ")[2].partition(" ns")[0]
        assert values[name] == pytest.approx(int(nanoseconds) * 1e-9)
    assert outcome.effective == {"said_by_mypy": 53, "files": 29}
    assert set(BENCHMARK.same_everywhere) == set(outcome.effective)


def test_all_is_made_in_a_directory_that_is_new_and_gone_after_the_trial():
    made = TOOL.command()
    repository = f"{BENCHMARK.data(CheckoutParameters()).directory}/program.git"
    assert made.argv[4:] == (DIRECTORY, repository)
    read, remove = made.before
    assert read[-2:] == (repository, DIRECTORY)
    assert remove == ("rm", "-rf", DIRECTORY)
    assert made.makes == (DIRECTORY,)


def test_the_repository_is_the_same_in_every_image_of_one_python():
    script = BENCHMARK.data(CheckoutParameters()).script
    assert script.count("2026-01-01T00:00:00Z") == 2
    assert "LC_ALL=C sort" in script
