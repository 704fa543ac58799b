"""What the audit of a run shows of guests' clocks, and when a clock is flagged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from a_run import begin
from shown import drawn, english, page, sentence, view

from vtax.messages import Note
from vtax.report.analysis import Analysis, analyse
from vtax.report.answers.audit.compute import audit
from vtax.report.answers.audit.view import document_of, legend
from vtax.report.renderers.json import as_json
from vtax.store.store import Store

OFFSETS_S = {"native": (0.0001, -0.0002), "docker": (0.0, None), "qemu-tcg": (0.4, -3601.25)}


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analysis]:
    """A run of guests whose clocks differ: one of them is set to another time zone."""
    path: Path = tmp_path_factory.mktemp("audit") / "store.sqlite"
    with Store.open(f"sqlite:///{path}") as store:
        run = begin(store, "clocks-1")
        for platform, offsets in OFFSETS_S.items():
            for block, offset_s in enumerate(offsets):
                guest = run.begin_guest(platform, block, "", 1.0)
                run.end_guest(
                    guest, ready_s=0.1, clock_offset_s=offset_s, facts={"kernel": "6.1"}, notes=()
                )
        run.finish("finished", "as expected", 2.0)
        yield analyse(store, "clocks-1")


def test_the_maximum_clock_offset_is_shown_of_clocks_that_are_off(analysis):
    found = audit(analysis)
    assert found.clocks == {"native": -0.0002, "docker": 0.0, "qemu-tcg": -3601.25}
    assert "-3601.250 s" in drawn(view("audit", analysis), 100)
    assert {"platform": "docker", "max_offset_s": 0.0} in as_json(view("audit", analysis))["clocks"]
    text = unescape(re.sub("<[^>]*>", "", page(analysis)))
    assert "from the host's: qemu-tcg emulated -3601.250 s; all others within 1 ms." in text


def test_what_must_be_known_to_read_differences_is_reported_below_them(tmp_path):
    facts: dict[str, dict[str, Any]] = {
        "native": {
            "tcp_congestion_control": "bbr",
            "cpu_flags": ["a", "b"],
            "memory_visible_bytes": 1 << 30,
        },
        "docker": {
            "tcp_congestion_control": "cubic",
            "cpu_flags": ["a"],
            "memory_visible_bytes": 1 << 29,
        },
    }
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        run = begin(store, "facts-1")
        for platform, printed in facts.items():
            guest = run.begin_guest(platform, 0, "", 1.0)
            run.end_guest(guest, ready_s=0.1, clock_offset_s=None, facts=printed, notes=())
        run.finish("finished", "as expected", 2.0)
        analysis = analyse(store, "facts-1")
    for text in (
        " ".join(drawn(view("audit", analysis), 100).split()),
        " ".join(page(analysis).split()),
    ):
        assert "+ marks items that some platforms lack" in text
        assert "tcp_congestion_control is the kernel&#39;s default" in text.replace("'", "&#39;")
        assert "512 MiB" in text
    beside = document_of(audit(analysis), analysis, every_field=False, is_report=True)
    (table,) = beside.tables()
    assert [english(column.title) for column in table.columns] == ["fact", "native", "docker"]
    assert len(table.groups[0].rows) == 3
    differences = as_json(view("audit", analysis))["differences"]
    assert [each["field"] for each in differences] == [
        "cpu_flags",
        "memory_visible_bytes",
        "tcp_congestion_control",
    ]


def test_nothing_is_explained_that_is_not_shown(analysis):
    assert legend(audit(analysis)) == ""


def test_only_a_clock_that_nothing_explains_is_flagged(analysis):
    flagged = [warning for warning in analysis.warnings if warning.code == "clock"]
    assert [[english(place.inline) for place in warning.places] for warning in flagged] == [
        ["qemu-tcg"]
    ]
    assert sentence(flagged[0]) == Note("clock", offset="-3601.2 s")
