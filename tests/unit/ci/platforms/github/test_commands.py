from __future__ import annotations

import pytest

from agent_eval.ci.platforms.github import command, escape_data, escape_property


def test_a_message_stays_on_one_line():
    assert escape_data("50%\r\n::error::x\r") == "50%25%0A::error::x%0A"


def test_a_property_cannot_end_its_list():
    assert escape_property("a:b,c\n") == "a%3Ab%2Cc%0A"


def test_command__with_and_without_properties():
    assert command("notice", "done") == "::notice::done"
    assert command("warning", "a\nb", title="x: y", line=3) == "::warning title=x%3A y,line=3::a%0Ab"


@pytest.mark.parametrize("name", ["", "Warning::", "a b", "add mask"])
def test_command__refuses_odd_names(name):
    with pytest.raises(ValueError, match="not the name"):
        command(name, "x")


def test_command__knows_camel_case_properties():
    assert command("warning", "x", endLine=4) == "::warning endLine=4::x"
