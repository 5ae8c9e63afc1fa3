"""Web pages: what is read of them, what is left out, and what they state of themselves."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.html import HTML, find_html_encoding
from backstory.ingest.documents.parsed_document import ParsedDocument
from tests.errors import raises

READER = HTML
MAY = datetime(2024, 5, 1)


def read(html: str | bytes) -> ParsedDocument:
    return READER.read(html.encode() if isinstance(html, str) else html, "a.html")


PAGE = """\
<!doctype html><html><head><title>Tea | Wiki</title><style>p {}</style><script>track()</script></head>
<body><nav>Home</nav><h1>Tea &amp; cake</h1><p>One<br>two <b>bold</b> 2 &lt; 3 * 4 #tag <p>Unclosed
<img src="data:image/png;base64,AAAA" alt="a cup">
<ul><li>One<ul><li>Nested</ul><li>Two</ul>
<table><tr><th>A<th>B|C<tr><td>1<td>two<br>lines</table>
<pre><code class="language-python">def f():
    # no heading
    return 1</code></pre>
<form><p>Kept</p><button>Send</button></form><div hidden>secret</div><div style="display: none">secret</div>
<article><p>Body</p><footer>By Ann</footer></article><aside>Beside</aside>
<div role=contentinfo>Imprint</div></body></html>
"""

PAGE_TEXT = """\
# Tea & cake

One  
two **bold** 2 < 3 * 4 #tag

Unclosed a cup

- One
  * Nested
- Two

| A | B\\|C |
| --- | --- |
| 1 | two lines |

```python
def f():
    # no heading
    return 1
```

Kept

Body

By Ann

Beside"""  # noqa: W291 - two blanks are a line break


def test_a_page_keeps_all_that_it_shows_but_navigation_and_the_footer_of_the_site() -> None:
    assert read(PAGE) == ParsedDocument(text=PAGE_TEXT, title="Tea | Wiki")


PAGES = (
    """\
<html>
<head>
<title>Frost</title>
</head>
<body>
<header>
<a href="/">Plot 14</a>
</header>
<nav>DROP menu</nav>
<div id="cookie-banner">DROP We use cookies. <button>DROP Accept</button>
</div>
<main>
<article>
<h1>KEEP Frost</h1>
<p>KEEP The elbow at the standpipe cracked in the night, since nobody had drained the pipe in November.</p>
<table>
<tr>
<th>KEEP part</th>
<th>price</th>
</tr>
<tr>
<td>KEEP elbow</td>
<td>2.40</td>
</tr>
</table>
<footer>
<p>KEEP Written after the thaw.</p>
</footer>
</article>
<section>
<h2>KEEP 2 comments</h2>
<p>KEEP Mine cracked, too.</p>
</section>
</main>
<footer>
<p>DROP All rights reserved. Imprint</p>
</footer>
</body>
</html>
""",
    """\
<body>
<div role="navigation">DROP Start, Minutes</div>
<h1>KEEP Minutes of 3 March</h1>
<ol>
<li>KEEP Water is on again.</li>
<li>KEEP Ada buys elbows.</li>
</ol>
<p>KEEP Next: 7 April.</p>
<div class="cc-window cc-banner">DROP This site uses cookies</div>
<footer>DROP Repair club, 12 Quarry Lane</footer>
</body>
""",
    """\
<body>
<div class="page">
<nav>DROP Breads</nav>
<h1>KEEP Rye loaf</h1>
<ul>
<li>KEEP 500 g flour</li>
<li>KEEP 10 g salt</li>
</ul>
<p>KEEP Bake for 50 minutes.</p>
<p class="cookie-recipe">KEEP The dough makes cookies, too.</p>
<blockquote>KEEP Best loaf so far.<footer>KEEP Ben</footer>
</blockquote>
</div>
<section id="CybotCookiebotDialog">DROP Details about cookies</section>
<div>
<footer>DROP Newsletter, contact</footer>
</div>
</body>
""",
    """\
<body>
<p>KEEP Key is under the third pot.</p>
<pre>KEEP code 4711</pre>
</body>
""",
)
"""Pages whose texts say whether they are of the document (KEEP) or boilerplate of the site (DROP)."""


@pytest.mark.parametrize("page", PAGES)
def test_menus_footers_of_sites_and_notices_about_cookies_are_no_text(page: str) -> None:
    text = " ".join(read(page).text.split())
    marked = [(word, " ".join(words.split())) for word, words in re.findall("(KEEP|DROP) ([^<]+)", page)]
    assert [words for word, words in marked if word == "KEEP" and words not in text] == []
    assert "DROP" not in text


@pytest.mark.parametrize(
    ("head", "date"),
    [
        ('<meta property="article:published_time" content="2024-05-01T00:00:00Z">', MAY.replace(tzinfo=UTC)),
        (
            '<meta name="date" content="2024-05-01"><meta property="article:published_time" content="soon">',
            MAY,
        ),
        ('<meta name="DC.date.issued" content="2024-05-01">', MAY),
        ('<script type="application/ld+json">{"@graph": [{"datePublished": "2024-05-01"}]}</script>', MAY),
        ('<script type="application/ld+json">[{"datePublished": "2024-05-01"}]</script>', MAY),
        ('<script type="application/ld+json">{not json</script><time datetime="2024-05-01">', MAY),
        ('<time datetime="2024-05-01">1 May</time>', MAY),
        ('<time datetime="2024-05-01">1 May</time><time datetime="2023-05-01">1 May</time>', None),
        ('<time pubdate datetime="2024-05-01">1 May</time><time datetime="2023-05-01">1 May</time>', MAY),
        ('<meta property="article:modified_time" content="2024-05-01">', None),
    ],
)
def test_the_date_that_a_page_states_for_programs_is_its_date(head: str, date: datetime | None) -> None:
    assert read(f"{head}<p>Text").published_at == date


def test_a_change_is_the_date_of_a_page_without_another() -> None:
    change = '<meta property="article:modified_time" content="2024-05-01">'
    assert read(f"{change}<p>Text").change.moment == MAY
    assert read(f"{change}<meta name='date' content='2023-01-01'><p>Text").change.moment is None


def test_keywords_are_tags_and_the_title_is_that_without_the_site() -> None:
    document = read(
        '<title>Tea | Wiki</title><meta property="og:title" content="Tea"><meta name="keywords" content="a, b">'
        '<meta property="article:tag" content="c"><meta property="article:tag" content="a">'
        '<script type="application/ld+json">{"keywords": ["d", "\\ud800", 1]}</script><p>Text'
    )
    assert (document.title, document.tags) == ("Tea", ("a", "b", "d", "c"))
    assert read("<h1>Tea</h1><p>Text").title == "Tea"
    assert read("<p>Text").title is None


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ('<meta charset="windows-1251"><p>Чай с мятой'.encode("cp1251"), "cp1251"),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1"><p>“Tee”'.encode(
                "cp1252"
            ),
            "cp1252",
        ),
        (
            '<?xml version="1.0" encoding="shift_jis"?><html xmlns="x"><p>お茶'.encode("shift_jis"),
            "shift_jis",
        ),
        ("<meta charset=latin-1><p>Чай".encode(), "utf-8"),
        ("<p>Чай".encode("utf-16"), "utf-16"),
        ("<meta charset=utf-8><p>Grüße aus der Küche".encode("cp1252"), "cp1252"),
    ],
)
def test_the_encoding_is_the_stated_one_unless_the_bytes_say_otherwise(content: bytes, encoding: str) -> None:
    assert find_html_encoding(content) == encoding
    assert read(content).text == content.decode(encoding).rpartition("<p>")[2].lstrip("\ufeff")


def test_elements_of_xhtml_that_are_closed_by_their_first_tag_hide_nothing() -> None:
    head = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a"/></head>'
    assert read(f'{head}<body><p>A<br/>b</p><a id="c"/><p>D</p></body></html>').text == "A  \nb\n\nD"


def test_links_within_a_page_are_text_so_that_headings_are() -> None:
    html = (
        '<h2 id="b"><a class="header" href="#b">A <code>b</code></a><a class="headerlink" href="#b">¶</a></h2>'
        '<p><a href="#c">c</a> <a href="d.html#e">d</a></p>'
    )
    assert read(html).text == "## A `b`\n\nc [d](d.html#e)"


def test_entities_that_a_page_defines_are_not_replaced() -> None:
    attack = (
        '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a SYSTEM "file:///etc/passwd">]><html><body><p>&a;</p>'
    )
    assert read(attack).text == "&a;"


def test_a_page_of_scripts_is_empty_and_a_bottomless_one_refused() -> None:
    with raises(ReadError, "empty_document"):
        read("<title>App</title><div id=root></div><script>run()</script>")
    with raises(ReadError, "nested_too_deeply"):
        read("<b>" * 5000 + "Text")
    assert "were not read" in str(read("<p>Text</p>" + "<b>" * 5000 + "Deep").unread)


@given(
    st.lists(
        st.sampled_from(
            ["<p>", "</p>", "<table>", "<td>", "<ul>", "<li>", "<!--", "-->", "<a href='", "&#xD800;", "<title>", "é"]
        )
    )
)  # fmt: skip
def test_equal_bytes_give_an_equal_document(parts: list[str]) -> None:
    html = "<p>Text</p>" + "".join(parts)
    document = read(html)
    assert document == read(html)
    assert document.text.encode()
    assert "Text" in document.text


def test_a_broken_declaration_costs_only_what_is_stated_behind_it() -> None:
    meta = '<meta name="date" content="2024-05-01">'
    page = read(f"<html><head><title>Tea</title></head><body><![foo[bar]]><p>Text</p>{meta}</body></html>")
    assert (page.text, page.title, page.published_at) == ("Text", "Tea", None)
    assert page.unread is not None
    assert "a broken declaration (`<![`)" in page.unread


@pytest.mark.parametrize(
    "marked",
    [
        '<body class="didomi-popup-open"><p>Peas.</p></body>',
        '<body class="cmplz-functional onetrust-pc-open gdpr-enabled"><p>Peas.</p></body>',
        '<article class="post tag-gdpr-compliance category-cookie-bars"><p>Peas.</p></article>',
        '<section id="gdpr-explained"><p>Peas.</p></section>',
        '<div class="trusted-partners" id="trustees"><p>Peas.</p></div>',
    ],
)
def test_a_page_that_a_part_of_such_a_name_marks_is_text(marked: str) -> None:
    assert read(marked).text.strip() == "Peas."


def test_exponents_do_not_join_the_number_before_them() -> None:
    page = "<p>3<sup>8</sup> seeds, 2<sup>k+1</sup> rows, 5 m<sup>-2</sup>, the 1<sup>st</sup> of H<sub>2</sub>O</p>"
    assert read(page).text == "3⁸ seeds, 2^(k+1) rows, 5 m⁻², the 1st of H2O"
