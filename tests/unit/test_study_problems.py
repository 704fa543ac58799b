"""All problems of a study are shown at once, each with what was probably meant, by load and by a dry run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtax.benchmarks import local
from vtax.cli.main import group
from vtax.errors import BadInput, BadInputs
from vtax.study.load import load

HEAD = 'name = "small"\nplatforms = ["native", "podman"]\n'
STREAM = '[[benchmark]]\nname = "stream"\n'


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refused(tmp_path: Path, text: str) -> BadInput:
    """The error of a dry run."""
    with pytest.raises(BadInput) as caught:
        group.main(args=["run", written(tmp_path, text), "--dry-run"], standalone_mode=False)
    return caught.value


def lines(error: BadInput) -> list[str]:
    return str(error).splitlines()


@pytest.fixture(autouse=True)
def nobody(unmade_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)


def test_all_problems_of_the_form_are_shown_with_their_places(tmp_path):
    """Parameters of tools and names of platforms are checked once it is right."""
    error = refused(
        tmp_path,
        """
        name = "small"
        plattforms = ["native", "podman"]
        [guest]
        memory = "512Mb"
        [design]
        margin = "5%"
        timeout = "60"
        [[benchmarks]]
        name = "iperf3"
        parameters = { lenght = 3 }
        """,
    )
    assert isinstance(error, BadInputs)
    assert lines(error)[:-2] == [
        "5 problems:",
        "  - key plattforms: unknown key 'plattforms'; did you mean platforms or [[platform]]?",
        "  - [[benchmarks]]: unknown table [[benchmarks]]; did you mean [[benchmark]]?",
        "  - [guest], key memory: '512Mb' ends in b, for bits; for bytes write '512MB' or '512MiB'",
        "  - [design], key timeout: '60' has no unit; write '60s', or for example 500ms, 7s, 10min or 2h",
        "  - [design], key margin: margin is '5%'; it must be a number above 0 and below 1",
        "      hint: for 5 % write 0.05",
    ]
    assert error.where == str(tmp_path / "mine.toml")


def test_tools_links_platforms_and_facts_are_refused_together(tmp_path):
    error = refused(
        tmp_path,
        """
        name = "small"
        platforms = ["native", "podmann", "mine"]
        must_match = ["kernel_relase", "mitigation", "mitigation.mds"]
        [[platform]]
        name = "mine"
        driver = "qemuu"
        [[benchmark]]
        name = "iperf"
        [[benchmark]]
        name = "iperf3"
        topology = "ruoter"
        factors = { direction = ["send", "recieve"] }
        """,
    )
    printed = "\n".join(line for line in lines(error) if line.startswith("  - "))
    for near in ("iperf3", "podman", "kernel_release", "qemu", "router"):
        assert f"did you mean {near}" in printed, near
    assert "direction is 'recieve'" in printed
    assert "mitigation;" not in printed
    assert len(printed.splitlines()) == 6


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (HEAD + "margin = 0.1\n" + STREAM, "margin is a key of [design]"),
        (HEAD + "guests = '1,2'\n" + STREAM, "[[benchmark]]"),
        (HEAD + "vcpus = 2\n" + STREAM, "vcpus is a key of [guest]"),
        (
            HEAD + STREAM + "must_match = []\n",
            "must_match belongs to the whole study: write it above the first table",
        ),
        (HEAD + STREAM + "mtu = 500\n", "link or link_factors what its links are"),
        (HEAD + STREAM + "parameters = { threads = [1, 2] }\n", "a list of levels belongs in factors"),
        (HEAD + "[[benchmark]]\nname = 'iperf3'\nlink = { mtu = [1] }\n", "a list of levels belongs in link_factors"),
        (
            HEAD + "[[benchmark]]\nname = 'iperf3'\nlink = { duration_s = 3 }\n",
            "duration_s is a parameter of iperf3: it belongs in parameters or factors",
        ),
        (
            HEAD + "[[benchmark]]\nname = 'iperf3'\nfactors = { mtu = [500, 1500] }\n",
            "mtu is a setting of the link: it belongs in link_factors",
        ),
        (HEAD + STREAM + STREAM + "parameters = { threads = 1 }\n", 'for example label = "number-2"'),
        (HEAD + "[benchmark]\nname = 'stream'\n", "write [[benchmark]], in two brackets: there may be several"),
        (HEAD + "[[platforms]]\nname = 'mine'\n" + STREAM, "a platform of your own is made by a table [[platform]]"),
        (
            "name = 'small'\n[[platforms]]\nname = 'mine'\ndriver = 'lxc'\n" + STREAM,
            'and list all their names at the top: platforms = ["native", "mine"]',
        ),
    ],
)
def test_a_problem_hints_at_the_right_place(tmp_path, text, hint):
    error = refused(tmp_path, text)
    assert hint in error.hint
    assert not isinstance(error, BadInputs)


def test_what_only_follows_from_another_problem_is_not_shown(tmp_path):
    error = refused(tmp_path, HEAD.replace("platforms", "baseline = 3\nplatforms").replace('"native", ', "") + STREAM)
    assert error.what == "baseline is 3; it must be text"
    error = refused(tmp_path, HEAD + "[design]\nstop = 'verdict'\nmax_blocks = 'x'\nmin_blocks = 40\n" + STREAM)
    assert error.what == "max_blocks is 'x'; it must be a whole number from 2 to 10000"


def test_all_problems_are_shown_up_to_a_bound(tmp_path):
    keys = [f"key{number} = 1\n" for number in range(BadInputs.MAX_SHOWN + 3)]
    error = refused(tmp_path, "".join(keys[:15]) + HEAD + STREAM)
    assert error.what.startswith("15 problems:")
    assert [line for line in lines(error) if "unknown key 'key14'" in line]
    assert "problems more" not in error.what
    error = refused(tmp_path, "".join(keys) + HEAD + STREAM)
    assert error.what.endswith("and 3 problems more")


def test_the_same_holds_for_what_is_loaded_without_a_plan(tmp_path):
    with pytest.raises(BadInputs, match=r"(?s)2 problems:.*'a'.*'b'"):
        load(written(tmp_path, "a = 1\nb = 2\n" + HEAD + STREAM))


def test_benchmarks_without_a_name_are_all_shown(tmp_path):
    error = refused(tmp_path, HEAD + "[[benchmark]]\nparameters = { threads = 1 }\n" * 2 + STREAM)
    found = [line for line in lines(error) if line.startswith("  - ")]
    assert [line.partition(": ")[0] for line in found] == [
        "  - [[benchmark]] number 1, key name",
        "  - [[benchmark]] number 2, key name",
    ]


def test_an_unknown_topology_hides_nothing_in_other_tables(tmp_path):
    network = '[[benchmark]]\nname = "iperf3"\ntopology = "rooter"\nparameters = { window = "x" }\n'
    error = refused(tmp_path, HEAD.replace("podman", "podmann") + network + STREAM + "parameters = { thread = 1 }\n")
    places = [line.partition(": ")[0] for line in lines(error) if line.startswith("  - ")]
    assert sorted(places) == [
        "  - [[benchmark]] number 1 (iperf3), key parameters.window",
        "  - [[benchmark]] number 1 (iperf3), key topology",
        "  - [[benchmark]] number 2 (stream), key parameters.thread",
        "  - key platforms",
    ]


def test_too_many_vcpus_and_too_much_memory_are_both_shown(tmp_path):
    error = refused(tmp_path, HEAD + '[guest]\nvcpus = 4096\nmemory = "900TiB"\n' + STREAM)
    places = [line.partition(": ")[0] for line in lines(error) if line.startswith("  - ")]
    assert places == ["  - [guest], key vcpus", "  - [guest], key memory"]


PROGRAM = """
[[program]]
name = "own"
parameters = { size = 3 }
argv = { guest = ["echo", "{nope}", "{size}"] }
[[program.metric]]
name = "time"
unit = "s"
better = "lower"
pattern = "([0-9]+) s"
[[benchmark]]
name = "own"
"""


def test_a_file_of_a_program_that_is_not_there_hides_no_benchmark(tmp_path):
    missing = PROGRAM.replace("{nope}", "{files}/x").replace(
        "[[program.metric]]", 'files = ["x"]\n[[program.metric]]'
    )
    error = refused(tmp_path, f"{HEAD}{missing}{STREAM}factors = {{ array_size = ['9000GiB'] }}\n")
    assert isinstance(error, BadInputs)
    assert [each.where.partition(": ")[2] for each in error.problems] == [
        "[[program]] number 1 (own), key files",
        "[[benchmark]] number 2 (stream), key factors.array_size",
    ]


@pytest.mark.parametrize(
    ("name", "parameters", "found"),
    [
        ("redis", "requests = 100, clients = 1000", "requests (100) are fewer than clients (1000)"),
        ("redis", 'keys = 100000000, value_size = "1MiB"', "99950 different keys that 100000 requests set"),
        ("bonnie", "files = 1000", "files is 1024000 files, and the file system of the guests has 7 inodes free"),
    ],
)
def test_what_a_tool_cannot_do_is_a_problem_of_the_plan(tmp_path, monkeypatch, name, parameters, found):
    monkeypatch.setattr(local, "_free_inodes", lambda path: 7)
    text = f'{HEAD}[[benchmark]]\nname = "{name}"\nparameters = {{ {parameters} }}\n'
    assert found in str(refused(tmp_path, text))


def test_small_mistakes_have_their_hint(tmp_path):
    error = refused(
        tmp_path,
        """
        name = "small"
        platforms = ["native"]
        [guest]
        memory = 512
        [[benchmark]]
        name = "stream"
        [[program]]
        name = "gz"
        argv = ["gzip"]
        [[program.metric]]
        name = "x"
        unitt = "s"
        """,
    )
    printed = "\n".join(lines(error))
    for expected in (
        "key metric number 1, unitt: unknown key 'unitt'",
        'for MiB write memory = "512MiB"',
        "write a table: argv = { guest = [...] }",
    ):
        assert expected in printed, expected
    date = refused(tmp_path, HEAD + STREAM + "parameters = { threads = 2026-01-01 }\n")
    assert "threads is 2026-01-01; it must be" in date.what
    printed = "\n".join(lines(refused(tmp_path, HEAD.replace('"podman"', '"kvm", "Docker"') + STREAM)))
    for expected in (
        "there is no platform 'kvm'; did you mean kvm-",
        ", kvm-virtio, ",
        "there is no platform 'Docker'; did you mean docker?",
    ):
        assert expected in printed, expected
