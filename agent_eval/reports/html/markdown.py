"""Render an agent's Markdown as markup that can do nothing: no HTML, no link, no image."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_OFF = ("link", "image", "autolink", "reference", "html_inline", "html_block", "entity")


def rendered(text: str) -> Markup:
    """Render Markdown. Links and images stay the text that they are.

    Example:
        >>> print(rendered("**Done**, see [here](https://example.org) <b>"))
        <p><strong>Done</strong>, see [here](https://example.org) &lt;b&gt;</p>
        <BLANKLINE>
    """
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        _tame(token)
    # markdown-it escapes the text of every token, and its own tags are the only ones.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704


def _tame(token: Token) -> None:
    """Take from a token what the page does not allow: headings of its own, style attributes, languages."""
    token.attrs.clear()
    token.info = ""
    if token.type in ("heading_open", "heading_close"):
        token.tag = "p"
        if token.nesting == 1:
            token.attrs["class"] = "heading"


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(list(_OFF))
