"""Exports of posts: front matter that parses back, and links that resolve in the export."""

import json
import mailbox
import posixpath
import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parseaddr
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from backstory.base.errors import SettingsError
from backstory.interfaces.pages.export.ghost import write_ghost_file
from backstory.interfaces.pages.export.mail import write_mailbox
from backstory.interfaces.pages.export.markdown_files import write_markdown_files
from backstory.interfaces.pages.export.rewriting import rewrite_links
from backstory.interfaces.pages.site.library import Library, Quote, SiteDocument, SitePost, Use
from backstory.interfaces.pages.site.markdown import holds_html, list_links
from backstory.settings.models import SiteSettings
from backstory.writing.material import WindowMaterial, WindowMessage
from tests.errors import raises
from tests.injections import INJECTIONS

NOON = datetime(2025, 3, 13, 12, tzinfo=UTC)
TITLE = 'Frost: "the elbow" #3 \u2028 {{ page }}'


def make_post(slug: str, text: str, *uses: Use) -> SitePost:
    message = WindowMessage("m", NOON, "Alder", "The elbow cracked")
    window = WindowMaterial(f"w-{slug}", "garden", "2025-03-13", NOON, NOON, "en", (message,))
    return SitePost(
        window,
        slug,
        f"written/{slug}.md",
        f"id-{slug}",
        TITLE,
        ("a: b", "no"),
        text,
        ("Frost",),
        "",
        "digest-1",
        uses,
    )


def use(number: int, document_id: str, path: str) -> Use:
    quotes = (Quote(0, NOON, "Alder", "The elbow cracked"),)
    return Use(number, document_id, "Title", NOON, path, "A [b](c.docx) c.", quotes, cited=True)


@pytest.fixture
def library() -> Library:
    """Give two posts: the second cites the first, a document of the web, and one that is only a file."""
    text = (
        r"## Frost"
        "\n\nSee [\\[1\\]](../posts/x%20y.docx), [\\[2\\]](../posts/web.md), [the first](one.md), "
        "[gone](../posts/gone.docx), ![p](p.png) and [out](https://example.org/o). `[code](../posts/x.docx)`\n"
    )
    uses = (
        use(1, "file", "posts/x y.docx"),
        use(2, "web", "posts/web.md"),
        use(3, "id-one", "written/one.md"),
    )
    documents = {
        "file": SiteDocument("file", "A file", "posts/x y.docx", NOON, (), "Text"),
        "web": SiteDocument("web", "A page", "posts/web.md", NOON, (), "Text", "https://example.org/web"),
    }
    return Library((make_post("one", "First.\n"), make_post("two", text, *uses)), documents, ())


@pytest.mark.parametrize("name", ["hugo", "jekyll", "astro", "eleventy"])
def test_files_of_generators_have_front_matter_and_links_that_resolve(library: Library, name: str) -> None:
    files = dict(
        write_markdown_files(library, name, SiteSettings(front_matter={"by": "{conversation} team"}))
    )
    assert len(files) == 3
    [path] = [path for path in files if path.endswith("two.md")]
    _, front, text = files[path].decode().split("---\n", 2)
    stated = YAML(typ="safe").load(front)
    assert stated["title"] == TITLE.replace("\u2028", " ")
    assert stated["tags"] == ["a: b", "no"]
    assert stated["pubDate" if name == "astro" else "date"].replace(tzinfo=UTC) == NOON
    assert stated["by"] == "garden team"
    here = "/posts/two/"
    links = [link if ":" in link else posixpath.normpath(here + link) for link in list_links(text)]
    assert links == ["/documents/file", "https://example.org/web", "/posts/one", "https://example.org/o"]
    assert "gone," in text
    assert "`[code](../posts/x.docx)`" in text
    [passages] = [content.decode() for path, content in files.items() if "documents" in path]
    assert "> A b c." in passages
    assert list_links(passages.split("---\n", 2)[2]) == ["../../posts/two/"]


def test_front_matter_is_mapped_by_the_setting(library: Library) -> None:
    mapped = SiteSettings(front_matter={"layout": None, "categories": "{tags}", "draft": True, "null": "x"})
    file = dict(write_markdown_files(library, "jekyll", mapped))["_posts/2025-03-13-one.md"].decode()
    stated = YAML(typ="safe").load(file.split("---\n")[1])
    assert "layout" not in stated
    assert stated["null"] == "x"
    assert (stated["categories"], stated["draft"]) == (["a: b", "no"], True)
    with raises(SettingsError, "unknown_field", "x"):
        list(write_markdown_files(library, "hugo", SiteSettings(front_matter={"x": "{titel}"})))


def test_ghost_gets_posts_tags_and_pages_of_passages(library: Library) -> None:
    data = json.loads(write_ghost_file(library))["db"][0]["data"]
    assert [(post["type"], post["slug"]) for post in data["posts"]] == [
        ("post", "one"), ("post", "two"), ("page", "document-file"),
    ]  # fmt: skip
    [name, card] = json.loads(data["posts"][1]["mobiledoc"])["cards"][0]
    assert name == "markdown"
    assert list_links(card["markdown"])[:3] == [
        "__GHOST_URL__/document-file/", "https://example.org/web", "__GHOST_URL__/one/",
    ]  # fmt: skip
    assert {use["tag_id"] for use in data["posts_tags"]} == {tag["id"] for tag in data["tags"]}


def test_ghost_keeps_the_slugs_and_takes_the_lengths_of_an_export() -> None:
    cited = replace(make_post("2025-03-13-сад-w1", "First.\n"), path="written/first.md", title="Frost " * 60)
    citing = replace(
        make_post("citing", "[it](first.md)\n", use(1, f"id-{cited.slug}", "written/first.md")),
        tags=("c++", ",a", "x" * 300),
    )
    data = json.loads(write_ghost_file(Library((cited, citing), {}, ())))["db"][0]["data"]
    [_, card] = json.loads(data["posts"][1]["mobiledoc"])["cards"][0]
    assert list_links(card["markdown"]) == [f"__GHOST_URL__/{data['posts'][0]['slug']}/"]
    # What Ghost's import leaves as it is, and what it refuses.
    for row in (*data["posts"], *data["tags"]):
        assert re.fullmatch(r"[a-z0-9_-]{2,191}", row["slug"])
        assert len(row.get("title", "")) <= 255
        assert re.fullmatch(r"[^,].{0,190}", row.get("name", "a"))


def read_mails(path: Path) -> list[mailbox.mboxMessage]:
    with closing(mailbox.mbox(path)) as box:
        return list(box)


def test_a_mailbox_has_one_mail_per_post_that_refers_to_earlier_ones(
    library: Library, tmp_path: Path
) -> None:
    path = tmp_path / "posts.mbox"
    path.write_bytes(write_mailbox(library, 'The "Plot"\n', "https://example.org/blog"))
    first, second = read_mails(path)
    assert second["References"] == first["Message-ID"] == "<one@example.org>"
    text = second.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert list_links(text.decode())[0] == "https://example.org/blog/documents/file.html"
    assert parseaddr(first["From"]) == ('The "Plot"', "posts@example.org")
    for base, host in {
        "https://gärten.example/b": "xn--grten-gra.example",
        "http://[::1]:8000": "backstory.invalid",
    }.items():
        path.write_bytes(write_mailbox(library, "Plot\\", base))
        first, second = read_mails(path)
        assert parseaddr(first["From"]) == ("Plot\\", f"posts@{host}")
        assert second["References"] == first["Message-ID"] == f"<one@{host}>"
    path.write_bytes(write_mailbox(library, "Plot", None))
    text = read_mails(path)[1].get_payload(decode=True)
    assert isinstance(text, bytes)
    assert list_links(text.decode()) == ["https://example.org/web", "https://example.org/o"]


def test_no_link_of_any_text_leads_where_nothing_is() -> None:
    odd = [
        "[a](<b c.md> 't')",
        "[a][b]\n\n[b]: c.md",
        "[a\\](b](c.md)",
        "[[a](b.md)](c.md)",
        "```\n[a](b.md)\n```",
        "[a](javascript:x) [b](<javascript:x>\n't') [c](JavaScript&colon;x)\n\n> [d]: data:text/html,x\n\n[d]",
    ]
    for text in (*odd, *INJECTIONS):
        rewritten = rewrite_links(text, lambda address: address if re.match("https?:", address) else None)
        assert all(link.startswith(("http:", "https:")) for link in list_links(rewritten)), text
        assert not holds_html(rewritten), text


def test_html_of_a_passage_or_a_title_is_text_in_an_export(library: Library) -> None:
    hostile = (
        "Set `<b>` if a < b. <script>x()</script> <img src=x onerror=x()> <javascript:x()> <https://example.org/a>\n"
        "[<b>](https://example.org/w) ![<b>](p.png) \\`<i>\\` `a\u2028\u2028<i>` <!-- c --> <?p?> </i>\n\n"
        "```\n<b>\n```\n"
    )
    named = [replace(post, title="<img src=x onerror=x()> `[a](b)` \\") for post in library.posts]
    shown = replace(named[1], uses=(replace(named[1].uses[0], passage=hostile),))
    told = Library((named[0], shown), library.documents, ())
    [content] = [
        text.decode()
        for path, text in write_markdown_files(told, "hugo", SiteSettings())
        if "documents" in path
    ]
    text = content.split("---\n", 2)[2]
    assert not holds_html(text)
    assert "`<b>` if a < b. &lt;script>x()&lt;/script> &lt;img" in text
    assert "&lt;javascript:x()>" in text
    assert "> <b>\n> ```" in text
    assert list_links(text) == ["https://example.org/a", "https://example.org/w", "../../posts/two/"]


@pytest.mark.parametrize("slug", ["2025-03-13-garden-w1", "2025-03-13-сад-w1", "one"])
def test_generators_give_a_post_the_address_to_which_links_lead(slug: str) -> None:
    citing = make_post("citing", "[it](first.md)\n", use(1, f"id-{slug}", "written/first.md"))
    cited = replace(make_post(slug, "First.\n"), path="written/first.md")
    for name, field in (
        ("hugo", "slug"),
        ("astro", "slug"),
        ("jekyll", "permalink"),
        ("eleventy", "permalink"),
    ):
        files = write_markdown_files(Library((cited, citing), {}, ()), name, SiteSettings())
        paths, texts = zip(*((path, content.decode()) for path, content in files), strict=True)
        stated = YAML(typ="safe").load(texts[0].split("---\n")[1])[field]
        [link] = list_links(texts[1].split("---\n", 2)[2])
        assert link.removeprefix("../../posts/").removesuffix("/") == stated.removeprefix("/posts/").strip(
            "/"
        )
        if name == "jekyll":
            assert re.findall(r"\d{4}-\d\d-\d\d-", paths[0]) == ["2025-03-13-"]
