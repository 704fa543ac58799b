"""Readings around a trial: in which order, and that nothing is parsed before the program starts."""

import os

import pytest

from vtax.counters import guest as of_kernel
from vtax.counters import whole_host
from vtax.guest.results import ClockReading, GuestSample
from vtax.messages import Note, severity_of
from vtax.runner import counting

TEXT = {"/proc/stat": b"ctxt 5\nbtime 1\n"}


class Recorded:
    """A guest and its platform that note what is asked of them."""

    parts = ()
    is_remote = False
    has_own_kernel = True

    def __init__(self, steps):
        self.steps = steps

    def begin_sample(self, paths):
        self.steps.append("guest")

    def collect_sample(self, begun):
        return GuestSample(ClockReading(0.0, 0.0, 0.0, 0.0), TEXT)

    def counted(self, sample):
        self.steps.append("parse")
        return of_kernel.parse(sample.files)

    def host_cpu_s(self):
        self.steps.append("layer")
        return 1.0

    def throttling(self):
        return {}


@pytest.fixture
def steps(monkeypatch):
    done = []
    read, parse = whole_host.HostCounters.read, whole_host.parse
    monkeypatch.setattr(
        whole_host.HostCounters, "read", lambda self: (done.append("host"), read(self))[1]
    )
    monkeypatch.setattr(whole_host, "parse", lambda files: (done.append("parse"), parse(files))[1])
    return done


def counted(steps):
    end = Recorded(steps)
    return counting.Counting({"guest": counting.Endpoint(end, end)}, None)


def test_one_exchange_with_a_guest_at_each_end_and_parsing_after_both(steps):
    trial = counted(steps)
    with trial.around():
        steps.append("program")
    trial.compare()
    assert steps[:7] == ["guest", "layer", "host", "program", "host", "layer", "guest"]
    assert set(steps[7:]) == {"parse"}


def test_ends_are_asked_at_once_and_the_guest_last():
    steps = []

    class End(Recorded):
        def begin_sample(self, paths):
            steps.append(self.steps)

        def collect_sample(self, begun):
            steps.append(f"{self.steps} answers")
            return super().collect_sample(begun)

    guest, peer = End("guest"), End("peer")
    guest.host_cpu_s = peer.host_cpu_s = lambda: None
    ends = {"guest": counting.Endpoint(guest, guest), "peer": counting.Endpoint(peer, peer)}
    with counting.Counting(ends, None).around():
        assert steps == ["peer", "guest", "guest answers", "peer answers"]


def test_a_program_that_fails_is_counted_too(steps):
    trial = counted(steps)
    with pytest.raises(ZeroDivisionError), trial.around():
        raise ZeroDivisionError
    trial.compare()
    assert trial.differences["guest", "context_switches"] == 0.0


def test_a_quota_that_stopped_the_guest_is_a_note():
    spent = {"quota_periods": 50.0, "throttled_periods": 31.0, "throttled_s": 1.5}
    (note,) = counting.quota_notes({("layer", name): value for name, value in spent.items()})
    assert note == Note("throttled", share="62 %", seconds=1.5)
    assert severity_of(note.code) == "note"
    assert counting.quota_notes({("layer", name): 0.0 for name in spent}) == ()
    assert counting.quota_notes({}) == ()


def test_files_stay_open_and_are_read_anew(tmp_path, monkeypatch):
    from vtax.counters import open_files

    kept, beyond, missing = (tmp_path / name for name in ("kept", "beyond", "missing"))
    monkeypatch.setattr(open_files, "_MOST", 1)
    files = open_files.OpenFiles()
    for text in (b"one", b"three"):
        kept.write_bytes(text)
        beyond.write_bytes(text)
        assert [files.read(path) for path in (kept, beyond, missing)] == [text, text, None]
    kept.rename(tmp_path / "moved")
    assert files.read(kept) == b"three"
    missing.write_bytes(b"now")
    assert files.read(missing) == b"now"
    files.close()
    assert files.read(kept) is None


def test_a_file_that_cannot_seek_is_read_every_time(tmp_path):
    from vtax.counters.open_files import OpenFiles

    os.mkfifo(pipe := tmp_path / "exits")
    files = OpenFiles()
    assert [files.read(pipe) for _ in range(2)] == [b"", b""]
