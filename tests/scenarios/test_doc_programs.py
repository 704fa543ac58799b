"""The program for π of docs/study-files.md, in scripted guests: digits are checked, time is from outside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_examples import BLOCK, DOCS
from scripted import ProcessGuest, executed, install

from vtax.image.image import Image
from vtax.runner.plan import host_programs, make_plan
from vtax.store.query import load as load_run
from vtax.study.load import load


def example(language: str, word: str) -> str:
    found = [match[2] for match in BLOCK.finditer((DOCS / "study-files.md").read_text()) if match[1] == language]
    (text,) = [each for each in found if word in each]
    return text


@pytest.mark.parametrize(("digits", "failures"), [(1000, 0), (999, 2)])
def test_only_the_right_last_digits_count(digits, failures, store, home, tmp_path, monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(ProcessGuest, "scratch", str(tmp_path / "scratch"), raising=False)
    study = tmp_path / "pi.toml"
    text = example("toml", "own-pi").replace("podman", "other") + "\n[design]\nblocks = 1\n"
    study.write_text(re.sub("digits = 1000", f"digits = {digits}", text))
    (tmp_path / "own-pi.py").write_text(example("py", "Machin"))
    loaded = load(str(study))
    plan = make_plan(loaded, image=Image("key", Path("/nowhere")), consented=host_programs(loaded))
    data = load_run(store.engine, executed(plan, store, home))
    assert len(data.failures) == failures
    assert all("the pattern of computation matches nothing" in failure.error for failure in data.failures)
    found = {data.run.metrics[metric].name for metric in data.measurements.metric}
    assert found == (set() if failures else {"time", "computation"})
