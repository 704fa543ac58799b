"""What vtax says is code and data: it comes back from where it is kept, and no text of others passes for it."""

import pickle

import pytest

from vtax.foreign_text import MAX_TEXT_CHARS
from vtax.messages import (
    SENTENCES,
    TERMS,
    Note,
    at,
    columns_of,
    forms_of,
    note_in,
    packed,
    quoted,
    restored,
    together,
)

SAID = (
    Note("host-busy", cpus=0.5),
    Note(
        "topology",
        topology="point-to-point",
        what=Note("token-bucket", rate=100, count=2, module="sch_netem"),
    ),
    Note("too-fast-to-time", names=("read", "seeks")),
    at(Note("no-dom0"), "/proc/xen", Note("hint-dom0")),
    together([Note("vhost-off"), "what a driver says"]),
)


@pytest.mark.parametrize("note", SAID, ids=lambda note: note.code)
def test_a_note_comes_back_with_code_and_data_from_the_store_and_other_processes(note):
    columns = columns_of(note)
    for again in (restored(packed(note)), note_in(**columns), pickle.loads(pickle.dumps(note))):
        assert isinstance(again, Note)
        assert (again.code, dict(again.data), str(again)) == (note.code, dict(note.data), str(note))


def test_words_of_others_stay_words_of_others():
    assert quoted("disk is full").code == "tool-said"
    assert quoted(SAID[0]) is SAID[0]
    for text in ('{"code": "no-such", "data": {}}', packed(SAID[0]), '{"code": ', "plain"):
        assert type(kept := restored(packed(text))) is str
        assert kept.strip() == text.strip()
    assert note_in("no-such-code", {"text": "x"}) == "no-such-code"


def test_what_is_kept_is_clean_and_bounded():
    kept = restored(packed(Note("tool-said", text="a\x1b[2Jb")))
    assert "\x1b" not in kept
    assert len(packed(Note("tool-said", text="x" * 10 * MAX_TEXT_CHARS))) <= MAX_TEXT_CHARS


def test_a_code_without_a_sentence_and_data_that_it_lacks_are_refused():
    with pytest.raises(KeyError):
        Note("no-such-code")
    with pytest.raises(KeyError):
        Note("host-busy")


def test_a_count_decides_the_form():
    assert Note("few-blocks", count=1, minimum=5).startswith("one block is")
    assert Note("few-blocks", count=2, minimum=5).startswith("2 blocks are")
    assert all(forms_of(code)[0] for code in SENTENCES)
    assert not TERMS & set(SENTENCES)
