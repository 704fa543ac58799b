"""The checker of names, addresses and leftovers finds what it should."""

import importlib.util
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hygiene():
    spec = importlib.util.spec_from_file_location("hygiene", CHECKOUT / ".ci" / "hygiene.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("first", "found"), [("What", 1), ("Of", 1), ("Return what", 0), ("Offer", 0)]
)
def test_a_docstring_begins_with_a_verb_or_the_thing(hygiene, first, found):
    assert (
        len(
            list(
                hygiene.stiff_docstrings("m.py", f'class A:\n    x = 1\n    """{first} it is."""\n')
            )
        )
        == found
    )


def test_a_class_of_a_name_that_another_module_has_is_found(hygiene):
    known = {}
    assert not list(hygiene.repeated_classes("a.py", "class A: pass\nclass B: pass\n", known))
    assert list(hygiene.repeated_classes("b.py", "class C: pass\nclass A: pass\n", known)) == [
        "b.py:2: a class A is in a.py, too"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "see https:" + "//registry.example.net/simple",
        "mirror = 'ftp.some" + ".org'",
        "# TO" + "DO later",
        "/tmp" + "/w/data",
        "cd /home/me/checkout/src",
    ],
)
def test_addresses_leftovers_and_machine_paths_are_found(hygiene, line):
    assert list(hygiene.forbidden_text("f", line, "/home/me/checkout"))


@pytest.mark.parametrize(
    "line", ["xmlns='http://www.w3.org/2000/svg'", "import os.path", "np.com(1)", "/tmp/vtax/x"]
)
def test_ordinary_lines_pass(hygiene, line):
    assert not list(hygiene.forbidden_text("f", line, "/home/me/checkout"))


def test_a_file_in_the_root_must_be_a_known_one(hygiene):
    assert list(hygiene.stray_file("calls.out")) == [
        "calls.out: not one of the files in the root; remove it, or add it to ROOT_FILES"
    ]
    for path in ("README.md", "quickstart", "docs/calls.out"):
        assert not list(hygiene.stray_file(path))
