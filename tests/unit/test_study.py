"""Study files: what is accepted, what is refused and with which words, and the points that factors make."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.errors import BadInput
from vtax.study import text
from vtax.study.expand import key_of, points
from vtax.study.load import load, shipped, validate
from vtax.study.model import Study
from vtax.units import (
    about_size,
    duration_s,
    format_duration,
    format_size,
    size_bytes,
)

MINIMAL = """
name = "small"
platforms = ["native", "podman"]
[[benchmark]]
name = "stream"
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def refusal(tmp_path: Path, text: str) -> BadInput:
    with pytest.raises(BadInput) as caught:
        load(write(tmp_path, text), {})
    return caught.value


def test_every_shipped_study_is_valid_and_named_like_its_file():
    assert "tour" in shipped()
    for name in shipped():
        study = load(name).study
        assert study.name == name
        assert study.question


def test_defaults_are_filled_in_and_stored_with_the_study(tmp_path):
    study = load(write(tmp_path, MINIMAL)).study
    assert study.baseline == "native"
    assert study.guest.memory == 512 * 1024**2
    assert Study.model_validate(study.declared()) == study


def test_broken_toml_names_the_file_and_the_line(tmp_path):
    error = refusal(tmp_path, "name = \nx = 1")
    assert "mine.toml" in error.where
    assert "line 1" in error.what


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        ("blcks = 3", "key blcks", "unknown key 'blcks'"),
        (
            "[design]\nblocks = 0",
            "[design], key blocks",
            "blocks is 0; it must be a whole number from 1 to 10000",
        ),
        ("[guest]\nmemory = '512 bananas'", "[guest], key memory", "write for example 512MiB"),
        ("[design]\ntimeout = '5 fortnights'", "[design], key timeout", "write for example 500ms"),
        (
            "[design]\nstop = 'precision'\nmin_blocks = 9\nmax_blocks = 3",
            "[design], key max_blocks",
            "max_blocks (3) is below min_blocks (9)",
        ),
        (
            "[design]\nstop = 'verdict'\nmin_blocks = 2\nmax_blocks = 4",
            "[design], key max_blocks",
            "below 5 blocks there is no verdict",
        ),
        (
            "[[benchmark]]\nname = 'dd'\n[benchmark.factors]\nx = []",
            "number 2 (dd), key factors.x",
            "factors.x has no levels",
        ),
        (
            "[[benchmark]]\nname = 'dd'\nfactors = {x = [1, 1]}",
            "number 2 (dd), key factors.x",
            "names a level twice",
        ),
        (
            "[[benchmark]]\nname = 'dd'\nfactors = {x=[1]}\nparameters = {x=2}",
            "number 2 (dd), key factors.x",
            "keep one",
        ),
        ("[[benchmark]]\nname = 'stream'", "number 2 (stream), key label", "give each a label"),
        (
            "tuning = ['pinned', 'tuned']",
            "mine.toml: key tuning",
            "entry 2 of tuning is 'tuned'; it must be 'default'",
        ),
        ("tuning = ['pinned', 'pinned']", "mine.toml: key tuning", "tuning names 'pinned' twice"),
        ("[[benchmark]]\nlabel = 'x'", "number 2 (x), key name", "key 'name' is missing"),
        (
            "[design]\nstop = 'precision'\nblocks = 5",
            "[design], key blocks",
            "blocks has no effect under stop = 'precision': it belongs to 'fixed'",
        ),
        (
            "[design]\norder = 'sequential'\nstop = 'verdict'",
            "[design], key order",
            "no rule can judge it block by block",
        ),
        (
            "[design]\norder = 'sequential'\nbudget = '1h'",
            "[design], key order",
            "use stop = 'fixed' without a budget",
        ),
        (
            "[design]\nmax_blocks = 9",
            "[design], key max_blocks",
            "belongs to 'precision' and 'verdict'",
        ),
    ],
)
def test_an_error_names_table_and_key(tmp_path, change, where, what):
    top_level = change if not change.startswith("[") else ""
    tables = change if change.startswith("[") else ""
    error = refusal(tmp_path, f"{top_level}\n{MINIMAL}\n{tables}")
    assert where in error.where
    assert what in error.what
    assert "mine.toml" in error.where


OWN = '[[platform]]\nname = "mine"\ndriver = "lxc"\n'
WITH_MINE = MINIMAL.replace('"podman"', '"mine"')


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        (
            MINIMAL.replace('"native", "podman"', '"lxc"'),
            "baseline 'native' is not in platforms (lxc)",
            "key baseline",
        ),
        (
            MINIMAL.replace('"podman"', '"native"'),
            "platforms names 'native' twice",
            "key platforms",
        ),
        (
            WITH_MINE + OWN + OWN,
            "two tables of the name 'mine'",
            "[[platform]] number 2 (mine), key name",
        ),
        (MINIMAL + OWN, "mine is made and not used", "[[platform]] number 1 (mine)"),
    ],
)
def test_platforms_that_do_not_fit_together_are_refused(tmp_path, text, what, where):
    error = refusal(tmp_path, text)
    assert what in error.what
    assert error.where.endswith(f"mine.toml: {where}")


def test_a_platform_of_ones_own_may_be_a_peer_and_may_be_left_out_for_one_run(tmp_path):
    load(write(tmp_path, MINIMAL + 'link = { peer = "mine" }\n' + OWN), {})
    load(write(tmp_path, MINIMAL + 'link_factors = { peer = ["mine", "ssh:b"] }\n' + OWN), {})
    load(write(tmp_path, WITH_MINE + OWN), {"platforms": ["native"]})
    load(write(tmp_path, MINIMAL + OWN), {"platforms": ["native", "mine"]})
    load(write(tmp_path, MINIMAL + OWN))  # --platform may yet name it


def test_command_line_values_go_over_the_file(tmp_path):
    loaded = load(write(tmp_path, MINIMAL), {"design": {"blocks": 7}, "platforms": ["native"]})
    assert loaded.study.design.blocks == 7
    assert loaded.study.platforms == ["native"]


def test_a_rule_of_the_command_line_leaves_the_files_keys_alone(tmp_path):
    fixed = write(tmp_path, f"{MINIMAL}\n[design]\nblocks = 3")
    assert load(fixed, {"design": {"stop": "budget", "budget": "1h"}}).study.design.stop == "budget"
    adaptive = write(tmp_path, f"{MINIMAL}\n[design]\nstop = 'precision'\nmax_blocks = 9")
    assert load(adaptive, {"design": {"stop": "fixed", "blocks": 2}}).study.design.blocks == 2


def test_factors_expand_to_every_combination_the_last_varying_fastest():
    study = validate(
        {
            "name": "s",
            "platforms": ["native"],
            "benchmark": [
                {"name": "dd"},
                {
                    "name": "iperf3",
                    "parameters": {"x": 1},
                    "factors": {"a": [1, 2], "b": ["p", "q"]},
                    "link_factors": {"mtu": [500, 1500]},
                },
            ],
        },
        "test",
    )
    made = list(points(study))
    assert len(made) == 1 + 2 * 2 * 2
    assert made[0].levels == {}
    assert made[1].levels == {"a": 1, "b": "p", "link.mtu": 500}
    assert made[2].levels == {"a": 1, "b": "p", "link.mtu": 1500}
    assert made[1].parameters == {"x": 1, "a": 1, "b": "p"}
    assert made[1].link == {"mtu": 500}


def test_tuning_is_a_factor_over_every_benchmark_and_none_when_absent():
    declared = {
        "name": "t",
        "platforms": ["native"],
        "tuning": ["default", "pinned+hugepages"],
        "benchmark": [{"name": "stream", "factors": {"threads": [1, 2]}}, {"name": "dd"}],
    }
    found = points(validate(declared, "test"))
    assert [(point.label, dict(point.levels)) for point in found] == [
        ("stream", {"tuning": "default", "threads": 1}),
        ("stream", {"tuning": "default", "threads": 2}),
        ("stream", {"tuning": "pinned+hugepages", "threads": 1}),
        ("stream", {"tuning": "pinned+hugepages", "threads": 2}),
        ("dd", {"tuning": "default"}),
        ("dd", {"tuning": "pinned+hugepages"}),
    ]
    assert [point.tuning for point in points(validate({**declared, "tuning": []}, "test"))] == [
        ""
    ] * 3


def test_a_parameter_cannot_be_a_factor_under_the_name_of_the_tuning(tmp_path):
    error = refusal(
        tmp_path,
        f"tuning = ['pinned']\n{MINIMAL}\n[[benchmark]]\nname = 'dd'\nfactors = {{tuning = [1, 2]}}",
    )
    assert "number 2 (dd), key factors.tuning" in error.where


def test_a_key_depends_on_every_value_and_not_on_their_order():
    assert key_of({"a": 1, "b": {"c": 2}}) == key_of({"b": {"c": 2}, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
    assert key_of({"a": 1}) != key_of({"a": "1"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("512MiB", 512 * 2**20), ("64k", 65536), ("1GB", 10**9), (4096, 4096), ("1.5 GiB", 3 * 2**29)],
)
def test_sizes(text, value):
    assert size_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("500ms", 0.5), ("7s", 7.0), ("2h", 7200.0), (3, 3.0), ("1.5min", 90.0)]
)
def test_durations(text, value):
    assert duration_s(text) == value


@pytest.mark.parametrize("text", ["512Mb", "64 kb", "9b"])
def test_bits_are_never_taken_for_bytes(text):
    with pytest.raises(ValueError, match=r"ends in b, for bits"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["60", " 1.5 "])
def test_a_text_without_a_unit_is_refused(text):
    with pytest.raises(ValueError, match=r"has no unit; .*512MiB"):
        size_bytes(text)
    with pytest.raises(ValueError, match=r"has no unit; .*500ms"):
        duration_s(text)


@pytest.mark.parametrize("text", ["", "MiB", "-5s", "5 parsecs", "1,5GiB"])
def test_nonsense_is_refused(text):
    with pytest.raises(ValueError, match="is not understood"):
        size_bytes(text)
    with pytest.raises(ValueError, match="is not understood"):
        duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (0.314, "0.31 s"),
        (0.996, "1.0 s"),
        (3.14, "3.1 s"),
        (9.97, "10 s"),
        (48.2, "48 s"),
        (59.9, "1 min 00 s"),
        (245, "4 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7800, "2 h 10 min"),
        (float("inf"), "–"),
        (float("nan"), "–"),
    ],
)
def test_durations_are_reported_alike_everywhere(seconds, shown):
    assert format_duration(seconds) == shown


def test_sizes_that_need_not_be_exact_are_reported_in_three_digits():
    printed = [about_size(n) for n in (512, 1536, 1000 * 2**20, 1023.9 * 2**20, 23.46 * 2**30)]
    assert printed == ["512 B", "1.5 KiB", "1000 MiB", "1 GiB", "23.5 GiB"]


def test_sizes_are_shown_in_the_shortest_exact_form():
    assert [format_size(n) for n in (536870912, 1024, 1000, 3 * 2**30)] == [
        "512MiB",
        "1KiB",
        "1000B",
        "3GiB",
    ]


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_study_that_is_written_is_the_study_that_is_read(name):
    declared = load(name).study.declared()
    written = text.dump(declared)
    assert "None" not in written
    assert (
        validate(text.parse(written.encode(), "written.toml"), "written.toml").declared()
        == declared
    )


def test_any_text_survives_being_written():
    declared = {
        "name": "x",
        "title": 'quotes " and \\ and \x7f \u2028 lines\nof text',
        "benchmark": [{"name": "ü"}],
    }
    assert (
        text.parse(text.dump({**declared, "seed": None, "platform": [], "guest": {}}).encode(), "x")
        == declared
    )
