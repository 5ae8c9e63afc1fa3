"""What a question says of the documents that it asks for."""

from datetime import date

import pytest

from backstory.writing.answers.catalog import find_relative_time, read_catalog_query, select_documents
from backstory.writing.answers.routing import route_question
from tests.writing.answers.passages import make_entry

DOCUMENTS = [
    make_entry("a", "notes/roof.pdf", "Roof quotes", "letter", ("roof",), date(2023, 12, 3), 2),
    make_entry("b", "notes/bread.md", "Bread", "post", ("baking",), date(2024, 2, 18)),
    make_entry("c", "invoices/miller.pdf", "Invoice of Miller", "post", (), date(2024, 7, 1), 25),
    make_entry("d", "undated.md", "Undated", "post", (), None),
]


def select(question: str, today: date = date(2024, 3, 1)) -> list[str]:
    query = read_catalog_query(question, DOCUMENTS, "english", today)
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


@pytest.mark.parametrize(
    "question",
    [
        "which posts are there of 2024?",
        "welche Beiträge gibt es von 2024?",
        "quels articles y a-t-il de 2024 ?",
        "¿qué artículos hay de 2024?",
        "quali articoli ci sono del 2024?",
        "quais artigos há de 2024?",
        "какие записи есть за 2024 год?",
        "2024 yılının bütün yazıları hangileri?",
    ],
)
def test_posts_of_a_year_are_asked_for_in_each_language(question: str) -> None:
    query = read_catalog_query(question, DOCUMENTS, "english", date(2025, 3, 1))
    assert query is not None
    assert (query.kinds, query.topic) == (("post",), ())
    assert select(question) == ["b", "c"]


@pytest.mark.parametrize(
    ("question", "pages"),
    [
        ("PDFs of more than 20 pages", (21, None)),
        ("short documents of at most two pages", (None, 2)),
        ("documents longer than 20 pages", (21, None)),
        ("documents with 10 or more pages", (10, None)),
        ("PDFs with 20+ pages", (20, None)),
        ("list all two-page documents", (2, 2)),
        ("documents between 5 and 10 pages", (5, 10)),
        ("documents of more than a page", (2, None)),
        ("PDFs with more than 2000 pages", (2001, None)),
        ("how many documents have fewer than 3 pages?", (None, 2)),
        ("welche PDFs haben mehr als 20 Seiten?", (21, None)),
        ("alle kurzen Dokumente mit höchstens zwei Seiten", (None, 2)),
        ("20-seitige Dokumente", (20, 20)),
        ("quels PDF ont plus de 20 pages ?", (21, None)),
        ("les documents courts de deux pages au plus", (None, 2)),
        ("¿qué PDF tienen más de 20 páginas?", (21, None)),
        ("todos los documentos cortos de hasta dos páginas", (None, 2)),
        ("quali PDF hanno più di 20 pagine?", (21, None)),
        ("tutti i documenti di al massimo due pagine", (None, 2)),
        ("quais PDFs têm mais de 20 páginas?", (21, None)),
        ("todos os documentos de no máximo duas páginas", (None, 2)),
        ("какие PDF длиннее 20 страниц?", (21, None)),
        ("все документы не более двух страниц", (None, 2)),
        ("20 sayfadan uzun PDF'ler hangileri?", (21, None)),
        ("en fazla iki sayfalık belgeleri listele", (None, 2)),
    ],
)
def test_pages_are_understood_in_each_language(question: str, pages: tuple[int | None, int | None]) -> None:
    assert route_question(question).kind == "list"
    query = read_catalog_query(question, DOCUMENTS, "english", date(2024, 3, 1))
    assert query is not None
    assert (query.pages, query.topic, query.is_dated) == (pages, (), False)


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("documents of more than 2 pages", ["c"]),
        ("documents of at least 2 pages", ["a", "c"]),
        ("documents of less than 25 pages", ["a"]),
        ("documents of at most 25 pages", ["a", "c"]),
        ("documents of 25 pages", ["c"]),
        ("PDFs of 2023 with 1 to 3 pages", ["a"]),
        ("the newest PDF of at least two pages", ["c", "a"]),
    ],
)
def test_documents_without_pages_have_no_number_of_them(question: str, ids: list[str]) -> None:
    assert select(question) == ids


@pytest.mark.parametrize(
    "question",
    [
        "which documents mention the night train?",
        "welche Dokumente erwähnen night train?",
        "quels documents parlent de night train ?",
        "qué documentos hablan de night train?",
        "quali documenti parlano di night train?",
        "quais documentos falam de night train?",
        "какие документы рассказывают про night train?",
        "night train ile ilgili belgeleri listele",
    ],
)
def test_words_of_a_topic_are_found_in_title_or_tags_and_demand_no_tag(question: str) -> None:
    documents = [
        make_entry("1", "vienna.md", "By night train", "post", ("trains",), None),
        make_entry("2", "stars.md", "Stars", "post", ("night",), None),
        make_entry("3", "lisbon.md", "Lisbon", "post", ("night", "trains"), None),
    ]
    query = read_catalog_query(question, documents, "english", date(2024, 3, 1))
    assert query is not None
    assert (query.tags, query.topic) == ((), ("night", "train"))
    assert [each.document_id for each in select_documents(query, documents, set(), "english")] == ["3", "1"]


@pytest.mark.parametrize("question", ["documents that mention a page boy", "documents about 404 pages"])
def test_pages_that_are_a_topic_bound_no_length(question: str) -> None:
    query = read_catalog_query(question, DOCUMENTS, "english", date(2024, 3, 1))
    assert query is not None
    assert (query.pages, len(query.topic)) == (None, 2)


@pytest.mark.parametrize(
    ("question", "today", "ids"),
    [
        ("list all documents from last year", date(2024, 3, 1), ["a"]),
        ("list all documents from last year", date(2025, 1, 1), ["b", "c"]),
        ("which documents are from last month", date(2024, 3, 31), ["b"]),
        ("which documents are from last month", date(2024, 1, 1), ["a"]),
        ("posts since last year", date(2025, 5, 5), ["b", "c"]),
        ("documents before this year", date(2024, 3, 1), ["a"]),
        ("posts of this month", date(2024, 7, 31), ["c"]),
        ("documents from last week", date(2024, 2, 26), []),
        ("documents from last week", date(2024, 2, 25), ["b"]),
        ("list the documents of yesterday", date(2024, 7, 2), ["c"]),
    ],
)
def test_times_by_the_present_day_are_understood(question: str, today: date, ids: list[str]) -> None:
    assert select(question, today) == ids


@pytest.mark.parametrize(
    "question",
    [
        "alle Dokumente vom letzten Jahr",
        "tous les documents de l'année dernière",
        "todos los documentos del año pasado",
        "tutti i documenti dell'anno scorso",
        "todos os documentos do ano passado",
        "все документы за прошлый год",
        "geçen yıl hangi pdf var",
    ],
)
def test_last_year_is_understood_in_each_language(question: str) -> None:
    query = read_catalog_query(question, DOCUMENTS, "english", date(2024, 3, 1))
    assert query is not None
    assert (query.first, query.last) == (date(2023, 1, 1), date(2023, 12, 31))


def test_only_times_by_the_present_day_are_named_as_such() -> None:
    assert find_relative_time("what did we bake Last Year, and why") == "last year"
    assert find_relative_time("was the last loaf of the year good") is None


def test_a_list_of_what_documents_tell_is_none_of_documents() -> None:
    assert (
        read_catalog_query("list all suspects for a creaking bike", DOCUMENTS, "english", date(2024, 3, 1))
        is None
    )


def test_the_number_and_the_order_are_understood() -> None:
    query = read_catalog_query("show me the two oldest documents", DOCUMENTS, "english", date(2024, 3, 1))
    assert query is not None
    assert (query.most, query.newest_first) == (2, False)


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("list all articles", ["e"]),
        ("which posts do we have?", ["b", "c", "d"]),
        ("alle Beiträge", ["b", "c", "d"]),
    ],
)
def test_a_word_for_posts_that_is_the_name_of_another_kind_names_that_kind_alone(
    question: str, ids: list[str]
) -> None:
    documents = [*DOCUMENTS, make_entry("e", "notes/press.md", "Press", "article", (), date(2024, 3, 1))]
    query = read_catalog_query(question, documents, "english", date(2024, 3, 2))
    assert query is not None
    assert sorted(each.document_id for each in select_documents(query, documents, set(), "english")) == ids
