"""Batch jobs: nothing is paid for twice, whatever is killed or lost, and the vectors are those of normal calls."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backstory.base.database_files import name_aside
from backstory.base.errors import BatchesPendingError, CacheFileError, EmbeddingError, EmbeddingInputError
from backstory.models.embeddings.batch_job_store import BatchJobStore
from backstory.models.embeddings.batch_jobs import MAX_JOBS_PER_TEXT, EmbeddingJobs
from backstory.models.embeddings.cache import EmbeddingCache, embedding_key
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.gemini import GeminiEmbedder
from backstory.models.embeddings.gemini_jobs import GeminiJobs
from tests.errors import raises
from tests.models.services.gemini_server import Answer, GeminiServer, fail
from tests.postgres import ON_FILES

pytestmark = pytest.mark.usefixtures("either_storage")
TEXTS = [f"message {number}" for number in range(6)]
ERROR = Answer(500, b'{"error": {"code": 500, "message": "broken", "status": "INTERNAL"}}')

Open = Callable[..., EmbeddingJobs]


@pytest.fixture
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(tmp_path / "embeddings.sqlite")


@pytest.fixture
def open_jobs(connect: Callable[..., GeminiEmbedder], cache: EmbeddingCache, tmp_path: Path) -> Open:
    """Open the jobs of a workspace, as each process does."""

    def make(
        *, submits: bool = True, min_texts: int = 1, max_texts: int = 2000, **settings: Any
    ) -> EmbeddingJobs:
        service = GeminiJobs(connect(**settings))
        return EmbeddingJobs(
            service,
            BatchJobStore(tmp_path / "jobs.sqlite"),
            cache,
            submits=submits,
            min_texts=min_texts,
            max_texts=max_texts,
        )

    return make


def require_nothing_computed(
    cache: EmbeddingCache, embedder: GeminiEmbedder, texts: list[str] = TEXTS
) -> Any:
    found = embed_texts(embedder, texts, task="document", cache=cache)
    assert found.stats.computed == 0
    return found.vectors


def test_the_vectors_of_jobs_are_those_of_normal_calls(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, connect: Callable[..., GeminiEmbedder]
) -> None:
    with raises(BatchesPendingError, jobs=1, texts=len(TEXTS)):
        open_jobs().require([*TEXTS, TEXTS[0]], "document")
    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")
    [job] = server.jobs.all
    assert job.texts == TEXTS
    assert {entry["taskType"] for entry in job.entries} == {"RETRIEVAL_DOCUMENT"}
    assert {entry["outputDimensionality"] for entry in job.entries} == {16}

    server.jobs.finish()
    open_jobs().require(TEXTS, "document")

    embedder = connect()
    vectors = require_nothing_computed(cache, embedder)
    assert server.requests == []
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS, task="document"))
    assert open_jobs().book.list_jobs() == []


def test_only_what_is_missing_and_not_ordered_is_submitted(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, connect: Callable[..., GeminiEmbedder]
) -> None:
    embed_texts(connect(), TEXTS[:2], task="document", cache=cache)
    open_jobs().order(TEXTS[:4], "document")
    open_jobs().order(TEXTS, "document")
    open_jobs().order(TEXTS[:1], "query")

    assert [job.texts for job in server.jobs.all] == [TEXTS[2:4], TEXTS[4:], TEXTS[:1]]


def test_few_texts_are_left_to_normal_calls(server: GeminiServer, open_jobs: Open) -> None:
    open_jobs(min_texts=len(TEXTS) + 1).require(TEXTS, "document")

    assert server.jobs.all == []


def test_many_texts_are_several_jobs(server: GeminiServer, open_jobs: Open) -> None:
    texts = [f"message {number}" for number in range(5)]

    with raises(BatchesPendingError, jobs=2, texts=5):
        open_jobs(max_texts=4).require(texts, "query")

    assert [len(job.texts) for job in server.jobs.all] == [4, 1]


@pytest.mark.parametrize(
    "lost", [lambda _: None, lambda _: ERROR], ids=["connection dropped", "error after all"]
)
def test_a_submission_whose_answer_is_lost_is_found_and_not_repeated(
    server: GeminiServer, open_jobs: Open, lost: Any
) -> None:
    server.batch_script.append(lost)

    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")

    assert len(server.jobs.all) == 1
    [job] = open_jobs().book.list_jobs()
    assert job.name == server.jobs.all[0].name


def test_a_job_of_a_run_that_was_killed_before_it_knew_its_name_is_adopted(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, connect: Callable[..., GeminiEmbedder]
) -> None:
    server.batch_script.append(drop_answer)
    with pytest.raises(EmbeddingError):
        open_jobs(max_attempts=1).require(TEXTS, "document")
    assert [job.name for job in open_jobs().book.list_jobs()] == [None]
    server.jobs.finish()

    open_jobs().require(TEXTS, "document")

    require_nothing_computed(cache, connect())
    assert len(server.jobs.all) == 1


def drop_answer(_: Answer) -> Answer | None:
    return None


def test_a_job_that_the_service_never_received_is_submitted_again(
    server: GeminiServer, open_jobs: Open
) -> None:
    server.batch_script.append(drop_answer)
    with pytest.raises(EmbeddingError):
        open_jobs(max_attempts=1).require(TEXTS, "document")
    server.jobs.all.clear()

    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")

    assert [job.texts for job in server.jobs.all] == [TEXTS]


def test_a_kill_between_storing_and_closing_stores_the_same_again(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = open_jobs()
    jobs.order(TEXTS, "document")
    server.jobs.finish()
    monkeypatch.setattr(jobs.book, "close", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jobs.collect()
    assert sum(cache.count_by_embedder().values()) == len(TEXTS)

    assert open_jobs().collect() == 0

    assert sum(cache.count_by_embedder().values()) == len(TEXTS)
    assert open_jobs().book.list_jobs() == []


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_text_with_an_error_is_retried_alone_and_named_after_the_last_attempt(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache
) -> None:
    for _ in range(MAX_JOBS_PER_TEXT):
        with pytest.raises(BatchesPendingError):
            open_jobs().require(TEXTS, "document")
        server.jobs.finish(errors={TEXTS[3]: "the text is cursed"})

    with raises(EmbeddingError, "spent_texts", texts=1, of=1, attempts=3):
        open_jobs().require(TEXTS, "document")

    assert [job.texts for job in server.jobs.all] == [TEXTS, [TEXTS[3]], [TEXTS[3]]]
    assert sum(cache.count_by_embedder().values()) == len(TEXTS) - 1


def test_a_text_that_failed_in_a_job_is_embedded_by_a_normal_call_where_few_are_missing(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, connect: Callable[..., GeminiEmbedder]
) -> None:
    open_jobs(min_texts=2).order(TEXTS, "document")
    server.jobs.finish(errors={TEXTS[3]: "try later"})
    open_jobs(min_texts=2).require(TEXTS, "document")

    embed_texts(connect(), TEXTS, task="document", cache=cache)

    assert [request.texts for request in server.requests] == [[TEXTS[3]]]


@pytest.mark.parametrize("state", ["EXPIRED", "FAILED", "CANCELLED"])
def test_a_job_that_ends_without_vectors_is_submitted_again_up_to_a_limit(
    server: GeminiServer, open_jobs: Open, state: str
) -> None:
    for _ in range(MAX_JOBS_PER_TEXT):
        open_jobs().order(TEXTS, "document")
        server.jobs.end(f"BATCH_STATE_{state}")
    assert [job.texts for job in server.jobs.all] == [TEXTS] * MAX_JOBS_PER_TEXT

    with raises(EmbeddingError, "spent_texts", texts=6, of=6):
        open_jobs().require(TEXTS, "document")
    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")


def test_a_job_that_the_service_no_longer_knows_is_submitted_again(
    server: GeminiServer, open_jobs: Open
) -> None:
    open_jobs().order(TEXTS, "document")
    server.jobs.all.clear()
    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")

    assert [job.texts for job in server.jobs.all] == [TEXTS]


@pytest.mark.parametrize(
    "results",
    [
        [],
        [{"error": {"code": 3, "message": "no"}}] * len(TEXTS),
        [{"response": {"embedding": {"values": [0.0] * 16}}}] * 6,
    ],
    ids=["none", "only errors", "zero vectors"],
)
def test_unusable_results_are_never_stored(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, results: list[Any]
) -> None:
    open_jobs().order(TEXTS, "document")
    server.jobs.finish()
    server.jobs.all[0].results = results

    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")

    assert cache.count_by_embedder() == {}
    assert len(server.jobs.all) == 2


def test_a_service_that_takes_no_further_job_is_asked_again_by_the_next_run(
    server: GeminiServer, open_jobs: Open
) -> None:
    texts = [f"message {number}" for number in range(5)]
    server.batch_script.extend([lambda usual: usual, refuse(server)])

    with raises(BatchesPendingError, jobs=2, texts=5) as raised:
        open_jobs(max_attempts=1, max_texts=4).require(texts, "document")
    assert "too many tokens" in str(raised.value.values["refusal"])
    server.jobs.finish()
    with raises(BatchesPendingError, jobs=1, texts=1, refusal=""):
        open_jobs().require(texts, "document")

    assert server.jobs.texts == texts


def refuse(server: GeminiServer) -> Callable[[Answer], Answer | None]:
    """Refuse a job for the quota of enqueued tokens."""

    def answer(_: Answer) -> Answer | None:
        server.jobs.all.pop()
        return fail(429, "too many tokens")(None)  # type: ignore[arg-type]

    return answer


def test_switched_off_the_open_jobs_are_still_collected(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache, connect: Callable[..., GeminiEmbedder]
) -> None:
    open_jobs().order(TEXTS, "document")
    server.jobs.finish()

    open_jobs(submits=False).require([*TEXTS, "another"], "document")

    require_nothing_computed(cache, connect())
    assert len(server.jobs.all) == 1


def test_a_forgotten_text_does_not_come_back_with_its_job(
    server: GeminiServer, open_jobs: Open, cache: EmbeddingCache
) -> None:
    jobs = open_jobs()
    jobs.order(TEXTS, "document")
    embedder_id = jobs.book.list_jobs()[0].embedder_id
    jobs.book.keep_only([embedding_key(embedder_id, "document", text) for text in TEXTS[1:]])
    server.jobs.finish()

    jobs.collect()

    assert cache.count_by_embedder() == {embedder_id: len(TEXTS) - 1}


def test_a_blank_text_is_refused_before_anything_is_sent(server: GeminiServer, open_jobs: Open) -> None:
    with raises(EmbeddingInputError, "blank_text", text=1):
        open_jobs().order(["soup", " "], "document")

    assert server.batch_calls == []


def write_no_database(path: Path) -> None:
    path.write_bytes(b"no database" * 500)


def write_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")


@ON_FILES
@pytest.mark.parametrize("write", [write_no_database, write_foreign_database])
def test_a_damaged_or_foreign_record_is_set_aside_and_its_texts_are_submitted_again(
    server: GeminiServer,
    open_jobs: Open,
    cache: EmbeddingCache,
    connect: Callable[..., GeminiEmbedder],
    caplog: pytest.LogCaptureFixture,
    write: Callable[[Path], None],
) -> None:
    jobs = open_jobs()
    jobs.order(TEXTS, "document")
    path = jobs.book.path
    path.unlink()
    write(path)
    broken = path.read_bytes()
    assert "the next run moves it aside" in str(jobs.book.find_damage())

    with pytest.raises(BatchesPendingError):
        open_jobs().require(TEXTS, "document")

    assert name_aside(path).read_bytes() == broken
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert str(path) in line
    assert "restore the file from a backup" in line
    assert line.endswith(f"It was moved to {name_aside(path).name}.")
    assert [job.texts for job in server.jobs.all] == [TEXTS, TEXTS]
    server.jobs.finish()
    open_jobs().require(TEXTS, "document")
    require_nothing_computed(cache, connect())


@ON_FILES
@pytest.mark.parametrize(
    "write",
    [
        lambda book: book.add_waiting(["2025-03-13"]),
        lambda book: book.keep_only([]),
        lambda book: book.remove_waiting(["2025-03-13"]),
    ],
)
def test_a_damaged_record_is_set_aside_by_whatever_writes_to_it(
    open_jobs: Open, write: Callable[[BatchJobStore], None]
) -> None:
    book = open_jobs().book
    write_no_database(book.path)
    write(book)
    assert name_aside(book.path).exists()
    assert book.find_damage() is None


@ON_FILES
def test_a_record_of_a_later_release_is_an_error_that_leaves_it(open_jobs: Open) -> None:
    jobs = open_jobs()
    jobs.book.add_waiting([])
    with closing(sqlite3.connect(jobs.book.path)) as connection:
        connection.execute("PRAGMA user_version = 9")

    with raises(CacheFileError, "later_format", path=jobs.book.path):
        jobs.order(TEXTS, "document")
