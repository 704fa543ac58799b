"""Which mirror an image comes from: the host's own Debian mirror, or none."""

import pytest

from vtax.image.sources import host_mirror, parse_deb822, parse_one_line

DEBIAN = "http://mirror.example/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


@pytest.fixture
def apt(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_deb822_sources_of_debian_12_and_later(apt):
    (apt / "sources.list.d/debian.sources").write_text(
        f"""Types: deb deb-src
# a comment between fields
URIs: {DEBIAN}
Suites: bookworm bookworm-updates
Components: main
Signed-By: {KEYS}

Types: deb
URIs: {DEBIAN}-security
Suites: bookworm-security
Components: main
Signed-By: {KEYS}
"""
    )
    assert host_mirror(apt) == DEBIAN


def test_one_line_sources(apt):
    (apt / "sources.list").write_text(
        f"# old\ndeb-src {DEBIAN}/src trixie main\ndeb {DEBIAN} trixie main contrib\n"
    )
    assert host_mirror(apt) == DEBIAN


def test_options_of_one_line_sources():
    (source,) = parse_one_line(f"deb [ arch=amd64 signed-by={KEYS} ] {DEBIAN} sid main # comment")
    assert (source.uris, source.suites, source.signed_by) == ((DEBIAN,), ("sid",), KEYS)


@pytest.mark.parametrize(
    "line",
    [
        "deb http://mirror.example/debian bookworm stable",
        "deb http://mirror.example/ubuntu noble main universe",
        "deb http://mirror.example/debian bookworm-security main",
        "deb [signed-by=/usr/share/keyrings/another.gpg] http://mirror.example/debian bookworm main",
        "deb http://mirror.example/postgresql bookworm-pgdg main",
        "not a source at all",
    ],
)
def test_other_repositories_are_not_taken_for_debian(apt, line):
    (apt / "sources.list").write_text(line + "\n")
    assert host_mirror(apt) is None


def test_disabled_and_source_only_entries_do_not_count():
    entry = f"Types: deb\nURIs: {DEBIAN}\nSuites: trixie\nComponents: main\n"
    assert len(list(parse_deb822(entry))) == 1
    assert list(parse_deb822(entry + "Enabled: no\n")) == []
    assert list(parse_deb822(entry.replace("Types: deb", "Types: deb-src"))) == []


def test_folded_fields_are_one():
    (source,) = parse_deb822(
        f"Types: deb\nURIs: {DEBIAN}\nSuites: trixie\nComponents:\n main\n contrib\n"
    )
    assert source.components == ("main", "contrib")


def test_a_list_of_mirrors_stands_for_its_first(apt):
    mirrors = apt / "mirrors.list"
    mirrors.write_text(f"{DEBIAN}\tpriority:1\nhttp://second.example/debian\n")
    (apt / "sources.list").write_text(f"deb mirror+file:{mirrors} trixie main\n")
    assert host_mirror(apt) == DEBIAN


def test_no_configuration_at_all_leaves_the_choice_to_the_tool(apt):
    assert host_mirror(apt) is None


def test_a_mirror_in_a_directory_is_copied_from_since_dpkg_cannot_read_it_within_the_tree(apt):
    (apt / "sources.list").write_text("deb file:/srv/debian trixie main\n")
    assert host_mirror(apt) == "copy:/srv/debian"
