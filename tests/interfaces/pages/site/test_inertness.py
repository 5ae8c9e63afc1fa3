"""No text of a chat, a document or a writer can become a part of a page, run, or load anything."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from backstory.interfaces.pages.site.addresses import address_tag
from backstory.interfaces.pages.site.library import Library, Quote, SiteDocument, SitePost, Use, WithoutPost
from backstory.interfaces.pages.site.links import collect_links
from backstory.interfaces.pages.site.markdown import Target, find_addresses, list_topics, render_markdown
from backstory.interfaces.pages.site.pages import Frame, list_pages
from backstory.writing.material import WindowMaterial, WindowMessage
from tests.injections import INJECTIONS, TERMINAL

NOON = datetime(2025, 3, 13, 12, tzinfo=UTC)
FORBIDDEN = {"img", "iframe", "object", "embed", "base", "template", "math", "textarea", "details-x", "b-x"}
TEXTUAL = {
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr",
    "br", "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
HOSTILE = (
    "</style></title></script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp; \"'"
)


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def find_dangers(html: str) -> Iterator[str]:
    for tag, attributes in Elements(html).found:
        if tag in FORBIDDEN:
            yield tag
        for name, value in attributes.items():
            if name.startswith("on") or name in ("src", "srcset", "style", "action", "formaction"):
                yield f"{tag} {name}"
            elif name == "href" and urlsplit(value or "").scheme not in ("", "http", "https", "mailto"):
                yield f"{tag} {value}"


def follow(address: str, _words: str) -> Target:
    return Target(address)


def test_markdown_gives_no_element_but_those_of_text() -> None:
    for text in (*INJECTIONS, HOSTILE, "a &#x202E;b &#8294;c `&#x202e;` [&#x202E;d](e.md '&#x202e;')"):
        html = render_markdown(text, follow)
        assert {tag for tag, _ in Elements(html).found} <= TEXTUAL, text
        assert list(find_dangers(html)) == [], text
        assert not any(character in html for character in "\x1b\x9b\x08\u202e\u2066"), text


def make_library(texts: list[str]) -> Library:
    """Make a library in which every text is a title, a tag, a name, a message and a passage."""
    posts = []
    for place, text in enumerate(texts):
        message = WindowMessage(f"m{place}", NOON, text, text)
        window = WindowMaterial(f"w{place}", text, "2025-03-13", NOON, NOON, "en", (message,))
        use = Use(1, "d", text, NOON, text, text, (Quote(0, NOON, text, text),), cited=True)
        posts.append(
            SitePost(
                window,
                f"slug-{place}",
                text,
                None,
                text,
                (text,),
                text,
                list_topics(text),
                text,
                text,
                (use,),
            )
        )
    document = SiteDocument("d", texts[0], texts[0], NOON, tuple(texts), "\n\n".join(texts))
    return Library(tuple(posts), {"d": document}, (WithoutPost("w", texts[0], NOON, NOON, 1, texts[-1]),))


def render_pages(library: Library, base: str | None = None) -> dict[str, bytes]:
    pages = list_pages(library, collect_links(library), {}, Frame(base=base))
    return {address: page.make() for address, page in pages.items()}


def test_no_text_becomes_a_part_of_a_page() -> None:
    texts = [HOSTILE, *INJECTIONS[::15], *TERMINAL]
    pages = render_pages(make_library(texts), "https://example.org/blog")
    assert len(pages) > 2 * len(texts)
    for address, content in pages.items():
        if address.endswith(".xml"):
            ElementTree.fromstring(content)
        if not address.endswith(".html"):
            continue
        html = content.decode()
        assert list(find_dangers(html)) == [], address
        tags = [tag for tag, _ in Elements(html).found]
        assert tags.count("script") == {"index.html": 1, "search.html": 2}.get(address, 0)
        assert tags.count("style") == tags.count("title") - tags_in_picture(html) == 1
        assert not any(character in html for character in "\x1b\x9b\x08\u202e\u2066"), address


def tags_in_picture(html: str) -> int:
    return html.count("<title>") - 1


def test_names_that_are_no_file_names_get_pages_of_their_own() -> None:
    names = ["Water", "water", "../../etc/passwd", "a/b", "", ".", "水", "x" * 500, "con?#%"]
    pages = {address_tag(name) for name in names}
    assert len({page.casefold() for page in pages}) == len(names)
    assert all(page.count("/") == 1 and ".." not in page and len(page) < 100 for page in pages)
    assert all(set(page) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_./") for page in pages)


def test_links_of_a_document_lead_to_pages_to_the_web_or_nowhere() -> None:
    text = "[a](other.md) [b](https://example.org/x) [c](missing.md) [d](/etc/passwd) ![e](https://example.org/e.png)"
    document = SiteDocument("d", "Title", "posts/one.md", NOON, (), text)
    other = SiteDocument("o", "Other", "posts/other.md", NOON, (), "# Other\n\n# Again")
    rendered = render_pages(Library((), {"d": document, "o": other}, ()))
    pages = {address: content.decode() for address, content in rendered.items()}
    links = [attributes for tag, attributes in Elements(pages["documents/d.html"]).found if tag == "a"]
    assert [link["href"] for link in links][4:] == ["../documents/o.html", "https://example.org/x"]
    assert links[-1]["rel"] == "noreferrer noopener"
    assert "[e]" in pages["documents/d.html"]
    assert pages["documents/o.html"].count("<h1>") == 1
    assert "<h2>Again</h2>" in pages["documents/o.html"]
    lives = replace(other, home="https://example.org/other")
    page = render_pages(Library((), {"d": document, "o": lives}, ()))["documents/d.html"].decode()
    assert [link["href"] for tag, link in Elements(page).found if tag == "a"][4] == lives.home


def test_every_link_of_markdown_is_among_the_addresses_found_without_parsing() -> None:
    texts = [
        *INJECTIONS,
        HOSTILE,
        "[a](b.md) [c](<d e.md> 'title') [f](g(h).md) [i](j\\).md) [k](l&amp;m.md)",
        "[a][b] [c]\n\n[b]: d.md\n[c]:\n  <e f.md>",
        "![a](b.png) [[c](d.md)](e.md) [f](\n  g.md\n) [h](%C3%A9.md) [i](é.md)",
        "| a |\n|---|\n| [b](c.md) |\n\n> [d](e.md)\n\n- [f](g.md)\n\n<https://example.org/x>",
    ]
    for text in texts:
        followed: list[str] = []

        def follow(address: str, _words: str, followed: list[str] = followed) -> Target:
            followed.append(address)
            return Target(address)

        render_markdown(text, follow)
        found = {unquote(address) for address in find_addresses(text)}
        assert {unquote(one) for one in followed if not urlsplit(one).scheme} <= found, text
