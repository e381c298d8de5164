"""A pack as JUnit XML: valid, complete, and safe whatever an agent wrote."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.evidence.reader import open_pack
from agent_eval.exporters.junit import junit_lines
from tests.factories import make_case, make_config, make_judged, make_pack, make_result

# The rules of Jenkins' schema for JUnit (`junit-10.xsd` of its xUnit plug-in), which were held against the
# schema itself, with an XSD validator, when they were written.
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


def exported(pack: Path) -> Element:
    root = ElementTree.fromstring("".join(junit_lines(open_pack(pack))))
    assert problems(root) == []
    return root


def one_verdict(tmp_path: Path, outcome: str, **fields: object) -> Element:
    result = make_judged("case-1", outcome, **fields)
    root = exported(make_pack(tmp_path / "p", [result], config=make_config(judges=["policy"])))
    (found,) = [case for case in root.iter("testcase") if case.get("name") == "policy"]
    return found


def test_every_judge_of_every_case_is_a_test_and_the_counts_are_right(tmp_path: Path) -> None:
    failing = {"failed": "policy", "error": "regex", "skipped": "json_schema"}
    results = [make_result("a"), make_result("v1.2/refund", **failing)]
    root = exported(make_pack(tmp_path / "p", results))
    assert [suite.get("name") for suite in root] == ["a", "v1.2/refund"]
    tests = [(test.get("classname"), test.get("name")) for test in root.iter("testcase")]
    assert len(tests) == len(set(tests)) == sum(len(result.verdicts) for result in results)
    assert {name for name, _ in tests} == {"shop.a", "shop.v1_2/refund"}, "a dot would make a package"
    counts = root[1].attrib
    assert [counts[name] for name in ("tests", "failures", "errors", "skipped")] == ["6", "1", "1", "1"]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("12", "1", "1")


KINDS = [("failed", "failure", "policy_violation"), ("error", "error", "policy_violation")]


@pytest.mark.parametrize(("outcome", "element", "kind"), [*KINDS, ("inconclusive", "error", "inconclusive")])
def test_what_is_no_pass_is_a_failure_or_an_error_with_its_reason(
    tmp_path: Path, outcome: str, element: str, kind: str
) -> None:
    evidence = {"tools": ["refund"]}
    test = one_verdict(tmp_path, outcome, reason="It called refund.", evidence_refs=[1, 2], evidence=evidence)
    (problem,) = test
    assert (problem.tag, problem.get("type"), problem.get("message")) == (element, kind, "It called refund.")
    assert problem.text == 'It called refund.\nEvents: 1, 2\nEvidence: {"tools":["refund"]}'


def test_a_skipped_verdict_is_a_skipped_test_and_a_passed_one_says_nothing(tmp_path: Path) -> None:
    (skipped,) = one_verdict(tmp_path / "a", "skipped", reason="no rules")
    assert (skipped.tag, skipped.get("message")) == ("skipped", "no rules")
    assert len(one_verdict(tmp_path / "b", "passed")) == 0


def test_trials_and_shard_are_properties(tmp_path: Path) -> None:
    shard = {"shard": {"number": 3, "count": 8, "total": 20, "positions": "0"}}
    config = make_config(judges=["policy"], execution_config=shard)
    result = make_judged("a", "passed", "failed", "passed", policy="majority")
    case = make_case("a", trials=[{"trace": make_case("a")["trace"]}] * 2)
    root = exported(make_pack(tmp_path / "p", [result], cases=[case], config=config))
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert properties["shard"] == "3/8"
    assert (properties["trials"], properties["case_policy"]) == ("3", "majority")
    assert [properties[f"trial.{number}.policy"] for number in range(3)] == ["passed", "failed", "passed"]


@given(text=st.text(), more=st.text(alphabet="\x00\x08\x1b\ufffe\uffff<>&\"'\r\n\t]"))
def test_hostile_text_comes_back_as_it_was_but_for_what_xml_cannot_hold(
    tmp_path_factory: pytest.TempPathFactory, text: str, more: str
) -> None:
    reason = text + more
    test = one_verdict(tmp_path_factory.mktemp("p"), "failed", reason=reason)
    forbidden = {*map(chr, range(32)), "\ufffe", "\uffff"} - {"\t", "\n", "\r"}
    expected = "".join("\ufffd" if char in forbidden else char for char in reason)
    assert test[0].get("message") == expected
    assert (test[0].text or "") == expected
