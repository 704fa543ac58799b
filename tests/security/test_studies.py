"""Hostile study files: mutated and made-up ones are loaded, checked, expanded and planned by `vtax run --dry-run`.

Each is refused with what, where and a hint, or planned; in either case quickly and in little memory. Nothing is
started: without root no platform is probed, and no machine that a study names as peer is looked for.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest

from vtax.benchmarks.registry import benchmarks
from vtax.cli.main import group
from vtax.errors import BadInput, VtaxError
from vtax.foreign_text import escaped
from vtax.network.registry import topologies
from vtax.network.settings import LinkSettings
from vtax.platforms.registry import drivers, names
from vtax.platforms.ssh.driver import Ssh
from vtax.study.keys import Key, keys
from vtax.study.load import shipped
from vtax.study.model import DesignTable, GuestTable

NOWHERE = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - one for all, since click keeps each it sees
LONGEST_ERROR = 8000  # characters
LONGEST_LINE = 400_000  # characters: more than a study file may have


class Raw(str):
    """A piece of TOML as it stands."""


HAND_MADE = (
    {"name": "a", "platforms": ["native"], "benchmark": [{"name": "stream"}]},
    {
        "name": "tuned",
        "platforms": ["native", "podman", "mine"],
        "tuning": ["default", "pinned"],
        "must_match": ["kernel_release"],
        "question": "which?",
        "guest": {"vcpus": 1, "memory": "256MiB"},
        "design": {"stop": "budget", "budget": "2h", "warmup": 1, "seed": 3},
        "platform": [{"name": "mine", "driver": "qemu", "accel": "tcg", "nic": "e1000"}],
        "benchmark": [
            {"name": "sysbench-cpu", "factors": {"threads": [1, 2]}},
            {"name": "dd", "label": "disk", "parameters": {"file_size": "1GiB"}},
            {
                "name": "iperf3",
                "link_factors": {"mtu": [500, 1500], "attachment": ["bridge", "veth"]},
            },
        ],
    },
    {
        "name": "peers",
        "platforms": ["native", "gvisor-ptrace"],
        "design": {"order": "sequential", "timeout": 60},
        "platform": [
            {
                "name": "far",
                "driver": "ssh",
                "host": "far",
                "config": "/nowhere",
                "local_user": "nobody",
                "uplinks": "eth7:eth7",
            }
        ],
        "benchmark": [
            {"name": "netperf", "link": {"peer": "far"}},
            {"name": "sockperf", "topology": "vlan-pairs", "link": {"pairs": 2}},
        ],
    },
    {
        "name": "programs",
        "platforms": ["native", "x", "y", "ssh:far", "libvirt:d"],
        "design": {"stop": "verdict", "max_blocks": 50, "margin": 0.05, "confidence": 0.99},
        "platform": [
            {"name": "x", "driver": "gvisor", "runsc": "/nowhere/runsc"},
            {"name": "y", "driver": "ssh", "host": "y", "config": "/nowhere"},
        ],
        "benchmark": [
            {"name": "stream", "parameters": {"array_size": "32MiB"}, "factors": {"threads": [1]}}
        ],
    },
    {
        "name": "own",
        "platforms": ["native"],
        "program": [
            {
                "name": "hashing",
                "argv": {"guest": ["{files}/null", "--size={size}", "{{}}", "{vcpus}"]},
                "parameters": {"size": 3},
                "version": ["true"],
                "expected_duration": "1s",
                "timeout": "1min",
                "metric": [
                    {"name": "time", "unit": "s", "better": "lower", "pattern": "^([0-9.]+) s$"}
                ],
            },
            {
                "name": "served",
                "argv": {"client": ["c", "{peer_address}:{port}"], "server": ["s", "{port}"]},
                "port": 7000,
                "version": ["c", "-V"],
                "files": [],
                "metric": [
                    {
                        "name": "rate",
                        "unit": "1/s",
                        "better": "higher",
                        "pointer": "/a",
                        "output": "stderr",
                    }
                ],
            },
        ],
        "benchmark": [
            {"name": "hashing", "factors": {"size": [1, 2]}},
            {"name": "served", "topology": "point-to-point", "link": {"mtu": 1500}},
        ],
    },
)
SCALARS: tuple[Any, ...] = (
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    64,
    1.5,
    -0.0,
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63),
    10**18,
    10**30,
    "",
    " ",
    "0",
    "-1",
    "1.5",
    "²",
    "\u0663",
    "\u0661\u0662MiB",
    "512MiB",
    "9999999999TiB",
    "5h",
    "1e5",
    "0s",
    "9" * 400 + "h",
    "nan",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "\U0010ffff",
    "a\nb",
    "x" * 5000,
    "x" * 300,
    "..",
    "/",
    "-x",
    "native",
    "native:x",
    "ssh:",
    "ssh:-oProxyCommand=x",
    "libvirt:a b",
    ":",
    "%s{0}$(x)`x`",
    Raw("9" * 5000),
    Raw("1979-05-27T07:32:00Z"),
    Raw("07:32:00"),
    Raw("0xffffffffffffffffff"),
    Raw("1_000"),
    Raw("+1"),
    Raw("-nan"),
    Raw("01"),
    Raw("1."),
    Raw("nothing"),
    Raw("'''a\n'''"),
    Raw("9" * 400 + ".5"),
    [],
    {},
    [[]],
    [{}],
)
PIECES = (
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xff",
    b"\x00",
    b"\x1b[2J",
    b"\r",
    b"\n",
    b"=",
    b"[",
    b"]",
    b"{",
    b"}",
    b"'",
    b'"""',
    b"#",
    b",",
    b".",
    b"[[benchmark]]\n",
    b"[design]\n",
    b"[design.x]\n",
    b"a." * 40,
    b"a." * 40_000,
    b"[" * 5000,
    b"{a=" * 5000,
    b"# " + b"x" * 300_000,
    b"x = 1\n" * 30_000,
    b"name = 'b'\n",
    "\N{ARABIC-INDIC DIGIT THREE}".encode(),
)

KEYS = (
    "x",
    "x.y",
    "",
    "\u00e9",
    "\x07",
    "k" * 300,
    "name",
    "label",
    "link",
    "tuning",
    "peer",
    "guests",
    "neighbour",
)
PLATFORMS = ("x", "far", "ssh:far", "ssh:-x", "libvirt:d", "", "a\x1b[2J", ":")


@pytest.fixture(scope="module")
def corpus() -> list[dict[str, Any]]:
    """Studies as plain values: those that ship, and those above."""
    return [*(tomllib.loads(path.read_text()) for path in shipped().values()), *HAND_MADE]


def hostile(random: Random) -> Any:
    """A value of any kind: plausible, of a wrong type, huge, deep, or many."""
    chance = random.random()
    if chance < 0.04:
        depth = random.choice((5, 9, 200, 3000))
        opening, closing = random.choice((("[", "]"), ("{a = ", "}")))
        return Raw(opening * depth + "1" + closing * depth)
    if chance < 0.08:
        return list(range(random.choice((10, 70, 300, 9000, 21_000))))
    if chance < 0.12:
        return deepcopy([random.choice(SCALARS) for _ in range(random.randrange(4))])
    if chance < 0.3:
        return random.choice([*names(), *drivers(), *benchmarks(), *topologies()])
    return deepcopy(random.choice(SCALARS))


def allowed(random: Random, key: Key) -> Any:
    """A value that a key may hold, or one just beyond."""
    bounds = [
        int(bound) + step
        for bound in key.bounds.values()
        if math.isfinite(bound)
        for step in (-1, 0, 1)
    ]
    return (
        hostile(random)
        if random.random() < 0.1
        else deepcopy(random.choice([*key.choices, *bounds, key.default]))
    )


def made_up(random: Random) -> dict[str, Any]:
    """A study of what there is: tools, drivers, topologies, with values that each of their keys may hold."""

    def table(model: Any, maximum: int) -> dict[str, Any]:
        found = keys(model)
        chosen = random.sample(found, random.randint(0, min(maximum, len(found))))
        return {key.name: allowed(random, key) for key in chosen}

    def benchmark(number: int) -> dict[str, Any]:
        tool = random.choice(list(benchmarks().values()))
        made: dict[str, Any] = {
            "name": tool.name,
            "label": f"b{number}",
            "parameters": table(tool.Parameters, 3),
        }
        free = [key for key in keys(tool.Parameters) if key.name not in made["parameters"]]
        if free and random.random() < 0.6:
            key = random.choice(free)
            made["factors"] = {
                key.name: [allowed(random, key) for _ in range(random.randint(1, 4))]
            }
        if tool.needs_network:
            made |= {"topology": random.choice(list(topologies())), "link": table(LinkSettings, 2)}
        return made

    own = [
        {"name": f"p{number}", "driver": driver.name, **table(driver.Options, 3)}
        for number, driver in enumerate(
            random.choices(list(drivers().values()), k=random.randrange(3))
        )
    ]
    return {
        "name": "made-up",
        "platforms": [
            "native",
            *random.sample(names(), random.randrange(4)),
            *(table["name"] for table in own),
        ],
        "platform": own,
        "guest": table(GuestTable, 1),
        "design": table(DesignTable, 3),
        "benchmark": [benchmark(number) for number in range(random.randint(1, 3))],
    }


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(table or list, key or number) of every value in a study."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, below in list(inside)[:200]:
        yield value, key
        yield from places(below)


def mutate(study: dict[str, Any], random: Random) -> None:
    """Change one thing in a study."""
    everywhere = [*places(study), (study, "name")]
    holder, key = random.choice(everywhere)
    value = registered(holder, key)
    match random.randrange(8):
        case 3 if isinstance(holder, dict):
            holder.pop(key, None)
        case 4 if isinstance(holder, dict):
            holder[random.choice([*holder, *KEYS])] = hostile(random)
        case 5 if isinstance(holder, list):
            holder *= random.choice((0, 2, 3, 70, 300) if len(holder) < 100 else (0, 2))
        case 6:
            other, place = random.choice(everywhere)
            holder[key], other[place] = deepcopy(registered(other, place)), deepcopy(value)
        case 7:
            holder[key] = random.choice(([value], {"a": value}, str(value), [value, value]))
        case _:
            holder[key] = hostile(random)


def registered(holder: Any, key: Any) -> Any:
    """What a table or a list holds there."""
    return holder.get(key) if isinstance(holder, dict) else holder[key]


def toml(value: Any) -> str:
    """A value in TOML; None is left out."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (
            f"{json.dumps(str(key))} = {toml(below)}"
            for key, below in value.items()
            if below is not None
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(toml(below) for below in value if below is not None)}]"
    return str(value)


def text_of(study: dict[str, Any], random: Random) -> bytes:
    """A study file, some of them damaged in their bytes."""
    lines = [
        f"{json.dumps(key)} = {toml(value)}\n"[:LONGEST_LINE]
        for key, value in study.items()
        if value is not None
    ]
    if random.random() < 0.1:
        lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
    text = bytearray("".join(lines), "utf-8", "surrogatepass")
    if random.random() < 0.25:
        for _ in range(random.randint(1, 3)):
            where = random.choice((0, random.randrange(len(text) + 1)))
            text[where : where + random.choice((0, 0, 1, 5, 50))] = random.choice(PIECES)
    if random.random() < 0.02:
        return text.decode("utf-8", "replace").encode(
            random.choice(("utf-16", "utf-32", "utf-8-sig")), "replace"
        )
    return bytes(text)


def options(random: Random) -> list[str]:
    """Words of the command line beside the study."""
    given = []
    if random.random() < 0.15:
        given += [
            "--platforms",
            random.choice([*names(), *PLATFORMS]),
        ]
    if random.random() < 0.3:
        given += ["--scale", random.choice(("quick", "short", "x", ""))]
    if random.random() < 0.1:
        given += ["--protocol", random.choice(("paper", "x"))]
    if random.random() < 0.1:
        given += ["--blocks", random.choice(("1", "3", "0", "10000", "10001", "9" * 5000, "x"))]
    if random.random() < 0.1:
        given += [
            "--budget",
            random.choice(("1h", "0", "1ms", "-1", "9" * 400, "inf", "nan", "1e9d", "", "366d")),
        ]
    if random.random() < 0.1:
        given += ["--seed", random.choice(("0", "-1", str(2**63), str(-(2**63)), "9" * 5000))]
    return given + ["--json"] * (random.random() < 0.3)


def plan(path: Path, given: list[str]) -> None:
    """What `vtax run PATH --dry-run` does. Raises VtaxError, and AssertionError for one that does not help."""
    try:
        with redirect_stdout(NOWHERE), redirect_stderr(NOWHERE):
            group.main(args=["run", str(path), "--dry-run", *given], standalone_mode=False)
    except click.UsageError as error:
        raise BadInput(error.format_message()) from error
    except VtaxError as error:
        if not helps(error):
            raise AssertionError(f"{type(error).__name__} does not help: {error!s:.300}") from error
        raise


def helps(error: VtaxError) -> bool:
    """Whether an error says in few plain words what is wrong with a study, where, and what to do."""
    printed = str(error)
    is_plain = escaped(printed) == printed and len(printed) < LONGEST_ERROR
    return isinstance(error, BadInput) and is_plain and all((error.what, error.where, error.hint))


@pytest.fixture
def nothing_starts(unmade_home: Path, monkeypatch: pytest.MonkeyPatch, ordinary_user: None) -> None:
    monkeypatch.setattr(Ssh, "check_machine", lambda *_: None)


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.whole(100_000)
def test_no_study_ends_in_a_traceback_hangs_or_needs_much_memory(campaign, corpus, tmp_path):
    path = tmp_path / "hostile.toml"

    def attack(random: Random) -> None:
        chosen = random.randrange(len(corpus) + 3)
        study = deepcopy(corpus[chosen]) if chosen < len(corpus) else made_up(random)
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            mutate(study, random)
        path.write_bytes(text_of(study, random))
        plan(path, options(random))

    made = campaign(300, attack)
    assert made.outcomes["survived"] > made.count / 50
    assert made.outcomes["BadInput"] > made.count / 2


@pytest.mark.usefixtures("nothing_starts")
def test_every_study_of_the_corpus_is_planned_as_it_stands(corpus, tmp_path):
    """So that what is mutated comes far before it fails."""
    path = tmp_path / "whole.toml"
    for study in corpus:
        path.write_text(
            "".join(f"{key} = {toml(value)}\n" for key, value in study.items()), encoding="utf-8"
        )
        plan(path, [])


MISPLACED = (
    ('guests = "1,2,4"', "guests = [1, 2, 4]"),
    ('factors = { guests = "1,2,4" }', "guests = [1, 2, 4]"),
    ('factors = { guests = ["1,2,4"] }', "a whole number from 1 to 64"),
    ('factors = { guests = ["x"], neighbour = [5, "none"] }', "a whole number from 1 to 64"),
    ('parameters = { guests = "1,2,4" }', "write it beside name"),
    ('guests = ["1,2,4"]', "docs/study-files.md"),
)


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(("line", "hint"), MISPLACED)
def test_further_guests_in_a_wrong_place_or_form_are_refused_with_the_right_one(
    line, hint, tmp_path
):
    path = tmp_path / "guests.toml"
    path.write_text(f'name = "a"\nplatforms = ["native"]\n[[benchmark]]\nname = "stream"\n{line}\n')
    with pytest.raises(BadInput) as refused:
        plan(path, [])
    assert "guests" in refused.value.where or "guests" in refused.value.what
    assert hint in str(refused.value)
