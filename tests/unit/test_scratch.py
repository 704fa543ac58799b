"""Where /scratch of a guest lies: what a study and a platform say of it, and what drivers are given."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from a_run import a_run
from support import needs_root

from vtax.errors import BadInput
from vtax.host.namespaces import MS_BIND, MS_RDONLY
from vtax.host.user_namespace import IdRange
from vtax.image.image import Image
from vtax.platforms import native, registry, scratch
from vtax.platforms.base import GuestSpec, Resources
from vtax.report.answers.compare.run_differences import design_differences
from vtax.runner import untested
from vtax.study.expand import points
from vtax.study.model import Study
from vtax.study.placed_factors import with_placed_factors

MEMORY = 64 << 20


@pytest.fixture
def spec(tmp_path):
    return GuestSpec(
        "vtax-1", Image("key", tmp_path / "image"), Resources(1, MEMORY, (0,)), tmp_path, None
    )


def study(**keys):
    given = {
        "name": "mine",
        "platforms": ["native", "podman"],
        "benchmark": [{"name": "dd"}],
        **keys,
    }
    return Study.model_validate(given)


def test_a_study_names_one_place_or_the_levels_of_a_factor():
    assert study().scratch == ["volume"]
    assert with_placed_factors({"scratch": "layer"}) == {"scratch": ["layer"]}
    (only,) = points(study(scratch=["layer"]))
    assert (only.scratch, dict(only.levels)) == ("layer", {})
    first, second = points(study(scratch=["volume", "memory"]))
    assert [point.scratch for point in (first, second)] == ["volume", "memory"]
    assert [dict(point.levels) for point in (first, second)] == [
        {"scratch": "volume"},
        {"scratch": "memory"},
    ]


@pytest.mark.parametrize("places", [["disk"], [], ["volume", "volume"]])
def test_what_is_no_place_is_refused(places):
    with pytest.raises(ValueError, match="scratch"):
        study(scratch=places)


def test_a_factor_of_every_benchmark_is_one_of_the_study():
    given = {"benchmark": [{"name": "dd", "factors": {"scratch": ["volume", "layer"]}}]}
    assert with_placed_factors(given)["scratch"] == ["volume", "layer"]


@pytest.mark.parametrize(
    ("driver", "options", "asked", "place"),
    [
        ("podman", {}, "layer", "layer"),
        ("podman", {"scratch": "memory"}, "layer", "memory"),
        ("gvisor", {}, "memory", "memory"),
        ("qemu", {}, "layer", "volume"),
    ],
)
def test_the_option_of_a_platform_overrides_the_study(driver, options, asked, place):
    assert registry.make("mine", driver, options).scratch(asked) == place


def test_a_level_that_a_platform_cannot_have_is_not_tested_there():
    def reason(platform, level, levels):
        point = SimpleNamespace(levels=levels, scratch=level, tuning="")
        return untested._why_not_placed(platform, point, "mine.toml")

    machine = registry.make("machine", "qemu", {})
    assert reason(machine, "layer", {"scratch": "layer"}).what.code == "cannot-place-scratch"
    assert reason(machine, "volume", {"scratch": "volume"}) is None
    assert reason(machine, "layer", {}) is None  # the study's one place: a machine has what it has
    fixed = registry.make("fixed", "podman", {"scratch": "layer"})
    assert reason(fixed, "volume", {"scratch": "volume"}) is not None


def test_engines_and_runtimes_get_the_place(spec):
    given = {}
    for place in ("volume", "layer", "memory"):
        at = replace(spec, scratch=place)
        given[place] = (scratch.run_options(at), scratch.oci_mounts(at))
    volume = str(spec.directory / "volume")
    assert given["volume"][0] == [f"--mount=type=bind,source={volume},target=/scratch"]
    assert given["volume"][1][0]["source"] == volume
    assert given["layer"] == ([], [])
    assert given["memory"][0] == [f"--tmpfs=/scratch:exec,mode=1777,size={MEMORY}"]
    assert given["memory"][1][0]["type"] == "tmpfs"


@needs_root
def test_a_volume_belongs_to_the_root_of_a_user_namespace(spec):
    scratch.prepare(spec, IdRange(2013265920))
    state = (spec.directory / "volume").stat()
    assert (state.st_uid, state.st_gid, state.st_mode & 0o7777) == (2013265920, 2013265920, 0o1777)
    (volume, _) = scratch.mounts(spec, Path("/root"))
    assert (volume.source, volume.target) == (spec.directory / "volume", Path("/root/scratch"))


def test_memory_belongs_to_it_too_and_has_the_size_of_the_guest(spec):
    (mount,) = scratch.mounts(replace(spec, scratch="memory"), Path("/root"), IdRange(2013265920))
    assert mount.data == f"mode=1777,uid=2013265920,gid=2013265920,size={MEMORY}"


def test_the_root_of_native_has_programs_as_they_lie_and_an_overlay_over_what_is_written(spec):
    tree = spec.image.tree
    for name in (
        "usr/bin",
        "usr/local/apache",
        "usr/src/app",
        "etc",
        "app",
        "proc/x",
        "odd:name",
    ):
        (tree / name).mkdir(parents=True)
        (tree / name / "file").touch()
    (tree / "tmp").mkdir(mode=0o700)
    (tree / "tmp").chmod(0o1777)
    (tree / "bin").symlink_to("usr/bin")
    (tree / "server").touch()
    root = spec.directory / "root"
    mounts = native.plain_root(spec, root)
    below = {mount.target.relative_to(root).as_posix(): mount for mount in mounts}
    overlays = {name for name, mount in below.items() if mount.kind == "overlay"}
    read_only = {name for name, mount in below.items() if mount.flags & MS_RDONLY}
    assert overlays == {"etc", "app", "usr/local", "usr/src"}
    assert read_only == {"usr", "server", "odd:name"}
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert (root / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert "scratch" not in below
    assert [mount.flags & MS_BIND for mount in mounts[:1]] == [MS_BIND]


def test_a_link_in_place_of_usr_leads_nowhere_outside(spec, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "local/bin").mkdir(parents=True)
    (spec.image.tree).mkdir(parents=True)
    (spec.image.tree / "usr").symlink_to(elsewhere)
    mounts = native.plain_root(spec, spec.directory / "root")
    assert not [mount for mount in mounts if str(elsewhere) in f"{mount.source}{mount.data}"]


@needs_root
def test_a_directory_keeps_its_group(spec):
    data = spec.image.tree / "data"
    data.mkdir(parents=True)
    os.chown(data, 0, 999)
    data.chmod(0o2770)
    native.plain_root(spec, spec.directory / "root")
    state = (spec.directory / "root/data").stat()
    assert (state.st_uid, state.st_gid, state.st_mode & 0o7777) == (0, 999, 0o2770)


@pytest.mark.parametrize(
    ("earlier", "later", "is_unlike"),
    [(["layer"], ["volume"], True), (["volume"], ["volume"], False), (None, ["volume"], True)],
)
def test_runs_with_their_files_elsewhere_are_no_series(earlier, later, is_unlike):
    run = a_run().analysis()
    runs = []
    for places in (earlier, later):
        declared = {key: value for key, value in run.declared.items() if key != "scratch"}
        runs.append(replace(run, declared=declared | ({"scratch": places} if places else {})))
    found = design_differences(runs[0], runs[1], (run.cells[0], run.cells[0]))
    assert any("/scratch" in repr(text) for text in found) is is_unlike


def test_the_layer_of_native_is_an_overlay_and_its_memory_a_tmpfs(spec):
    spec.image.tree.mkdir(parents=True)
    kinds = {}
    for place in ("layer", "memory"):
        directory = spec.directory / place
        directory.mkdir()
        at = replace(spec, directory=directory, scratch=place)
        kinds[place] = native.plain_root(at, directory / "root")[-1].kind
    assert kinds == {"layer": "overlay", "memory": "tmpfs"}


def test_a_home_that_overlayfs_cannot_use_is_refused(spec, tmp_path):
    directory = tmp_path / "a:b"
    directory.mkdir()
    (spec.image.tree / "etc").mkdir(parents=True)
    (spec.image.tree / "etc/file").touch()
    at = replace(spec, directory=directory)
    with pytest.raises(BadInput):
        native.plain_root(at, directory / "root")
