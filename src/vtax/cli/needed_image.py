"""Which image a study's guests run: the base, or a layer over it with what its benchmarks and topologies need."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtax.benchmarks import registry as tools
from vtax.benchmarks.base import Benchmark
from vtax.cli.output import hides_images, notify
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image import build as images
from vtax.image.image import Image, disk_usage_bytes
from vtax.image.layer import estimated_bytes
from vtax.image.recipe import BASE_BYTES, DEFAULT, Recipe
from vtax.network import registry as topologies
from vtax.runner.points import checked_points
from vtax.study.load import LoadedStudy, load, shipped
from vtax.study.model import Study
from vtax.study.programs import ENTRY
from vtax.units import about_size


def packages_for(study: Study) -> tuple[str, ...]:
    """Return the packages that the benchmarks, programs and topologies of a study name, in the base image or not."""
    benchmark_names = [table.name for table in study.benchmark]
    packages = [*tools.packages_of(benchmark_names)]
    for table in study.program:
        if table.name in benchmark_names:
            packages += table.packages
    packages += topologies.packages_of(
        table.topology for table in study.benchmark if table.topology
    )
    return tuple(packages)


def recipe_for(loaded_study: LoadedStudy) -> Recipe:
    """Return the image that the guests of a study run.

    Raises BadInput for a study that cannot run, where its points decide what data the image has, and for an image of
    the user's that is not there.
    """
    study = loaded_study.study
    start = DEFAULT
    if study.guest.image:
        start = images.named(Home.from_environment(), study.guest.image)
    _check_entry(study, start)
    recipe = start.with_packages(packages_for(study)).with_disk(study.guest.disk or 0)
    benchmarks = [tools.find_benchmark(table.name) for table in study.benchmark]
    if not any(benchmark and benchmark.makes_data for benchmark in benchmarks):
        return recipe
    data = []
    for point in checked_points(loaded_study, Image("none", Path())):
        if point.benchmark.makes_data:
            data.append(point.benchmark.data(point.parameters))
    return recipe.with_data(data)


def _check_entry(study: Study, image: Recipe) -> None:
    """Raise BadInput where a server is to be the program that an image names, and it names none."""
    if not image.own or image.own.entry:
        return
    benchmark_names = {table.name for table in study.benchmark}
    for table in study.program:
        if table.name in benchmark_names and [f"{{{ENTRY}}}"] in map(
            list, table.argv.roles.values()
        ):
            raise BadInput(
                f"the image {study.guest.image} names no program to run",
                where=f"[[program]] {table.name}",
                hint="name one with --serve, or in argv of the program",
            )


def recipe_of(benchmark: Benchmark) -> Recipe:
    """Return the image of a benchmark by itself, with the data of its default parameters."""
    recipe = DEFAULT.with_packages(tools.packages_of([benchmark.name]))
    if not benchmark.makes_data:
        return recipe
    return recipe.with_data([benchmark.data(benchmark.Parameters())])


def all_recipes() -> list[Recipe]:
    """Return the base, and the images of every shipped study and of every benchmark and topology by itself."""
    recipes = [DEFAULT]
    recipes += [recipe_for(load(name)) for name in shipped()]
    recipes += map(recipe_of, tools.benchmarks().values())
    for name in topologies.topologies():
        recipes.append(DEFAULT.with_packages(topologies.packages_of([name])))
    return list({recipe.key: recipe for recipe in recipes}.values())


def provide(home: Home, recipe: Recipe) -> Image:
    """Return the image of a recipe, checked, or built now with its stages on stderr.

    Raises BadInput and ImageError.
    """
    if recipe.own:
        provide(home, recipe.base)
    image = images.checked(home, recipe)
    if image:
        return image
    notify(f"image {recipe.key} ({recipe.summary}) is not built yet: building it, once")
    with Journal(home.journal) as journal:
        return images.build(home, recipe, journal, notify)


@dataclass(frozen=True)
class NeededImage:
    """The image of a recipe, as far as it is known.

    built: None when only root can see it.
    size_bytes: of disk it occupies or would, None when that is not known.
    complete: whether size_bytes counts the packages of an image that is not built.
    free_bytes: of the disk of images, where that is less than an image that is not built occupies; else None.
    """

    recipe: Recipe
    built: bool | None
    size_bytes: int | None = None
    complete: bool = True
    free_bytes: int | None = None

    def check_room(self, home: Home) -> None:
        """Raise BadInput, with both numbers, for an image that is not built and does not fit the disk of images."""
        if self.free_bytes is not None and self.size_bytes is not None:
            raise BadInput(
                f"image {self.recipe.key} ({self.recipe.summary}) needs {self._size()} of disk, "
                f"and {about_size(self.free_bytes)} are free",
                where=str(home.images),
                hint="load less data, make room there, or set VTAX_HOME to a directory on a larger disk",
            )

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "key": self.recipe.key,
            "base": self.recipe.base.key,
            "layer": list(self.recipe.layer),
            "data": [data.name for data in self.recipe.data],
            "built": self.built,
            "size_bytes": self.size_bytes,
            "size_counts_packages": self.complete,
            "free_bytes": self.free_bytes,
        }

    def __str__(self) -> str:
        image = f"image: {self.recipe.key} ({self.recipe.summary})"
        if self.size_bytes is None:
            return f"{image}; only root can see whether it is built"
        if self.built:
            return f"{image}, built, {about_size(self.size_bytes)} of disk"
        text = f"{image}, not built yet; {self._size()} of disk"
        if self.free_bytes is not None:
            text += f", and {about_size(self.free_bytes)} are free"
        return text

    def _size(self) -> str:
        """Return the disk space that building needs, as far as it is known."""
        size = about_size(self.size_bytes or 0)
        return f"about {size}" if self.complete else f"more than {size}"


def examine(home: Home, recipe: Recipe) -> NeededImage:
    """Look whether the image of a recipe is there and how large it is or gets. Changes nothing."""
    if hides_images(home):
        return NeededImage(recipe, None)
    image = images.find(home, recipe)
    if image:
        return NeededImage(recipe, True, disk_usage_bytes(image.directory))
    base = images.find(home, recipe.base)
    if not base:
        return NeededImage(recipe, False, BASE_BYTES, complete=not recipe.is_layered)
    size_bytes, complete = estimated_bytes(recipe, base)
    free_bytes: int | None = shutil.disk_usage(home.images).free
    if free_bytes is not None and free_bytes >= size_bytes:
        free_bytes = None
    return NeededImage(recipe, False, size_bytes, complete, free_bytes)
