"""The recipe: what changes an image's key, and what shares its costly part."""

from dataclasses import fields, replace

import pytest

from vtax.errors import BadInput
from vtax.image.recipe import DEFAULT, DataSet, Recipe


def _other(value):
    return (
        (*value, "x")
        if isinstance(value, tuple)
        else value + 1
        if isinstance(value, int)
        else value + "x"
    )


@pytest.mark.parametrize(
    "field", [field.name for field in fields(Recipe) if field.name not in ("data", "own")]
)
def test_every_part_of_the_recipe_changes_the_key(field):
    assert replace(DEFAULT, **{field: _other(getattr(DEFAULT, field))}).key != DEFAULT.key


def test_the_same_recipe_has_the_same_key():
    assert Recipe().key == DEFAULT.key
    assert len(DEFAULT.key) == 12
    assert set(DEFAULT.key) <= set("0123456789abcdef")


def test_only_the_initrd_may_differ_between_images_that_share_a_tree():
    assert replace(DEFAULT, initrd="other").tree_key == DEFAULT.tree_key
    assert replace(DEFAULT, suite="other").tree_key != DEFAULT.tree_key
    assert replace(DEFAULT, programs=()).tree_key != DEFAULT.tree_key


def test_more_packages_make_another_image_and_packages_it_has_do_not():
    assert DEFAULT.with_packages(()) is DEFAULT
    assert DEFAULT.with_packages([DEFAULT.packages[0]]) is DEFAULT
    more = DEFAULT.with_packages(["redis", "pi", DEFAULT.packages[0]])
    assert (more.layer, more.packages) == (("pi", "redis"), DEFAULT.packages)
    assert more.base == DEFAULT
    assert len({more.key, DEFAULT.key, DEFAULT.with_packages(["pi"]).key}) == 3
    assert more.key == DEFAULT.with_packages(["pi"]).with_packages(["redis"]).key


def test_another_base_makes_another_layer_and_another_initrd_the_same_files():
    more, other = (
        DEFAULT.with_packages(["pi"]),
        replace(DEFAULT, suite="other").with_packages(["pi"]),
    )
    assert (more.key != other.key, more.tree_key != other.tree_key) == (True, True)
    other = replace(DEFAULT, initrd="other").with_packages(["pi"])
    assert (more.key != other.key, more.tree_key != other.tree_key) == (True, False)


def test_the_size_of_the_disk_makes_another_image_of_the_same_files():
    more = DEFAULT.with_packages(["pi"])
    for recipe in (DEFAULT, more):
        large = recipe.with_disk(6 << 30)
        assert (large.key != recipe.key, large.tree_key, large.base) == (
            True,
            recipe.tree_key,
            DEFAULT,
        )
        assert (large.with_disk(6 << 30), large.with_disk(0)) == (large, recipe)
        assert large.summary == f"{recipe.summary}, disk of 6 GiB"
    assert DEFAULT.with_disk(6 << 30).key != DEFAULT.with_disk(7 << 30).key


@pytest.mark.parametrize(
    "name", ["", "-x", "two words", "a,b", "Upper", "?essential", "a/unstable"]
)
def test_what_is_no_package_name_is_refused(name):
    with pytest.raises(BadInput, match="not the name of a Debian package"):
        DEFAULT.with_packages([name])


def test_data_make_another_image_and_their_script_is_part_of_the_key():
    data = DataSet("tables-5", "make 5", 1000)
    more = DEFAULT.with_packages(["pi"]).with_data([data])
    assert (more.base, more.is_layered, more.added) == (DEFAULT, True, ("pi", "data tables-5"))
    assert more.with_data([data]) is more
    others = [DataSet("tables-6", "make 5", 1000), DataSet("tables-5", "make 6", 1000)]
    keys = {DEFAULT.with_packages(["pi"]).with_data([other]).key for other in others}
    assert (
        len(keys | {more.key, DEFAULT.with_packages(["pi"]).key, DEFAULT.with_data([data]).key})
        == 5
    )
    assert more.tree_key == replace(more, initrd="other").tree_key
    assert more.key == replace(more, data=(replace(data, size_bytes=7),)).key
