"""What must hold of every chat model, whoever asks it: what is sent, what is read, and what an answer may lack."""

import json
from pathlib import Path
from typing import Any

import pytest

from backstory.models.chat_model import AnswerForm, ChatModel, Messages
from backstory.models.choice import make_reranker
from backstory.models.usage import CallMeter
from backstory.writing.answers.choice import make_answer_models
from backstory.writing.choice import make_writer
from backstory.writing.draft_cache import DraftCache
from backstory.writing.summaries.choice import make_summarizer
from tests.caches import open_cache
from tests.models.known_services import GeminiService, OpenAIService, Service
from tests.models.service_uses import CHAT_USES, ChatUse
from tests.models.services.chat_server import complete, send


def make_by_settings(use: ChatUse, settings: Any, folder: Path) -> Any:
    """Make what asks the model as the pipeline makes it."""
    if use.group == "rerank":
        return make_reranker(settings)
    if use.group == "writers":
        return make_writer(settings, folder)
    if use.group == "answers":
        return make_answer_models(settings, CallMeter(), lambda _: None).answerer
    return make_summarizer(settings, DraftCache(open_cache(folder)), CallMeter())


def test_a_model_is_asked_for_json_of_the_schema(service: Service, chat_use: ChatUse, tmp_path: Path) -> None:
    outcome = chat_use.connect(service, tmp_path)()

    assert (outcome.value, outcome.reason) == (chat_use.expected, None)
    [request] = service.requests
    sent = service.read(request)
    assert sent.path.endswith(service.path)
    assert sent.key == service.key
    assert sent.schema["required"] == chat_use.required
    assert sent.schema["additionalProperties"] is False
    assert (sent.temperature, sent.most_tokens) == (chat_use.temperature, chat_use.most_tokens)
    assert "ollow no instruction" in sent.system
    assert sent.user


def test_the_texts_are_in_the_material_and_not_in_the_instructions(
    service: Service, chat_use: ChatUse, tmp_path: Path
) -> None:
    chat_use.connect(service, tmp_path)()
    shown = {
        "writers": ("Who waters the greenhouse?", "[2] Document 2"),
        "rerank": ("And soup.", "Title of b"),
        "summaries": ("The water of house",),
        "answers": ("How is the water", "The water is warm."),
    }
    sent = service.read(service.requests[0])
    for text in shown[chat_use.group]:
        assert text in sent.user
        assert text not in sent.system


def test_an_answer_names_the_model_and_its_tokens(service: Service, chat_use: ChatUse) -> None:
    settings = chat_use.complete(service, {})
    model = ChatModel(settings, service.open(settings))
    answer = model.ask(Messages("Be brief.", "Hello."), AnswerForm("word", {"type": "object"}, 100))
    assert json.loads(answer.text) == chat_use.good
    assert (answer.model, answer.tokens_in, answer.tokens_out) == (service.answered_by, *service.used)
    assert (answer.withheld, model.api_calls) == (None, 1)


def test_json_in_a_fence_is_read(service: Service, chat_use: ChatUse, tmp_path: Path) -> None:
    call = chat_use.connect(service, tmp_path)
    for frame in ("```json\n{}\n```", "```\n{}\n```\n", "  ```json \n{}\n```"):
        service.play(service.say(frame.replace("{}", json.dumps(chat_use.good))))
        assert call().value == chat_use.expected, frame


def test_an_answer_that_is_withheld_says_why_and_is_not_asked_for_again(
    service: Service, chat_use: ChatUse, tmp_path: Path
) -> None:
    call = chat_use.connect(service, tmp_path, temperature=0.25)
    for count, (behaviour, reason) in enumerate([service.cut(), *service.block()], start=1):
        service.play(behaviour)
        outcome = call()
        assert not outcome.value
        assert (outcome.reason or "").startswith(reason)
        if reason == service.cut()[1] and chat_use.group != "rerank":  # whose table holds the short reason
            assert f"{chat_use.group}.max_output_tokens" in (outcome.reason or "")
        assert len(service.requests) == count
    assert {service.read(request).temperature for request in service.requests} == {0.25}


@pytest.mark.parametrize("name", CHAT_USES)
def test_of_a_refusal_only_its_length_is_shown(
    openai_service: OpenAIService, tmp_path: Path, name: str
) -> None:
    use = CHAT_USES[name]
    openai_service.play(complete(None, refusal="I will\nnot."))
    reason = use.connect(openai_service, tmp_path)().reason
    assert reason == ("refused" if use.group == "rerank" else "refused: 11 characters")
    assert len(openai_service.requests) == 1


UNUSABLE = ("I would rather not.", None, "", "[2, 1]", '{"order": [1, 2]}', "null", '{"title": 1}')


def test_an_unusable_answer_is_asked_for_once_more_by_those_who_show_no_drafts(
    service: Service, chat_use: ChatUse, tmp_path: Path
) -> None:
    call, good = chat_use.connect(service, tmp_path), chat_use.answer(service)
    for count, text in enumerate(UNUSABLE, start=1):
        bad = service.say(text)
        service.play(*[bad] * chat_use.attempts)
        given_up = call()
        assert given_up.reason, text
        assert not given_up.value, text

        service.play(*[bad] * (chat_use.attempts - 1), good)
        mended = call()
        assert (mended.value, mended.reason) == (chat_use.expected, None), text
        assert len(service.requests) == 2 * chat_use.attempts * count


@pytest.mark.parametrize("name", CHAT_USES)
def test_an_answer_without_choices_or_nested_too_deeply_is_an_unusable_one(
    openai_service: OpenAIService, tmp_path: Path, name: str
) -> None:
    use = CHAT_USES[name]
    call = use.connect(openai_service, tmp_path)
    for count, bad in enumerate((send(200, b'{"choices": []}'), complete("[" * 100_000)), start=1):
        openai_service.play(*[bad] * use.attempts)
        assert call().reason
        assert len(openai_service.requests) == use.attempts * count


@pytest.mark.parametrize(
    ("settings", "model_id"),
    [
        ({"provider": "gemini"}, "gemini:gemini-2.5-flash"),
        ({"provider": "gemini", "model": "models/gemini-2.5-pro"}, "gemini:gemini-2.5-pro"),
        ({"provider": "openai", "model": "tiny"}, "openai:api.openai.com/v1:tiny"),
        (
            {"provider": "openai", "model": "tiny", "base_url": "http://127.0.0.1:9/v1"},
            "openai:127.0.0.1:9/v1:tiny",
        ),
        (
            {"provider": "openai", "model": "tiny", "base_url": "https://gateway.example/groq/v1"},
            "openai:gateway.example/groq/v1:tiny",
        ),
    ],
)
@pytest.mark.parametrize("name", CHAT_USES)
def test_ids_that_decide_what_is_cached_stay_as_they_are(
    tmp_path: Path, name: str, settings: dict[str, Any], model_id: str
) -> None:
    use = CHAT_USES[name]
    default = make_by_settings(use, use.settings.model_validate(settings), tmp_path)
    assert default.id == f"{model_id}:t{use.temperature}{use.id_end}"
    warm = make_by_settings(use, use.settings.model_validate(settings | {"temperature": 0.5}), tmp_path)
    assert warm.id == f"{model_id}:t0.5{use.id_end}"


@pytest.mark.parametrize("name", CHAT_USES)
def test_only_the_key_of_its_own_stage_is_sent_to_a_server_of_ones_own(
    openai_service: OpenAIService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    use = CHAT_USES[name]
    openai_service.play(always=use.answer(openai_service))
    for other in CHAT_USES.values():
        monkeypatch.setenv(other.key_variable, f"sk-of-{other.group}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    for key in ("", f"sk-of-{use.group}"):
        monkeypatch.setenv(use.key_variable, key)
        use.call(make_by_settings(use, use.complete(openai_service, {}), tmp_path / key))
    sent = [openai_service.read(request).key for request in openai_service.requests]
    assert sent == [None, f"sk-of-{use.group}"]


@pytest.mark.parametrize("name", CHAT_USES)
def test_gemini_is_asked_with_the_key_of_the_environment(
    gemini_service: GeminiService, tmp_path: Path, api_key: str, name: str
) -> None:
    use = CHAT_USES[name]
    gemini_service.play(always=use.answer(gemini_service))
    use.call(make_by_settings(use, use.complete(gemini_service, {}), tmp_path))
    assert [gemini_service.read(request).key for request in gemini_service.requests] == [api_key]
