"""A run keeps what was run on trust, and goes on only after consent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field
from scripted import ScriptedOptions, StopAfter, install, study

from vtax.errors import BadInput, RunInterrupted
from vtax.image.image import Image
from vtax.platforms.base import RunsAsRoot
from vtax.runner import resume
from vtax.runner.begin import begin
from vtax.runner.plan import host_programs, make_plan
from vtax.runner.session import execute
from vtax.store.query import load
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

IMAGE = Image("key", Path("/nowhere"))


class Options(ScriptedOptions):
    program: Annotated[str, RunsAsRoot("a program")] = Field("", description="what runs")


def test_a_run_keeps_what_it_ran_on_trust_and_resumes_only_after_consent(
    private_home, monkeypatch, image_found
):
    driver = install(monkeypatch)
    driver.Options = Options
    image_found(IMAGE)
    own = {"name": "mine", "driver": "scripted", "program": "/opt/x"}
    declared = study(platforms=["native", "mine"], platform=[own])
    loaded = LoadedStudy(validate(declared, "s.toml"), "s.toml", "12ab")
    programs = host_programs(loaded)
    plan = make_plan(loaded, image=IMAGE, consented=programs)
    with Store.open(private_home.store_url) as store:
        run = begin(store, plan, vtax_version="test")
        with pytest.raises(RunInterrupted):
            execute(plan, run, private_home, StopAfter(2))
        (kept,) = [
            warning.note
            for warning in load(store.engine, run).warnings
            if warning.code == "trusted-file"
        ]
        assert "(SHA-256 12ab)" in kept
        assert "platform mine: program = '/opt/x' (a program)" in kept
        with pytest.raises(BadInput, match="program = '/opt/x'"):
            resume.rebuild_plan(run, private_home)
        assert resume.rebuild_plan(run, private_home, programs).programs == programs
