"""The cases of a document as a JUnit file, which CI systems show.

There is no one definition of the format. What is written is valid by the two schemas in use: that of Jenkins'
plug-in xunit (junit-10.xsd) and that of Ant (JUnit.xsd of windyroad), so attributes and elements that one of them
requires are there even where they are empty.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

from vtax.report import document as doc
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.language import ENGLISH, Language

_ELEMENTS = {"failed": "failure", "error": "error", "skipped": "skipped"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: doc.Document, language: Language = ENGLISH) -> str:
    """Return the text of the file. Raises ValueError for a document without a suite."""
    suite, formatter = document.suite, Formatter(language)
    if suite is None:
        raise ValueError("the document has no suite of cases")
    counts = {
        outcome: sum(case.outcome == outcome for case in suite.cases) for outcome in _ELEMENTS
    }
    root = ElementTree.Element("testsuites")
    top = ElementTree.SubElement(
        root,
        "testsuite",
        id="0",
        package="vtax",
        name=_clean(suite.name),
        hostname="localhost",
        timestamp=_moment(suite.started_at),
        tests=str(len(suite.cases)),
        failures=str(counts["failed"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=_seconds(sum(case.seconds for case in suite.cases)),
    )
    properties = ElementTree.SubElement(top, "properties")
    for name, value in suite.properties.items():
        ElementTree.SubElement(
            properties, "property", name=name, value=_clean(formatter.text(value))
        )
    for case in suite.cases:
        element = ElementTree.SubElement(
            top,
            "testcase",
            classname=_clean(formatter.text(case.group)),
            name=_clean(formatter.text(case.name)),
            time=_seconds(case.seconds),
        )
        if case.outcome in _ELEMENTS:
            text = _clean(formatter.text(case.text))
            failure = ElementTree.SubElement(element, _ELEMENTS[case.outcome], message=text)
            if case.outcome != "skipped":  # by Ant's schema an element without content
                failure.set("type", case.kind)
                failure.text = text
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(top, name)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + ElementTree.tostring(root, encoding="unicode")
        + "\n"
    )


def _clean(text: str) -> str:
    """Return text without line breaks of tables, and without characters that XML cannot hold."""
    return " ".join(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text).split())


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _moment(seconds: float) -> str:
    """ISO 8601 in UTC; Ant's schema allows no offset."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
