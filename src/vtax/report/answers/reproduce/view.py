"""How to repeat a run."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.answers.reproduce.compute import commands, study_toml
from vtax.report.document import joined, msg
from vtax.report.views.base import Options, View, register_view


def document(source: Source, _: Options) -> doc.Document:
    """Return the study as declared, and the commands."""
    analysis = source.whole.analysis
    file, toml, lines = f"{analysis.study}.toml", study_toml(analysis.declared), commands(analysis)
    every = doc.Styled(f"vtax export {analysis.name} --format csv", "code")
    parts = (
        doc.Paragraph(
            msg(
                "Save the study below as {file} on a comparable host, then run:",
                file=doc.Styled(file, "code"),
            )
        ),
        doc.Code("\n".join(lines)),
        doc.Code(toml, msg("{file} as declared, with all defaults", file=file)),
        doc.Paragraph(joined([msg("Every measured value"), every], ": ")),
    )
    return doc.Document(VIEW.title, parts, data={"commands": lines, "study": toml})


VIEW = register_view(
    View(
        "reproduce",
        msg("How to reproduce"),
        msg("The study and the commands that repeat the run."),
        document,
        70,
    )
)
