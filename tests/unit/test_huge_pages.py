"""The host's policy of huge pages is set, and put back through the journal alone."""

from pathlib import Path

from vtax.host import huge_pages
from vtax.host.journal import Journal


def policy(directory: Path) -> Path:
    (directory / "enabled").write_text("always [madvise] never\n")
    (directory / "defrag").write_text("[always] defer madvise never\n")
    (directory / "shmem_enabled").write_text("always within_size advise [never] deny force\n")
    return directory


def test_it_is_set_where_it_is_not_and_put_back_when_released(tmp_path):
    place = policy(tmp_path)
    with Journal(tmp_path / "journal") as journal:
        registered = huge_pages.turn_on(journal, place)
        assert [(place / name).read_text() for name in ("enabled", "shmem_enabled")] == [
            "always",
            "always",
        ]
        assert (place / "defrag").read_text().startswith("[always]")
        assert len(registered) == len(journal.registered) == 2
    assert (place / "enabled").read_text() == "madvise"
    assert (place / "shmem_enabled").read_text() == "never"


def test_a_kernel_without_some_of_the_settings_is_served(tmp_path):
    place = policy(tmp_path)
    (place / "shmem_enabled").unlink()
    with Journal(tmp_path / "journal") as journal:
        assert len(huge_pages.turn_on(journal, place)) == 1


def test_a_host_without_huge_pages_is_known(tmp_path):
    assert not huge_pages.available(tmp_path)
    assert huge_pages.available(policy(tmp_path))


def test_a_process_that_is_gone_has_none():
    assert huge_pages.bytes_of_process(2**22) == 0
