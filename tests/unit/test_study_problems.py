"""All problems of a study are shown at once, each with what was probably meant, by load and by a dry run."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.benchmarks import checks
from vtax.cli.main import group
from vtax.errors import BadInput, BadInputs
from vtax.study.load import load

pytestmark = pytest.mark.usefixtures("unmade_home", "ordinary_user")

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


NETWORK = '[[benchmark]]\nname = "iperf3"\n'
OF_SEVERAL = {
    "of the form": """
name = "small"
plattforms = ["native", "podman"]
[guest]
memory = "512Mb"
[design]
margin = 5
timeout = "60"
[[benchmarks]]
name = "iperf3"
parameters = { lenght = 3 }
""",
    "of tools, links, platforms and facts": """
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
    "small mistakes": """
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
    "of the form, a tool and a platform": """
name = "small"
platforms = ["native", "podmn"]
[guest]
vcpu = 1
[design]
block = 5
[[benchmark]]
name = "stream"
parameters = { threds = 2 }
""",
    "near names of platforms": HEAD.replace('"podman"', '"kvm", "Docker"') + STREAM,
    "benchmarks without a name": HEAD
    + "[[benchmark]]\nparameters = { threads = 1 }\n" * 2
    + STREAM,
    "an unknown topology and other tables": HEAD.replace("podman", "podmann")
    + f'{NETWORK}topology = "rooter"\nparameters = {{ window = "x" }}\n{STREAM}parameters = {{ thread = 1 }}\n',
}


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_all_problems_are_shown_with_their_places(tmp_path, name, golden):
    """Those of the form, and of what is left without the keys that are wrong."""
    error = refused(tmp_path, OF_SEVERAL[name])
    assert isinstance(error, BadInputs)
    golden(str(error))


ALONE = (
    HEAD + "margin = 0.1\n" + STREAM,
    HEAD + "guests = '1,2'\n" + STREAM,
    HEAD + "vcpus = 2\n" + STREAM,
    HEAD + STREAM + "must_match = []\n",
    HEAD + STREAM + "mtu = 500\n",
    HEAD + STREAM + "parameters = { threads = [1, 2] }\n",
    HEAD + STREAM + "parameters = { threads = 2026-01-01 }\n",
    HEAD + NETWORK + "link = { mtu = [1] }\n",
    HEAD + NETWORK + "link = { duration_s = 3 }\n",
    HEAD + NETWORK + "factors = { mtu = [500, 1500] }\n",
    HEAD + STREAM + STREAM + "parameters = { threads = 1 }\n",
    HEAD + "[benchmark]\nname = 'stream'\n",
    HEAD + "[[platforms]]\nname = 'mine'\n" + STREAM,
    HEAD
    + "[[platform]]\nname = 'mine'\ndriver = 'podman'\nconfinement = ['none', 'default']\n"
    + STREAM,
    "name = 'small'\n[[platforms]]\nname = 'mine'\ndriver = 'lxc'\n" + STREAM,
)


def test_a_problem_hints_at_the_right_place(tmp_path, golden):
    errors = [refused(tmp_path, text) for text in ALONE]
    assert not [error for error in errors if isinstance(error, BadInputs)]
    golden("\n".join(f"{text}-> {error}\n" for text, error in zip(ALONE, errors, strict=True)))


def test_what_only_follows_from_another_problem_is_not_shown(tmp_path):
    error = refused(
        tmp_path,
        HEAD.replace("platforms", "baseline = 3\nplatforms").replace('"native", ', "") + STREAM,
    )
    assert error.what.startswith("baseline is 3; it must be text")
    error = refused(
        tmp_path, HEAD + "[design]\nstop = 'verdict'\nmax_blocks = 'x'\nmin_blocks = 40\n" + STREAM
    )
    assert error.what.startswith("max_blocks is 'x'; it must be a whole number from 2 to 10000")


@pytest.mark.parametrize(
    "wrong",
    [
        'baseline = "podman"\nplatforms = "podman"\n',  # what names others is wrong
        'platforms = ["native", "podman"]\n[[benchmark]]\nname = "x"\nlabel = 3\n',
    ],
)
def test_a_study_whose_names_are_wrong_is_not_looked_at_further(tmp_path, wrong):
    error = refused(tmp_path, f'name = "small"\n{wrong}[[benchmark]]\nname = "streem"\n')
    assert "streem" not in str(error)


def test_a_misspelt_rule_makes_no_other_key_idle(tmp_path):
    error = refused(tmp_path, HEAD + '[design]\nstp = "verdict"\nmax_blocks = 40\n' + STREAM)
    assert error.what.startswith("unknown key 'stp'")


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
        (
            "redis",
            'keys = 100000000, value_size = "1MiB"',
            "99950 different keys that 100000 requests set",
        ),
        (
            "bonnie",
            "files = 1000",
            "files is 1024000 files, and the file system of the guests has 7 inodes free",
        ),
    ],
)
def test_what_a_tool_cannot_do_is_a_problem_of_the_plan(
    tmp_path, monkeypatch, name, parameters, found
):
    monkeypatch.setattr(checks, "_free_inodes", lambda path: 7)
    text = f'{HEAD}[[benchmark]]\nname = "{name}"\nparameters = {{ {parameters} }}\n'
    assert found in str(refused(tmp_path, text))
