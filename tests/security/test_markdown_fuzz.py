"""Nothing that a case, a judge, an agent or a branch says becomes markup, a mention, a link or an image."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.reports.comment import render_markdown
from agent_eval.text.escape import code_span, fence, link, plain, prose
from tests.extent import amount
from tests.security.github_markdown import ACTIVE, NASTY, Page, nasty_texts
from tests.unit.reports import scenarios

ROUNDS = amount(1_500, 8_000, 30_000)
EXAMPLES = amount(40, 250, 1_000)

OURS = {*scenarios.JUDGES, "another tool"}
"""Names that the scenario has anyway: what is called the same is the same judge or call, not one more."""

hostile_text = st.one_of(
    st.lists(st.sampled_from(NASTY), min_size=1, max_size=9).map("".join),
    st.text(st.characters(), min_size=1, max_size=60),
    st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=4)), min_size=1, max_size=12).map("".join),
).filter(lambda text: bool(text.strip()) and text not in OURS)

PLACES = {
    "table": "| case | reason |\n|---|---|\n| x | {} |\n| end | ok |\n\nTAIL\n", "list": "- {}: 1\n- ok\n",
    "paragraph": "before\n\n{}\n\nTAIL\n", "sentence": "before {} after.\n",
    "bold": "**before {} after**\n", "heading": "## ❌ {}: failed\n\nTAIL\n", "quote": "> ⚠️ {}\n\nTAIL\n",
}  # fmt: skip


def assert_inert(page: Page, benign: Page, allowed_links: tuple[str, ...] = ()) -> None:
    assert page.skeleton == benign.skeleton
    assert page.balanced()
    assert page.tags_in_code == []
    assert set(page.links) <= set(allowed_links)
    assert page.comments == benign.comments
    assert ACTIVE.search(page.text) is None, ACTIVE.search(page.text)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("escape", [code_span, plain, prose])
def test_hostile_text_stays_text__in_every_place(escape, place):
    template = PLACES[place]
    benign = Page(template.format(escape("benign")))
    for text in nasty_texts(seed=9, number=ROUNDS // 10):
        shown = escape(text)
        if shown:
            assert_inert(Page(template.format(shown)), benign)


@given(text=hostile_text)
@settings(max_examples=EXAMPLES, deadline=None)
def test_hostile_text_stays_text__in_a_table_and_a_list(text):
    for place in ("table", "list"):
        template = PLACES[place]
        for escape in (code_span, plain, prose):
            shown = escape(text)
            if shown:
                assert_inert(Page(template.format(shown)), Page(template.format(escape("benign"))))


def test_a_code_block_ends_where_it_should():
    benign = Page("before\n\n" + fence("benign") + "\n\nTAIL\n")
    for text in nasty_texts(seed=5, number=ROUNDS):
        assert_inert(Page("before\n\n" + fence(text) + "\n\nTAIL\n"), benign)


def test_only_plain_web_addresses_become_links():
    for text in nasty_texts(seed=3, number=ROUNDS):
        for address in (text, "https://e/" + text):
            page = Page("before " + link("here", address) + " after\n")
            assert page.text.strip() == "before here after"
            assert page.links in ([], [address])


def hostile_marker_and_page(text: str) -> tuple[str, Page]:
    report = scenarios.hostile(text)
    comment = scenarios.comment(report)
    return comment, Page(comment)


@given(text=hostile_text)
@settings(max_examples=EXAMPLES, deadline=None)
def test_the_whole_comment_keeps_its_shape(text):
    benign = Page(scenarios.comment(scenarios.hostile("x|y")))
    comment, page = hostile_marker_and_page(text)
    assert_inert(page, benign)
    assert comment.startswith(scenarios.MARKER)
    assert [f"<!--{said}-->" for said in page.comments] == [scenarios.MARKER]


def test_a_comment_on_two_suites_keeps_its_shape():
    def page(text: str) -> Page:
        report = scenarios.hostile(text)
        return Page(scenarios.comment(replace(report, suites=[*report.suites, *report.suites])))

    benign = page("x|y")
    for text in nasty_texts(seed=12, number=ROUNDS // 100):
        if text.strip():
            assert_inert(page(text), benign)


@given(text=hostile_text)
@settings(max_examples=EXAMPLES // 4, deadline=None)
def test_summary_and_markdown_file_keep_their_shape(text):
    def page(said: str) -> Page:
        return Page(scenarios.full_report(scenarios.hostile(said)))

    # No command is shown for an id that holds NUL, as no program can be given it.
    assert_inert(page(text), page("x|y\0" if "\0" in text else "x|y"))
    assert_inert(Page(_file(text)), Page(_file("x|y")))


def _file(text: str) -> str:
    suite = scenarios.hostile(text).suites[0]
    assert suite.comparison is not None
    replay = {"replay_passed": False, "case_mismatches": [text, {text: [text]}], "env_mismatches": [text]}
    return render_markdown(suite.comparison, suite.decision, title=text, replay=replay)
