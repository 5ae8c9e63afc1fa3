"""The order of day and month."""

from datetime import date

import pytest

from backstory.errors import ExportError, ExportSettingError
from tests.messages.conftest import ReadText


def chat(*dates: str) -> str:
    return "".join(f"{day}, 21:05 - Ann: hello\n" for day in dates)


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (["13/02/24", "14/02/24"], [date(2024, 2, 13), date(2024, 2, 14)]),
        (["02/13/24", "03/04/24"], [date(2024, 2, 13), date(2024, 3, 4)]),
        (["03/04/24", "05/04/24", "13/04/24"], [date(2024, 4, 3), date(2024, 4, 5), date(2024, 4, 13)]),
        (["2024/03/04"], [date(2024, 3, 4)]),
        (["03/04/24", "04/04/24", "01/05/24"], [date(2024, 4, 3), date(2024, 4, 4), date(2024, 5, 1)]),
        (["04/03/24", "04/04/24", "05/01/24"], [date(2024, 4, 3), date(2024, 4, 4), date(2024, 5, 1)]),
        (["01/01/24", "02/02/24"], [date(2024, 1, 1), date(2024, 2, 2)]),
    ],
)
def test_the_whole_file_tells_the_order(read_text: ReadText, dates: list[str], expected: list[date]) -> None:
    messages, quarantine = read_text(chat(*dates))

    assert messages["timestamp"].dt.date().to_list() == expected
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    "dates", [["05/06/24"], ["01/02/24", "03/04/24"], ["03/04/24", "01/02/24"], ["05/06/2024", "05/06/2024"]]
)
def test_ambiguous_file_names_the_setting(read_text: ReadText, dates: list[str]) -> None:
    with pytest.raises(ExportSettingError, match=r"^chat\.txt: .*`conversations\.date_order`") as caught:
        read_text(chat(*dates))

    assert isinstance(caught.value, ExportError)


@pytest.mark.parametrize(("order", "expected"), [("dmy", date(2024, 6, 5)), ("mdy", date(2024, 5, 6))])
def test_setting_decides_an_ambiguous_file(read_text: ReadText, order: str, expected: date) -> None:
    messages, _ = read_text(chat("05/06/24"), date_order=order)

    assert messages["timestamp"].dt.date().to_list() == [expected]


def test_setting_reads_short_years_written_first(read_text: ReadText) -> None:
    messages, _ = read_text(chat("24/05/06"), date_order="ymd")

    assert messages["timestamp"].dt.date().to_list() == [date(2024, 5, 6)]


@pytest.mark.parametrize("order", ["dmy", "mdy"])
def test_setting_leaves_years_written_first_where_they_are(read_text: ReadText, order: str) -> None:
    messages, _ = read_text(chat("2024-05-06"), date_order=order)

    assert messages["timestamp"].dt.date().to_list() == [date(2024, 5, 6)]


def test_setting_for_years_written_first_leaves_other_files_to_themselves(read_text: ReadText) -> None:
    messages, _ = read_text(chat("13/02/2024"), date_order="ymd")

    assert messages["timestamp"].dt.date().to_list() == [date(2024, 2, 13)]


def test_one_line_in_another_order_is_quarantined(read_text: ReadText) -> None:
    messages, quarantine = read_text(chat("13/02/24", "14/02/24", "02/15/24", "16/02/24"))

    assert messages["timestamp"].dt.day().to_list() == [13, 14, 16]
    assert quarantine["line"].to_list() == [3]


def test_setting_that_contradicts_the_file_is_an_error(read_text: ReadText) -> None:
    with pytest.raises(
        ExportSettingError, match=r"2 of 3 dates are impossible with `conversations\.date_order` dmy"
    ):
        read_text(chat("02/13/24", "02/14/24", "03/01/24"), date_order="dmy")
