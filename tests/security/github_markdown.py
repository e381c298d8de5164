"""What GitHub would make of markdown: its own parser, and the text that its later filters would act on."""

import random
import re
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

VOID = frozenset({"br", "hr", "img", "input"})
ACTIVE = re.compile(
    r"@\w|#\d|\bgh-\d|https?://|www\.|mailto:|:[a-z0-9_+-]+:|!\[|\]\(|\$\S[^$\n]*\$|<!--|\b(?=\d*[a-f])[0-9a-f]{7,40}\b",
    re.IGNORECASE,
)
NASTY = (
    "`", "``", "```", "````", "\n", "\r", "\r\n", "\n\n", "|", "\\|", "\\", "@acme/security", "@x",
    "#123", "GH-1", "<!-- agent-eval id=default run=9 attempt=9 -->", "-->",
    "<img src=https://e/i.png>", "![b](https://e/p.png)", "[l](javascript:x)",
    "https://evil.example/?q=1", "www.evil.example", "</code>", "</td></tr></table>", "<script>",
    "<details>", "</details>", "</summary>", "~~~", "\n## ✅ passed\n", "\n- [ ] x",
    "::error file=a::x", "\x1b[2J", "\x07", "\u202e", "\u2028", "\x00", "&lt;img&gt;", "&#64;acme",
    "$$x$$", "$x$", ":tada:", "- [ ] x", "\n| a | b |\n", "*", "_", "__", "~", "a", "b", " ", "\t",
    "é", "\ud800", "<a href=x>", "mailto:a@b.c", "a@b.co", "![x][y]", "\n[y]: http://e/", "1. ",
    "3) ", "- ", "+ ", "> ", "# ", "===", "---", "[^1]", "deadbeef1", "xmpp:a@b.c", "acme/repo#1",
    "word", "word.", "(word)", "12%", "−4.5", "$0.42", "→", "https://e/a)b", "{suite}", "%s",
    "\u200d",
)  # fmt: skip


class Page(HTMLParser):
    """A rendered page: its tags outside code, the text outside code, links and comments."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.in_code: list[str] = []
        self.links: list[str] = []
        self.comments: list[str] = []
        self.text = ""
        self.tags_in_code: list[str] = []
        html = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
        self.html = html
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag in ("code", "pre"):
            self.in_code.append(tag)
        elif self.in_code:
            self.tags_in_code.append(tag)
        else:
            told = {name: value for name, value in attrs if name not in ("align", "href")}
            self.tags.append(f"<{tag}{told or ''}>")
            self.links += [value for name, value in attrs if name == "href"]

    def handle_endtag(self, tag):
        if tag in ("code", "pre"):
            if self.in_code and self.in_code[-1] == tag:
                self.in_code.pop()
            self.text += " "
        elif not self.in_code:
            self.tags.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.in_code:
            self.text += data

    def handle_comment(self, data):
        self.comments.append(data)

    @property
    def skeleton(self) -> list[str]:
        """The structure of the page: its tags in order, code left out."""
        return self.tags

    def balanced(self) -> bool:
        """Whether every tag is closed in the right order."""
        open_tags: list[str] = []
        for tag in self.tags:
            if tag.startswith("</"):
                if not open_tags or open_tags.pop() != tag[2:-1]:
                    return False
            elif tag[1:-1] not in VOID:
                open_tags.append(tag[1:-1])
        return not open_tags and not self.in_code


def nasty_texts(seed: int, number: int) -> list[str]:
    """Texts of one to nine nasty tokens, the same for the same seed."""
    rng = random.Random(seed)
    return ["".join(rng.choice(NASTY) for _ in range(rng.randint(1, 9))) for _ in range(number)]
