"""Which image a study needs, what a dry run says of it, and that a run builds it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from vtax.cli import needed_image
from vtax.cli.main import group
from vtax.cli.needed_image import all_recipes, examine, packages_for, provide, recipe_for
from vtax.errors import BadInput, CommandFailed
from vtax.host.home import Home
from vtax.image import contents, layer
from vtax.image.image import Image, disk_usage_bytes
from vtax.image.recipe import DEFAULT, DataSet, Recipe
from vtax.study.load import load

LAYERED = DEFAULT.with_packages(["pi"])
STUDY = """
name = "mine"
platforms = ["native", "lxc"]
[[benchmark]]
name = "bonnie"
[[benchmark]]
name = "iperf3"
topology = "router-openflow"
"""


def built(home: Home, recipe: Recipe, size: int = 1 << 20) -> Image:
    """Something like an image that occupies about three times so many bytes."""
    image = Image(recipe.key, home.images / recipe.key)
    image.tree.mkdir(parents=True)
    for path in (image.tree / "file", image.archive, image.disk):
        path.write_bytes(b"x" * size)
    contents.record(image)
    return image


def apt_prints(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(layer, "run", lambda *_, **__: SimpleNamespace(stdout=text))


def test_an_image_that_the_disk_does_not_hold_is_listed_with_both_numbers(home, free_disk, golden):
    built(home, DEFAULT)
    free_disk(34 * 2**30)
    large = examine(home, DEFAULT.with_data([DataSet("tables", "true", 150 * 2**30)]))
    assert (large.built, large.free_bytes) == (False, 34 * 2**30)
    assert large.size_bytes == pytest.approx(450 * 2**30, rel=0.01)
    golden(str(large))
    fits = examine(home, DEFAULT.with_data([DataSet("tables", "true", 2**30)]))
    assert fits.free_bytes is None
    assert "free" not in str(fits)
    fits.check_room(home)


def test_a_plan_refuses_an_image_that_the_disk_does_not_hold(
    home, tmp_path, monkeypatch, use_home, free_disk
):
    built(home, DEFAULT)
    apt_prints(monkeypatch, "")
    free_disk(34 * 2**30)
    use_home(home.root)
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nplatforms = ["native", "lxc"]\n'
        '[[benchmark]]\nname = "sysbench-oltp"\nparameters = { rows = 100000000 }\n'
    )
    with pytest.raises(BadInput, match=r"more than 6.* GiB of disk, .* 34 GiB"):
        group.main(args=["run", str(tmp_path / "mine.toml"), "--dry-run"], standalone_mode=False)


def test_a_study_needs_the_packages_of_its_benchmarks_and_topologies(tmp_path):
    (tmp_path / "mine.toml").write_text(STUDY)
    packages = packages_for(load(str(tmp_path / "mine.toml")).study)
    assert packages == ("bonnie++", "python3-os-ken")
    assert DEFAULT.with_packages(packages).layer == ("python3-os-ken",)


def test_a_study_needs_the_data_of_its_points(tmp_path):
    table = '[[benchmark]]\nname = "sysbench-oltp"\nfactors = { rows = [1000, 2000], threads = [1, 2] }\n'
    (tmp_path / "mine.toml").write_text(f'name = "mine"\nplatforms = ["native", "lxc"]\n{table}')
    recipe = recipe_for(load(str(tmp_path / "mine.toml")))
    assert [data.name for data in recipe.data] == ["mariadb-1000", "mariadb-2000"]
    assert "mariadb-server" in recipe.layer


def test_a_study_that_cannot_run_is_refused_before_its_data_are_made(tmp_path):
    table = '[[benchmark]]\nname = "sysbench-oltp"\nparameters = { rows = 1 }\n'
    (tmp_path / "mine.toml").write_text(f'name = "mine"\nplatforms = ["native", "lxc"]\n{table}')
    with pytest.raises(BadInput, match="rows"):
        recipe_for(load(str(tmp_path / "mine.toml")))


def test_the_size_of_data_is_counted_in_every_form(home):
    built(home, DEFAULT)
    base = disk_usage_bytes(home.images / DEFAULT.key)
    needed = examine(home, DEFAULT.with_data([DataSet("tables", "true", 10 << 20)]))
    assert needed.size_bytes is not None
    assert (needed.complete, needed.as_json()["data"]) == (True, ["tables"])
    assert 30 << 20 <= needed.size_bytes <= base + (30 << 20)


def test_the_tour_needs_the_base():
    assert DEFAULT.with_packages(packages_for(load("tour").study)) is DEFAULT


def test_all_images_are_the_base_and_each_other_once():
    recipes = all_recipes()
    assert recipes[0] is DEFAULT
    assert ("python3-os-ken",) in [recipe.layer for recipe in recipes]
    assert len({recipe.key for recipe in recipes}) == len(recipes)


def test_a_built_image_says_what_it_occupies(home):
    image = built(home, DEFAULT)
    needed = examine(home, DEFAULT)
    assert (needed.built, needed.size_bytes) == (True, disk_usage_bytes(image.directory))
    assert str(needed).startswith(f"image: {DEFAULT.key} (the base), built, 3")


def test_an_image_that_is_not_built_says_how_large_it_gets(home, monkeypatch, golden):
    built(home, DEFAULT)
    apt_prints(
        monkeypatch, "After this operation, 1,048 kB of additional disk space will be used.\n"
    )
    needed = examine(home, LAYERED)
    assert needed.as_json() == {
        "key": LAYERED.key,
        "base": DEFAULT.key,
        "layer": ["pi"],
        "data": [],
        "built": False,
        "size_bytes": needed.size_bytes,
        "size_counts_packages": True,
        "free_bytes": None,
    }
    assert needed.size_bytes == pytest.approx(3 * (1 << 20) + 3 * 1_048_000, rel=0.02)
    golden(str(needed))


def test_a_size_that_apt_cannot_compute_is_a_lower_limit(home, monkeypatch, golden):
    built(home, DEFAULT)
    apt_prints(monkeypatch, "E: Unable to correct problems, you have held broken packages.\n")
    held = examine(home, LAYERED)
    golden(str(held))

    def fails(*_: object, **__: object) -> None:
        raise CommandFailed("apt-get is not installed")

    monkeypatch.setattr(layer, "run", fails)
    assert examine(home, LAYERED) == held


def test_without_a_base_the_size_is_that_of_the_usual_one(home, golden):
    golden(f"{examine(home, DEFAULT)}\n{examine(home, LAYERED)}")


def test_a_user_who_may_not_see_images_gets_the_reason(home, monkeypatch, golden):
    monkeypatch.setattr(needed_image, "hides_images", lambda _: True)
    needed = examine(home, LAYERED)
    golden(str(needed))
    assert json.loads(json.dumps(needed.as_json()))["built"] is None


def test_an_image_is_built_where_it_is_missing(home, monkeypatch):
    wanted, notes = [], []
    monkeypatch.setattr(needed_image, "notify", notes.append)
    monkeypatch.setattr(
        needed_image.images,
        "build",
        lambda home, recipe, *_: wanted.append(recipe) or Image("new", home.images),
    )
    assert provide(home, LAYERED).key == "new"
    assert wanted == [LAYERED]
    (note,) = notes
    assert f"image {LAYERED.key} (pi over the base) is not built yet" in note
    built(home, DEFAULT)
    assert provide(home, DEFAULT).key == DEFAULT.key
    assert wanted == [LAYERED]
