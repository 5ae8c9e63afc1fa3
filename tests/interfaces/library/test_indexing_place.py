"""The place of an indexing, which its announcements move."""

from backstory.base.progress import STEP_OF_TABLES
from backstory.interfaces.library.indexing import IndexingPlace


def test_a_place_never_goes_back_and_ends_at_the_whole() -> None:
    place = IndexingPlace()
    shares = []
    for label, done, total in [
        (STEP_OF_TABLES, 0, 3),
        ("fetching files", 0, 2),
        ("fetching files", 1, 2),
        ("reading documents", 0, 4),
        ("reading documents", 3, 4),
        ("documents", 1, 1),
        (STEP_OF_TABLES, 1, 3),
        (STEP_OF_TABLES, 2, 3),
        ("embedding documents", 0, 0),
        (STEP_OF_TABLES, 3, 3),
    ]:
        place.move(label, done, total)
        shares.append(place.share)
    assert shares == sorted(shares)
    assert shares[2] < shares[4] < shares[6] < shares[8] < shares[9] == 1


def test_a_step_that_begins_within_a_table_is_no_further_place() -> None:
    place = IndexingPlace()
    assert place.move("reading documents", 3, 4)
    assert not place.move("documents", 0, 1)
    assert place.move("documents", 1, 1)
