"""What an answer says around its statements: in the language of the question, and in English without forms."""

from __future__ import annotations

import json
import string
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backstory.writing.answers import forms as module
from backstory.writing.answers.answer import MadeAnswer, Part, Route
from backstory.writing.answers.answering import AnsweredQuestion
from backstory.writing.answers.catalog import CatalogQuery
from backstory.writing.answers.forms import choose_forms
from backstory.writing.answers.markdown import write_markdown
from tests.writing.answers.passages import make_entry

FORMS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(module.__file__).with_name("forms.toml").read_text(encoding="utf-8")
)
DATA = Path(__file__).parents[2] / "data" / "answers"
QUESTIONS = {
    "en": "what did the new gate cost?",
    "de": "was hat das neue Tor gekostet?",
    "fr": "combien a coûté le nouveau portail ?",
    "es": "¿cuánto costó la puerta nueva?",
    "it": "quanto è costato il nuovo cancello?",
    "pt": "quanto custou o novo portão?",
    "ru": "сколько стоили новые ворота?",
    "tr": "yeni kapı ne kadara mal oldu?",
}


def list_fields(text: str | list[str]) -> list[set[str]]:
    texts = [text] if isinstance(text, str) else text
    return [{name for _, name, _, _ in string.Formatter().parse(one) if name} for one in texts]


@pytest.mark.parametrize("language", QUESTIONS)
def test_every_language_has_every_form_with_what_it_puts_in(language: str) -> None:
    wanted = {name: list_fields(text) for name, text in FORMS["en"].items()}
    assert {name: list_fields(text) for name, text in FORMS[language].items()} == wanted


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_refusal_and_a_list_speak_the_language_of_the_question(language: str) -> None:
    forms = choose_forms(QUESTIONS[language])
    assert (forms.language, forms.note) == (language, None)
    refused = AnsweredQuestion(route=Route("lookup", ""), made=MadeAnswer((), (), "not_in_documents"))
    assert write_markdown(refused, forms) == FORMS[language]["not_in_documents"]
    gate = make_entry("1", "gate.md", "The gate", "post", (), date(2025, 3, 1))
    listed = AnsweredQuestion(
        route=Route("list", ""), made=MadeAnswer((), ()), query=CatalogQuery(), listed=(gate, gate)
    )
    head = write_markdown(listed, forms).partition("\n")[0]
    assert head == FORMS[language]["listed_all"][1].replace("{count}", "2")
    none = AnsweredQuestion(
        route=Route("list", ""),
        made=MadeAnswer((), (Part("?", is_found=False),), "not_in_documents"),
        query=CatalogQuery(kinds=("post",), last=date(2024, 5, 1), is_dated=True),
        listed=(),
    )
    assert FORMS[language]["until"].replace("{last}", "2024-05-01") in write_markdown(none, forms)


@pytest.mark.parametrize(
    ("question", "named"),
    [("ile kosztował system nawadniania?", "Polish"), ("灌水システムはいくら？", "Japanese")],
)
def test_a_language_without_forms_gets_english_ones_and_is_named(question: str, named: str) -> None:
    forms = choose_forms(question)
    assert forms.language == "en"
    assert named in (forms.note or "")


@pytest.mark.parametrize("question", ["", "??", "👍", "https://example.org/wie-viel"])
def test_what_is_in_no_language_gets_english_forms(question: str) -> None:
    assert (choose_forms(question).language, choose_forms(question).note) == ("en", None)


@pytest.mark.parametrize(("half", "right", "of"), [("tune", 378, 383), ("held", 149, 150)])
def test_the_language_of_the_labelled_questions_is_told(half: str, right: int, of: int) -> None:
    rows = [json.loads(row) for row in (DATA / f"routing_{half}.jsonl").read_text("utf-8").splitlines()]
    told = [choose_forms(row["question"]).language == row["language"] for row in rows]
    assert (sum(told), len(told)) == (right, of)
