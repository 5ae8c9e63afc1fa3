"""Plain text, reStructuredText, AsciiDoc and Org mode: headings, code and fields."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.texts import ASCIIDOC, ORG_MODE, PLAIN_TEXT, RESTRUCTURED_TEXT
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.chunking.outline import outline_markdown
from tests.errors import raises

READERS = {each.name: each for each in (PLAIN_TEXT, RESTRUCTURED_TEXT, ASCIIDOC, ORG_MODE)}


def read(format_: str, text: str | bytes) -> ParsedDocument:
    content = text.encode() if isinstance(text, str) else text
    document = READERS[format_].read(content, "a")
    assert document is not None
    return document


def headings(document: ParsedDocument) -> list[str]:
    return [*outline_markdown(document.text).headings]


RST = """\
=======
Compost
=======

:date: 2024-05-01
:tags: garden, soil
:Author: Ann

.. _target:

Intro with ``code``.

What to add
===========

Example::

    # not a heading
    rake()

.. code-block:: python
   :linenos:

   # nor this
   dig()

.. A comment
   over two lines

.. note:: Take care

   # nor that

Leaves
------

Dry ones.

What to leave
=============

Meat.
"""

RST_TEXT = """\
# Compost

Intro with ``code``.

## What to add

Example::

```
# not a heading
rake()
```

```python
# nor this
dig()
```

.. note:: Take care

   \\# nor that

### Leaves

Dry ones.

## What to leave

Meat.
"""


def test_headings_code_and_fields_of_restructured_text_are_found() -> None:
    document = read("restructuredtext", RST)
    assert document == ParsedDocument(
        text=RST_TEXT, title="Compost", published_at=datetime(2024, 5, 1), tags=("garden", "soil")
    )
    assert headings(document) == [
        "Compost",
        "Compost > What to add",
        "Compost > What to add > Leaves",
        "Compost > What to leave",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "A line\n====\n\nText",
        "A line\n''''''\n\nText",
        "======\nA line\n======\n\nText",
        "========\n A line\n========\n\nText",
    ],
)
def test_any_adornment_marks_a_heading(text: str) -> None:
    assert headings(read("restructuredtext", text)) == ["A line"]


@pytest.mark.parametrize(
    "text",
    [
        "Text\n\n----\n\nText",
        "More text\nA line\n------\n",
        "===== =====\nA     B\n===== =====\n1     2\n===== =====\n",
        "+---+\n| a |\n+---+\n",
    ],
)
def test_lines_and_tables_are_no_headings(text: str) -> None:
    document = read("restructuredtext", text)
    assert headings(document) == []
    assert document.text == text


def test_fields_as_nikola_writes_them_are_read() -> None:
    nikola = read("restructuredtext", ".. title: Peas\n.. date: 2024-05-01\n.. tags: a, b\n\nText")
    assert (nikola.title, nikola.published_at, nikola.tags) == ("Peas", datetime(2024, 5, 1), ("a", "b"))


def test_a_wrong_date_is_an_error_with_its_line() -> None:
    with raises(ReadError, "invalid_field", "a", 4, "date"):
        read("restructuredtext", "Title\n=====\n\n:date: soon\n\nText")


def test_fields_in_the_middle_of_a_text_are_text() -> None:
    document = read("restructuredtext", "Text\n\n:date: soon\n")
    assert (document.published_at, document.text) == (None, "Text\n\n:date: soon\n")


ADOC = """\
= Compost
Ann Lee
:revdate: 2024-05-01
:keywords: garden, soil

Intro.

== What to add

[source,python]
----
# not a heading
== nor this
----

////
A comment
////

=== Leaves

Dry ones.
"""


def test_headings_code_and_attributes_of_asciidoc_are_found() -> None:
    document = read("asciidoc", ADOC)
    assert headings(document) == ["Compost", "Compost > What to add", "Compost > What to add > Leaves"]
    assert "```python\n# not a heading\n== nor this\n```" in document.text
    assert "A comment" not in document.text
    assert (document.title, document.published_at, document.tags) == (
        "Compost",
        datetime(2024, 5, 1),
        ("garden", "soil"),
    )


ORG = """\
#+TITLE: Compost
#+DATE: <2024-05-01 Wed 10:30>
#+FILETAGS: :garden:soil:

* What to add :kitchen:
:PROPERTIES:
:ID: 1
:END:
# a comment
#+begin_src python
# not a heading
* nor this
#+end_src
** Leaves
Dry ones, *bold*.
"""


def test_headings_code_and_keywords_of_org_are_found() -> None:
    document = read("org", ORG)
    assert document == ParsedDocument(
        text="# What to add\n\n```python\n# not a heading\n* nor this\n```\n\n## Leaves\n\nDry ones, *bold*.\n",
        title="Compost",
        published_at=datetime(2024, 5, 1, 10, 30),
        tags=("garden", "soil"),
    )


def test_plain_text_stays_as_it_is() -> None:
    document = read("text", "Compost\n\n  * leaves\n---\ndate: 2024-05-01\n---\n")
    assert document == ParsedDocument(
        title="Compost", text="Compost\n\n  * leaves\n---\ndate: 2024-05-01\n---\n"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_encoding_and_line_end_is_read(encoding: str, newline: str) -> None:
    text = "Über Äpfel und Öle, für die größere Küche\n\nSüß.\n"
    assert read("text", text.replace("\n", newline).encode(encoding)).text == text


@pytest.mark.parametrize("format_", READERS)
def test_an_empty_file_is_said_to_be_empty(format_: str) -> None:
    with raises(ReadError, "empty_document"):
        read(format_, " \n\n")


@pytest.mark.parametrize("format_", READERS)
@given(
    lines=st.lists(
        st.sampled_from(
            ["", "====", "----", "Title", ":a: b", "..", ".. x", ".. code::", "   in", "x::", "* h", "```", "# z"]
        )
    )
)  # fmt: skip
def test_equal_bytes_give_an_equal_document_whose_code_is_closed(format_: str, lines: list[str]) -> None:
    text = "\n".join([*lines, "", "Last words"])
    document = read(format_, text)
    assert document == read(format_, text)
    assert format_ in ("restructuredtext", "text") or document.text.count("Last words") == 1
    assert "Last words" in document.text


def test_the_first_line_of_a_plain_text_is_its_title_if_it_stands_alone_and_is_no_sentence() -> None:
    titles = {
        "Compost in winter\n\nTurn the heap once a month.": "Compost in winter",
        "\n  Komposthaufen \n\nWenden.": "Komposthaufen",
        "Is it warm?\n\nYes.": "Is it warm?",
        "Turn the heap once a month.\n\nThen wait.": None,
        "Compost in winter\nTurn the heap once a month.": None,
        "Compost in winter\n\n": None,
        "2024-05-01\n\nTurn the heap.": None,
        f"{'Compost ' * 20}\n\nTurn the heap.": None,
        "Dear all,\n\nTurn the heap.": None,
        "# Heap\n\nTurn it.": "Heap",
    }
    assert {text: read("text", text).title for text in titles} == titles
    assert read("text", "Compost in winter\n\nTurn it.").text == "Compost in winter\n\nTurn it."


def test_comments_and_drawers_of_org_are_not_read() -> None:
    written = (
        "Shown.\n#+BEGIN_COMMENT\nhidden block\n#+END_COMMENT\n* TODO COMMENT Plans\nhidden tree\n** Below\nhidden\n"
        "* Beds\n:NOTES:\nhidden drawer\n:END:\nOpen: yes\n:no drawer:\n"
    )
    assert read("org", written).text == "Shown.\n\n# Beds\n\nOpen: yes\n:no drawer:\n"


@pytest.mark.parametrize(
    "written", ["[2024-05-01 Wed]", "<2024-05-01 Wed 10:00-11:00>", "<2024-05-01 Wed +1w>", "2024-05-01"]
)
def test_a_date_of_org_is_read_in_every_form(written: str) -> None:
    assert str(read("org", f"#+DATE: {written}\n\nText.\n").published_at)[:10] == "2024-05-01"


@pytest.mark.parametrize("line", ["v1.2, 2024-05-01", "2024-05-01", "v1, 1 May 2024: first edition"])
def test_the_revision_line_of_asciidoc_is_its_date(line: str) -> None:
    document = read("asciidoc", f"= Compost\nAnn Oak <ann@example.org>\n{line}\n\nText.\n")
    assert str(document.published_at)[:10] == "2024-05-01"
    assert document.text == "# Compost\n\nAnn Oak <ann@example.org>\n\nText.\n"
