"""How to repeat a run."""

from __future__ import annotations

from vtax.report.analysis.reproduce import commands, study_toml
from vtax.report.analysis.source import Source
from vtax.report.document import Code, Document, Paragraph, Styled, joined, msg
from vtax.report.views.base import Options, View


def document(source: Source, _: Options) -> Document:
    """Return the study as declared, and the commands."""
    analysis = source.whole.analysis
    file, toml, lines = f"{analysis.study}.toml", study_toml(analysis.declared), commands(analysis)
    every = Styled(f"vtax export {analysis.name} --format csv", "code")
    parts = (
        Paragraph(msg("Save the study below as {file} on a comparable host, then run:", file=Styled(file, "code"))),
        Code("\n".join(lines)),
        Code(toml, msg("{file} as declared, with all defaults", file=file)),
        Paragraph(joined([msg("Every measured value"), every], ": ")),
    )
    return Document(VIEW.title, parts, data={"commands": lines, "study": toml})


VIEW = View(
    "reproduce", msg("How to reproduce"), msg("The study and the commands that repeat the run."), document, 70
)
