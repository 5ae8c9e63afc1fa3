"""The page on documents names what is read, in the order in which it counts."""

from pathlib import Path

from backstory.ingest.documents.metadata import stated_fields

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "document-formats.md"


def test_the_page_lists_the_fields_of_dates_in_their_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Date\n")[2].partition("Fields are found")[0]
    named = (
        *stated_fields.PUBLICATION_FIELDS,
        *stated_fields.DATE_FIELDS,
        *stated_fields.CREATION_FIELDS,
        *stated_fields.UPDATE_FIELDS,
    )
    places = [section.find(f"`{name}`") for name in named]
    assert -1 not in places
    assert places == sorted(places)
