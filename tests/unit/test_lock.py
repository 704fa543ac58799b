"""The lock files hold what pyproject.toml asks for, with hashes, without addresses, and agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
RUN = [
    *PROJECT["project"]["dependencies"],
    *(
        text
        for extra in ("report", "page", "postgresql")
        for text in PROJECT["project"]["optional-dependencies"][extra]
        if not text.startswith("vtax[")
    ),
    *PROJECT["dependency-groups"]["build"],
    *PROJECT["build-system"]["requires"],
]
DEVELOP = [*RUN, *PROJECT["project"]["optional-dependencies"]["dev"]]


def locked(name: str) -> dict[str, str]:
    text = (CHECKOUT / name).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "wanted"), [("requirements.lock", RUN), ("requirements-dev.lock", DEVELOP)]
)
def test_every_dependency_is_locked_in_an_allowed_version(name, wanted):
    versions = locked(name)
    for text in wanted:
        requirement = Requirement(text)
        package = canonicalize_name(requirement.name)
        assert package in versions, f"{package} is not in {name}: run .ci/lock"
        assert requirement.specifier.contains(versions[package], prereleases=True), (
            f"{text}: run .ci/lock"
        )


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_version_has_a_hash_and_nothing_has_an_address(name):
    text = (CHECKOUT / name).read_text()
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=)", text, re.MULTILINE)


def test_the_tests_run_with_the_versions_that_users_get():
    assert locked("requirements.lock").items() <= locked("requirements-dev.lock").items()


@pytest.mark.parametrize("text", PROJECT["project"]["dependencies"])
def test_what_vtax_depends_on_it_imports(text):
    package = Requirement(text).name
    module = {"vl-convert-python": "vl_convert", "tomli-w": "tomli_w"}.get(package, package)
    imported = re.compile(rf"^\s*(import|from) {module}\b", re.MULTILINE)
    sources = (CHECKOUT / "src").rglob("*.py")
    assert any(imported.search(source.read_text()) for source in sources), (
        f"{package} is imported nowhere"
    )
