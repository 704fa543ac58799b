"""Finding, listing and removing images, and what stops a build before it begins."""

import fcntl
import json
import os
from dataclasses import replace

import pytest
from command_line import output_of

from vtax.errors import BadInput, ImageError
from vtax.host.home import Home
from vtax.host.journal import Journal, boot_id, clean
from vtax.host.process import Result
from vtax.image import build as images
from vtax.image import contents, tree
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT, DataSet, OwnFiles


@pytest.fixture
def steps(monkeypatch):
    """`steps(make_tree=function)` has steps of a build done by functions."""
    return lambda **named: [monkeypatch.setattr(images, name, made) for name, made in named.items()]


@pytest.fixture
def as_root(monkeypatch, taken_for_root, installed):
    monkeypatch.setattr(images.platform, "machine", lambda: "x86_64")
    installed(but="")


def _finished(home, recipe, /, **manifest):
    directory = home.images / recipe.key
    (directory / "tree").mkdir(parents=True)
    (directory / "initrd.cpio").write_bytes(b"old")
    (directory / "vmlinux").write_bytes(b"kernel")
    (directory / "manifest.json").write_text(json.dumps({"tree_key": recipe.tree_key, **manifest}))
    contents.record(Image(recipe.key, directory))
    return directory


def test_an_image_is_found_by_its_recipe(home):
    assert images.find(home) is None
    _finished(home, DEFAULT)
    assert images.find(home).key == DEFAULT.key
    assert images.find(home, replace(DEFAULT, suite="sid")) is None


def test_what_a_killed_build_left_is_no_image(home):
    (home.images / f"{DEFAULT.key}.abc123.partial").mkdir()
    assert images.find(home) is None
    assert images.list_images(home) == []


def test_a_home_that_does_not_exist_has_no_images(tmp_path):
    assert images.list_images(Home(tmp_path / "nowhere")) == []
    assert images.find(Home(tmp_path / "nowhere")) is None


def test_a_failed_build_leaves_nothing(home, as_root, steps):
    def fail(*_):
        raise ImageError("no mirror")

    steps(make_tree=fail, make_build_root=lambda *_: None)
    with Journal(home.journal) as journal, pytest.raises(ImageError, match="no mirror"):
        images.build(home, DEFAULT, journal)
    assert [path.name for path in home.images.iterdir()] == ["build.lock"]
    assert list(home.journal.iterdir()) == []


def test_what_is_made_is_in_the_journal_first(home, as_root, steps):
    seen = []

    def look(recipe, target, tag):
        seen.extend(str(resource) for resource in journal.registered)
        raise ImageError("stop here")

    steps(make_tree=look, make_build_root=lambda *_: None)
    with Journal(home.journal) as journal, pytest.raises(ImageError):
        images.build(home, DEFAULT, journal)
    assert any(f"{DEFAULT.key}.{journal.token}.partial" in text for text in seen)
    assert "processes of the image build" in " ".join(seen)


def test_a_new_initrd_takes_the_rest_from_an_image_that_has_it(home, as_root, steps):
    old = _finished(home, DEFAULT, kernel="6.12")
    steps(build_initrd=lambda busybox, modules: b"new")
    recipe = replace(DEFAULT, initrd="another")
    stages = []
    with Journal(home.journal) as journal:
        image = images.build(home, recipe, journal, stages.append)
    assert stages == ["initrd"]
    assert (image.initrd.read_bytes(), (old / "initrd.cpio").read_bytes()) == (b"new", b"old")
    assert image.elf_kernel.samefile(old / "vmlinux")
    manifest = json.loads(image.manifest.read_text())
    assert (manifest["key"], manifest["kernel"]) == (recipe.key, "6.12")
    assert json.loads((old / "manifest.json").read_text())["kernel"] == "6.12"


def test_a_layer_is_made_over_the_base_that_is_built_first(home, as_root, steps):
    made = []

    def make_base(recipe, image, *_):
        made.append(recipe.key)
        image.tree.mkdir()
        image.kernel.write_bytes(b"kernel")
        return {"packages": {}}

    def make_layer(recipe, base, image, *_):
        made.append((recipe.key, base.key))
        image.tree.mkdir()
        image.kernel.write_bytes(b"kernel")
        return {"added": {"pi": "1"}}

    steps(
        _make_base=make_base,
        make_layer=make_layer,
        build_initrd=lambda busybox, modules: b"initrd",
        elf_of=lambda kernel: None,
    )
    recipe = DEFAULT.with_packages(["pi"])
    for _ in range(2):
        with Journal(home.journal) as journal:
            image = images.build(home, recipe, journal)
        assert made == [DEFAULT.key, (recipe.key, DEFAULT.key)]
    manifest = json.loads(image.manifest.read_text())
    assert (manifest["base"], manifest["added"], manifest["recipe"]["layer"]) == (
        DEFAULT.key,
        {"pi": "1"},
        ["pi"],
    )
    assert {found.key for found in images.list_images(home)} == {DEFAULT.key, recipe.key}


def test_a_layer_that_fails_leaves_its_base(home, as_root, steps):
    _finished(home, DEFAULT)

    def fail(*_):
        raise ImageError("no such package")

    steps(make_layer=fail)
    with Journal(home.journal) as journal, pytest.raises(ImageError, match="no such package"):
        images.build(home, DEFAULT.with_packages(["pi"]), journal)
    assert sorted(path.name for path in home.images.iterdir()) == sorted(
        [DEFAULT.key, "build.lock"]
    )
    assert list(home.journal.iterdir()) == []


def test_too_little_space_is_said_beforehand(home, as_root, free_disk):
    free_disk(500 * 2**20)
    with (
        Journal(home.journal) as journal,
        pytest.raises(BadInput, match=r"needs about 2 GiB free, .* 500 MiB"),
    ):
        images.build(home, DEFAULT, journal)


def test_data_that_the_disk_does_not_hold_are_refused_before_anything_is_built(
    home, as_root, free_disk
):
    free_disk(400 * 2**30)
    recipe = DEFAULT.with_data([DataSet("tables", "true", 150 * 2**30)])
    with (
        Journal(home.journal) as journal,
        pytest.raises(BadInput, match=r"452 GiB free, .* 400 GiB"),
    ):
        images.build(home, recipe, journal)


def test_a_missing_program_names_its_package(home, as_root, installed):
    installed(but="mke2fs")
    with (
        Journal(home.journal) as journal,
        pytest.raises(BadInput, match="mke2fs is not installed") as raised,
    ):
        images.build(home, DEFAULT, journal)
    assert raised.value.hint == "apt install e2fsprogs"


def test_building_needs_root(home, ordinary_user):
    with Journal(home.journal) as journal, pytest.raises(BadInput, match="needs root"):
        images.build(home, DEFAULT, journal)


def test_a_second_builder_says_that_it_waits(home, as_root):
    _finished(home, DEFAULT)
    stages = []
    lock = os.open(home.images / "build.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def progress(stage):
        stages.append(stage)
        os.close(lock)

    with Journal(home.journal) as journal:
        assert images.build(home, DEFAULT, journal, progress).key == DEFAULT.key
    (waits,) = stages
    assert waits.startswith(f"waiting for process {os.getpid()} (")
    assert waits.endswith("), which builds or removes an image")


def test_an_image_is_removed_whole(home):
    _finished(home, DEFAULT)
    images.remove(home, DEFAULT.key)
    assert images.list_images(home) == []
    assert [path.name for path in home.images.iterdir()] == ["build.lock"]


def test_every_image_of_a_name_is_removed(home):
    own = [replace(DEFAULT, own=OwnFiles(name, "0" * 64)) for name in ("shop", "other")]
    with_packages = own[0].with_packages(["nghttp2-client"])
    for recipe in (*own, with_packages):
        _finished(home, recipe, recipe=recipe.record())
    assert {image.key for image in images.known(home, "shop")} == {own[0].key, with_packages.key}
    images.remove(home, "shop")
    assert [image.key for image in images.list_images(home)] == [own[1].key]


def test_a_row_of_an_own_image_says_what_guests_that_serve_have_more(home, use_home):
    use_home(home.root)
    base = {"kernel": "6", "packages": {}, "disk_bytes": 1 << 30}
    _finished(home, DEFAULT, recipe=DEFAULT.record(), **base)  # which adds nothing to a base
    for recipe in (
        shop := replace(DEFAULT, own=OwnFiles("shop", "0" * 64)),
        shop.with_packages(["nghttp2-client"]),
    ):
        _finished(
            home,
            recipe,
            recipe=recipe.record(),
            added_bytes=1 << 20,
            **base,
        )
    printed = output_of("image", "list")
    assert DEFAULT.key in printed
    assert printed.count("your own: shop, 1 MiB") == 2
    assert "1 MiB; in guests that only serve: nghttp2-client" in printed


def test_removing_what_is_not_there_is_refused(home):
    with pytest.raises(BadInput, match="no image 'nonsense'"):
        images.remove(home, "nonsense")
    with pytest.raises(BadInput):
        images.remove(home, "../home")


def test_an_image_in_use_stays(home, steps, golden):
    _finished(home, DEFAULT)
    steps(_users=lambda directory: [4711])
    with pytest.raises(BadInput) as caught:
        images.remove(home, DEFAULT.key)
    golden(str(caught.value))
    assert images.find(home) is not None


def test_a_removal_that_was_killed_is_finished_by_clean(home):
    removed_image = home.images / f"{DEFAULT.key}.dead00.partial"
    removed_image.mkdir()
    record = {"register": 0, "kind": "files", "path": str(removed_image)}
    (home.journal / f"1-1-dead00-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    assert clean(home.journal).removed == (f"files {removed_image}",)
    assert not removed_image.exists()


def test_data_whose_script_fails_are_reported_with_its_last_lines(tmp_path, monkeypatch, golden):
    printed = "".join(f"line {number}\n" for number in range(9)) + "\nTerminated\n"
    monkeypatch.setattr(tree, "run", lambda argv, **_: Result(tuple(argv), 3, "", printed))
    with pytest.raises(ImageError) as no:
        tree.make_data(DataSet("tables", "exit 3", 1), tmp_path, "tag")
    golden(str(no.value))
    assert no.value.where == "line 6; line 7; line 8; Terminated"
