"""The rules of Jenkins' schema for JUnit (`junit-10.xsd` of its xUnit plug-in), as a check.

Held against the schema itself, with an XSD validator, when it was written.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

REQUIRED = {
    "testsuites": set(),
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name"},
    "property": {"name", "value"},
    "properties": set(),
    **{name: set() for name in ("failure", "error", "skipped", "system-out", "system-err")},
}
OPTIONAL = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
    "testcase": {"time", "classname", "group"},
    **{name: {"type", "message"} for name in ("failure", "error", "skipped")},
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
    "properties": {"property"},
}
MIXED = {"failure", "error", "skipped", "system-out", "system-err"}
SUREFIRE_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")


def problems(element: Element, place: str = "") -> list[str]:
    """What the schema refuses of an element and of those within it."""
    place = f"{place}/{element.tag}"
    if element.tag not in REQUIRED:
        return [f"{place}: unknown element"]
    names = set(element.attrib)
    found = [f"{place}: no {name}" for name in REQUIRED[element.tag] - names]
    allowed = REQUIRED[element.tag] | OPTIONAL.get(element.tag, set())
    found += [f"{place}: unknown attribute {name}" for name in names - allowed]
    time = element.get("time")
    if element.tag in ("testsuite", "testsuites") and time and not SUREFIRE_TIME.fullmatch(time):
        found.append(f"{place}: time {time}")
    text = (element.text or "") + "".join(child.tail or "" for child in element)
    if element.tag not in MIXED and text.strip():
        found.append(f"{place}: text")
    for child in element:
        if child.tag not in CHILDREN.get(element.tag, set()):
            found.append(f"{place}: {child.tag} does not belong here")
        found += problems(child, place)
    return found
