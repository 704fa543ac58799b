"""Reasons that vtax stores in English are translated in reports: those of counters that a host does not have."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest
from shown import english

from vtax.counters import domains, energy, hardware, whole_host
from vtax.report.document import Inline
from vtax.report.document.stored_texts import NOT_COUNTED
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import language
from vtax.report.views.explain import _not_counted
from vtax.report.views.host import fact_rows

PORTUGUESE = language("pt-BR")


def whys(root: Path) -> dict[str, str]:
    """What a host without anything cannot count, with the reasons that the code has for it, events of perf too."""
    return {**whole_host.not_counted(root), **{f"event {n}": why for n, why in enumerate(hardware._WORDS.values())}}


def translated(text: Inline) -> str:
    return Formatter(PORTUGUESE).text(text)


def test_every_reason_of_a_host_has_a_translation(tmp_path: Path) -> None:
    found = whys(tmp_path)
    assert len(set(found.values())) >= 6
    for what, why in found.items():
        assert PORTUGUESE.stored(why) != why, f"pt-BR.po lacks {why!r}"
        if not what.startswith("event") and what not in hardware._EVENTS:
            assert what in NOT_COUNTED
            assert PORTUGUESE.stored(what) != what


@pytest.mark.parametrize("module", [domains, energy, hardware, whole_host])
def test_every_sentence_of_the_code_is_found_for_the_catalogue(module: ModuleType) -> None:
    """A text that a function returns or keeps as a reason, whatever the name of the function."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and text.count(" ") > 2:
                assert PORTUGUESE.stored(text) != text, f"pt-BR.po lacks {text!r}"


def test_reasons_with_data_are_translated_with_them() -> None:
    text = "libxenstat of Xen 4.17 is missing or fails (no file): apt install xen-utils-4.17"
    assert PORTUGUESE.stored(text) == (
        "a libxenstat do Xen 4.17 falta ou falha (no file): apt install xen-utils-4.17"
    )
    assert PORTUGUESE.stored("90 files are too many: raise the limit (ulimit -n)").startswith("90 arquivos são")


def test_the_explanation_and_the_facts_of_a_host_show_them_in_portuguese(tmp_path: Path) -> None:
    missing = whole_host.not_counted(tmp_path)
    bullets = _not_counted(missing)[1]
    shown = [translated(item) for item in bullets.items]  # type: ignore[union-attr]
    shown += [translated(cell) for row in fact_rows({"not_counted": missing}) for cell in row]
    assert any("energia: o kernel não tem powercap" in each for each in shown)
    assert "o kernel não tem /proc/schedstat (CONFIG_SCHEDSTATS)" in shown
    assert not [each for each in shown if "the " in each]
    names = [english(name) for name, _ in fact_rows({"not_counted": missing})]
    assert "not counted: energy" in names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tour-1 and ufla2010-1 have nothing in common that was measured", "não têm em comum nada que foi medido"),
        ("tour-1 and tour-1 are the same run", "são a mesma execução"),
        ("write tour-1:podman, or two runs", "escreva tour-1:podman, ou duas execuções"),
    ],
)
def test_errors_of_a_contrast_are_in_portuguese_on_the_page(text: str, expected: str) -> None:
    assert expected in PORTUGUESE.stored(text)
