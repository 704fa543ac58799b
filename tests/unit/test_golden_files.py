"""Golden files: what is masked, what a difference says, and that each belongs to a test."""

import re
from pathlib import Path

import pytest
from golden_files import CHECKOUT, GOLDEN, Golden, golden_of, masked

from vtax import __version__


def test_what_changes_from_run_to_run_is_masked():
    text = f"{CHECKOUT}/src, /srv/x/study.toml, vtax {__version__}, tour-1 (process 312)  \nend\n\n"
    assert masked(text, Path("/srv/x")) == (
        "CHECKOUT/src, DIRECTORY/study.toml, vtax VERSION, tour-1 (process PID)\nend\n"
    )


def test_a_difference_names_the_file_and_the_lines(tmp_path):
    Golden(tmp_path / "one", tmp_path, writes=True)("a\nb\n")
    Golden(tmp_path / "one", tmp_path)("a\nb\n")
    with pytest.raises(AssertionError, match=r"(?s)one\.txt: .*--write-golden.*-b\n\+c"):
        Golden(tmp_path / "one", tmp_path)("a\nc\n")
    with pytest.raises(AssertionError, match=r"one\.plan\.txt"):
        Golden(tmp_path / "one", tmp_path)("a\nb\n", "plan")


def test_a_name_is_that_of_the_test_and_its_parameters(tmp_path):
    made = golden_of(Path(__file__), "test_x[a b/c]", tmp_path, writes=False)
    assert made.place == GOLDEN / "unit/test_golden_files/test_x-a-b-c"


def test_every_golden_file_belongs_to_a_test():
    for file in GOLDEN.rglob("*.txt"):
        module = GOLDEN.parent / file.parent.relative_to(GOLDEN).with_suffix(".py")
        function = re.match(r"\w+", file.name)
        assert function is not None
        assert re.search(rf"^def {function[0]}\([^)]*\bgolden\b", module.read_text(), re.M), file
