"""What a question says of the documents that it asks for."""

from datetime import date

import pytest

from backstory.writing.answers.catalog import Listed, read_catalog_query, select_documents

DOCUMENTS = [
    Listed("a", "notes/roof.pdf", "Roof quotes", "letter", ("roof",), date(2023, 12, 3)),
    Listed("b", "notes/bread.md", "Bread", "post", ("baking",), date(2024, 2, 18)),
    Listed("c", "invoices/miller.pdf", "Invoice of Miller", "post", (), date(2024, 7, 1)),
    Listed("d", "undated.md", "Undated", "post", (), None),
]


def select(question: str) -> list[str]:
    query = read_catalog_query(question, DOCUMENTS, "english")
    assert query is not None
    return [each.document_id for each in select_documents(query, DOCUMENTS, set(), "english")]


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("list all documents", ["a", "b", "c", "d"]),
        ("which PDFs do we have", ["a", "c"]),
        ("list all invoices of 2024", ["c"]),
        ("documents from december 2023 to february 2024", ["a", "b"]),
        ("all posts before 2024", []),
        ("documents since 2024", ["b", "c"]),
        ("what is in the folder notes", ["a", "b"]),
        ("posts tagged baking", ["b"]),
        ("alle Dokumente aus 2023", ["a"]),
        ("перечисли все документы за июль 2024", ["c"]),
        ("posts tagged wood", []),
        ("documents of 2023-12", ["a"]),
        ("documents of 18 february 2024", ["b"]),
        ("documents before the 18th of february 2024", ["a"]),
        ("alle Dokumente seit 18. Februar 2024", ["b", "c"]),
        ("posts of 2024-02-18", ["b"]),
        ("documents before 2024-02-18", ["a"]),
        ("documents older than 2024-02-18", ["a"]),
        ("documents since 2024-02-18", ["b", "c"]),
        ("documents after 2024-02", ["c"]),
        ("documents between 2023-12-01 and 2024-02-28", ["a", "b"]),
        ("documents between 2023-12-01 and february 2024", ["a", "b"]),
    ],
)
def test_times_kinds_folders_and_tags_are_understood(question: str, ids: list[str]) -> None:
    assert select(question) == ids


def test_a_list_of_what_documents_tell_is_none_of_documents() -> None:
    assert read_catalog_query("list all suspects for a creaking bike", DOCUMENTS, "english") is None


def test_the_number_and_the_order_are_understood() -> None:
    query = read_catalog_query("show me the two oldest documents", DOCUMENTS, "english")
    assert query is not None
    assert (query.most, query.newest_first) == (2, False)
