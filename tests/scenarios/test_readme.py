"""What the READMEs show is what a command prints from a shipped run."""

import re
import shlex

import pytest
from command_line import output_of
from doc_examples import ROOT

SHOWN = re.compile(
    r"```sh\nsudo vtax import docs/examples/(\S+)\.vtax\.gz\n(?:LANG=(\S+) )?vtax (.*?)\n```\n\n```text\n(.*?)```",
    re.DOTALL,
)


@pytest.mark.parametrize("page", ["README.md", "README.pt-BR.md"])
def test_the_output_of_a_readme_is_printed_by_its_command(
    page, example, set_locale, use_store, set_width
):
    set_width("100")
    found = SHOWN.findall((ROOT / page).read_text())
    assert found
    for name, locale, command, text in found:
        set_locale(locale or "C.UTF-8")
        use_store(example(name))
        assert f"\n{text}" in output_of(*shlex.split(command))


@pytest.mark.parametrize("page", ["README.md", "README.pt-BR.md"])
def test_a_readme_is_short(page):
    assert len((ROOT / page).read_text().split()) <= 1000


@pytest.mark.parametrize(
    ("name", "run", "figure"),
    [
        ("tour", "tour-1", "forest"),
        ("anatomy", "anatomy-2", "ladder-nginx-host-cpu-per-request-3decc0c4f278"),
    ],
)
def test_a_picture_of_the_readme_is_a_figure_of_the_shipped_run(
    tmp_path, example, use_store, name, run, figure
):
    use_store(example(name))
    output_of("figures", run, "--only", figure, "-o", str(tmp_path))
    (written,) = tmp_path.glob("*.svg")
    shown, made = (
        path.read_text(encoding="utf-8") for path in (ROOT / f"docs/{name}.svg", written)
    )
    assert re.findall(r"<text[^>]*>([^<]+)<", shown) == re.findall(r"<text[^>]*>([^<]+)<", made)
