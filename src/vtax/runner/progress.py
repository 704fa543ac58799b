"""How far a session of a run is: its trials so far, its time so far, and an estimate of what is left."""

from __future__ import annotations

import time
from dataclasses import dataclass

from vtax.runner.events import Progress
from vtax.runner.plan import Plan, PlannedTrial
from vtax.runner.stopping import Stopping
from vtax.store.run import RunHandle


@dataclass(frozen=True)
class _BegunBlock:
    """The block that is being measured.

    block: from 0.
    at_s: when it began, since the run did, without pauses.
    held: cells that it holds.
    made_before: measured trials of the run in the blocks before.
    """

    block: int
    at_s: float
    held: int
    made_before: int


class SessionProgress:
    """The progress of a session. cells: keys of those that this boot of the host measures."""

    def __init__(
        self, plan: Plan, run: RunHandle, stopping: Stopping, cells: frozenset[str]
    ) -> None:
        self._design = plan.study.design
        self._cells_of_plan = len(plan.cells)
        self._trials_per_block = len(cells) * plan.trials_per_cell
        self._max_blocks = stopping.max_blocks
        self._budget_s = stopping.budget_s
        self._started = time.monotonic()
        self._spent_before_s = run.spent_s()
        done = run.done()
        self._made = 0  # trials of this process
        self._here_done = sum(cell in cells for cell, _, _ in done)
        self._measured = sum(number >= self._design.warmup for _, _, number in done)
        self._failed = run.failed_trials()
        self._begun: _BegunBlock | None = None
        self._last_block_s = 0.0  # of the last whole block; 0 before there is one

    def spent_s(self) -> float:
        """Return the time that the run has taken, pauses left out."""
        return self._spent_before_s + time.monotonic() - self._started

    def begin_block(self, block: int, at_s: float, held: int, made_before: int) -> None:
        """Take note that a block began: of the arguments see `_BegunBlock`."""
        self._begun = _BegunBlock(block, at_s, held, made_before)

    def end_block(self) -> None:
        """Take note that the block is whole."""
        assert self._begun is not None
        self._last_block_s = self.spent_s() - self._begun.at_s

    def add(self, trial: PlannedTrial, *, has_failed: bool) -> Progress:
        """Count a stored trial; returns the progress after it: trials of all boots, and the time left in this one.

        A budget bounds both.
        """
        self._made += 1
        self._here_done += 1
        if not trial.is_warmup:
            self._measured += 1
            self._failed += has_failed
        elapsed_s = time.monotonic() - self._started
        trial_s = elapsed_s / self._made
        blocks = self._max_blocks
        if self._budget_s is not None:
            affordable = int(self._budget_s / (trial_s * self._trials_per_block))
            blocks = min(blocks, max(trial.block + 1, affordable))
        left_s = trial_s * (self._trials_per_block * blocks - self._here_done)
        total_trials = self._cells_of_plan * self._design.trials * blocks
        begun = self._begun
        if self._budget_s is not None and begun is not None and self._last_block_s:
            # blocks get shorter: the first finds out how long trials are, and what is decided leaves
            affordable = int((self._budget_s - begun.at_s) / self._last_block_s)
            blocks = min(self._max_blocks, begun.block + max(1, affordable))
            ends_at_s = begun.at_s + (blocks - begun.block) * self._last_block_s
            left_s = ends_at_s - self.spent_s()
            left_trials = begun.held * self._design.trials * (blocks - begun.block)
            total_trials = begun.made_before + left_trials
        return Progress(
            block=trial.block,
            blocks=blocks,
            done_trials=self._measured,
            total_trials=total_trials,
            elapsed_s=elapsed_s,
            left_s=max(left_s, 0.0),
            is_warmup=trial.is_warmup,
            failed_trials=self._failed,
        )
