"""The matrix of a run stands below its bar while it is measured. Figures here are invented."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from a_run import a_run
from shown import drawn

from vtax.cli.progress import BarProgress, MatrixSoFar
from vtax.cli.streams import StandardError
from vtax.runner.events import Observer, SafeObserver
from vtax.stats.terms import MINIMUM_BLOCKS
from vtax.store.run import RunHandle
from vtax.store.store import Store

RATIOS = {"native": 1.0, "docker": 0.8}


@pytest.fixture
def run(store: Store) -> RunHandle:
    made = a_run("so-far-1").platforms(*RATIOS).benchmark("iperf3").blocks(6)
    return made.values(
        lambda cell, block, _: 1000.0 * RATIOS[cell.platform] * (1 + block / 1000)
    ).stored(store)


@pytest.fixture
def pipe() -> Iterator[tuple[int, StandardError]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as under:
        stream = StandardError(under)
        yield reading, stream
        stream.end()
    os.close(reading)


def test_a_matrix_needs_as_many_blocks_as_a_verdict_and_is_not_computed_all_the_time(run):
    matrix = MatrixSoFar(run)
    matrix.refresh(MINIMUM_BLOCKS - 1)
    assert matrix.document is None
    matrix.refresh(MINIMUM_BLOCKS)
    first = matrix.document
    assert first is not None
    assert "80.00\N{NO-BREAK SPACE}%" in drawn(first, 100)
    assert "slower" in drawn(first, 100)
    matrix.refresh(MINIMUM_BLOCKS + 1)
    assert matrix.document is first


def test_the_matrix_is_drawn_below_the_bar_and_again_in_its_place(run, pipe):
    reading, stream = pipe
    bar = BarProgress(stream, MatrixSoFar(run))
    with bar:
        bar.block_ended(3)
        bar.block_ended(4)
        stream.drain()
        shown = os.read(reading, 1 << 16).decode()
        lines = shown.rpartition("\r\x1b[K")[2].splitlines()
        assert lines[0].startswith("starting")
        assert any(line.startswith("docker") for line in lines[1:])
        assert not shown.endswith("\n")
        bar.trial_starting("docker", "iperf3", "")
        stream.drain()
        again = os.read(reading, 1 << 16).decode()
        assert again.startswith(f"\r\x1b[{len(lines) - 1}A\x1b[J")
        assert again.count("\n") == len(lines) - 1
        stream.write("a message\n")
        stream.drain()
        assert f"A\x1b[Ja message\n{lines[0][:8]}" in os.read(reading, 1 << 16).decode()
    stream.drain()
    assert os.read(reading, 1 << 16).decode().endswith("A\x1b[J")


def test_a_matrix_that_cannot_be_made_leaves_the_run_alone():
    class Broken(Observer):
        def block_ended(self, block: int) -> None:
            raise RuntimeError

    seen: list[int] = []

    class Seeing(Observer):
        def block_ended(self, block: int) -> None:
            seen.append(block)

    both = SafeObserver(Broken(), Seeing())
    both.block_ended(0)
    both.block_ended(1)
    assert seen == [0, 1]
