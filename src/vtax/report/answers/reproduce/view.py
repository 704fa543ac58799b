"""How to repeat a run."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.answers.reproduce.compute import commands, study_toml
from vtax.report.document import joined, msg
from vtax.report.views.base import Options, View, register_view


def document(source: Source, options: Options) -> doc.Document:
    """Return the commands, and the study as declared; a report names the command that prints the study."""
    analysis = source.whole.analysis
    file, toml, lines = f"{analysis.study}.toml", study_toml(analysis.declared), commands(analysis)
    file_name = doc.Styled(file, "code")
    lead = msg("Save the study below as {file} on a comparable host, then run:", file=file_name)
    study: tuple[doc.Part, ...] = (
        doc.Code(toml, msg("{file} as declared, with all defaults", file=file)),
    )
    if options.depth == "report":
        lead = msg(
            "Save the study that {command} prints as {file} on a comparable host, then run:",
            command=doc.Styled(f"vtax show {analysis.name} --reproduce", "code"),
            file=file_name,
        )
        study = ()
    values = doc.Styled(f"vtax export {analysis.name} --format csv", "code")
    parts = (
        doc.Paragraph(lead),
        doc.Code("\n".join(lines)),
        *study,
        doc.Paragraph(joined([msg("Every measured value"), values], ": ")),
    )
    return doc.Document(VIEW.title, parts, data={"commands": lines, "study": toml})


VIEW = register_view(
    View(
        "reproduce",
        msg("How to reproduce"),
        msg("The study and the commands that repeat the run."),
        document,
        70,
        about=msg("The commands that repeat the run."),
    )
)
