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


def test_the_picture_of_a_readme_is_a_figure_of_the_shipped_run_with_its_mark(
    tmp_path, example, use_store
):
    use_store(example("tour"))
    output_of("figures", "tour-1", "--only", "means-iperf3-throughput", "-o", str(tmp_path))
    (written,) = tmp_path.glob("*.svg")
    shown, made = (
        (path.read_text(encoding="utf-8")) for path in (ROOT / "docs/tour-iperf3.svg", written)
    )
    assert shown.count("(emulated)") == made.count("(emulated)") == 2
    assert re.findall(r"<text[^>]*>([^<]+)<", shown) == re.findall(r"<text[^>]*>([^<]+)<", made)
