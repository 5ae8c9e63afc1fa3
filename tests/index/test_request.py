"""Any filters give what the definition gives, through every engine, and hiding and admitting are one rule."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory.index.request import Filters, Scope, SearchRequest
from backstory.index.search import SearchIndex
from tests.long_tests import some

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)

moments = st.none() | st.integers(-2, 62).map(lambda days: EPOCH + timedelta(days=days))
any_filters = st.builds(
    Filters,
    as_of=st.none() | st.lists(moments, min_size=4, max_size=4),
    kinds=st.lists(st.sampled_from(["post", "page", "digest", "absent"]), max_size=2),
    tags=st.lists(st.sampled_from(["bitcoin", "lightning", "privacy", "mining", "absent"]), max_size=2),
    document_ids=st.just([]) | st.lists(st.integers(0, 699).map("doc{:05d}".format), max_size=40),
    tenant=st.none() | st.sampled_from(["north", "south", "absent"]),
    undated=st.booleans(),
)


@settings(max_examples=some(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters=any_filters, top_k=st.integers(1, 30), least=st.none() | st.floats(-0.2, 0.9))
def test_filters_admit_what_they_say(
    index: SearchIndex,
    corpus: Any,
    listed: Any,
    share_found: Any,
    filters: Filters,
    top_k: int,
    least: float | None,
) -> None:
    queries = corpus.queries(4)
    result = index.search(queries, SearchRequest(top_k=top_k, min_similarity=least, filters=filters))
    found, expected = listed(result.hits, 4), corpus.nearest(queries, top_k, least, filters)
    if result.engine == "exact":
        assert found == expected
    if least is None:
        assert [len(hits) for hits in found] == [len(hits) for hits in expected]
    assert share_found(found, expected) >= 0.95 or sum(map(len, expected)) < 20


def test_a_document_published_at_that_very_time_qualifies(index: SearchIndex, corpus: Any) -> None:
    dated = corpus.documents.filter(corpus.documents["published_at"].is_not_null())
    document, moment = dated.select("document_id", "published_at").row(0)
    query = index.vectors_of([f"{document}#rev:r1#p:0#m:t#c:0"])
    just_then, before = (
        index.search(query, SearchRequest(top_k=1, filters=Filters(as_of=[at]))).hits["document_id"].to_list()
        for at in (moment, moment - timedelta(microseconds=1))
    )
    assert just_then == [document]
    assert before != [document]


ROWS = 12


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    stop = np.array(draw(st.lists(st.integers(0, ROWS), min_size=1, max_size=5)), np.int64)
    mask = draw(st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS).map(np.array))
    return Scope(ROWS, stop, mask)


def shown(scope: Scope, first: int = 0, start: int = 0, rows: int = ROWS) -> list[list[bool]]:
    scores = np.zeros((len(scope.stop) - first, rows - start), np.float32)
    scope.hide(scores, first, start)
    assert set(np.unique(scores)) <= {0, -np.inf}
    visible: list[list[bool]] = (scores == 0).tolist()
    return visible


@given(scopes(), st.integers(0, 4), st.integers(0, ROWS - 1))
def test_a_row_is_hidden_unless_it_is_admitted(scope: Scope, first: int, start: int) -> None:
    first = min(first, len(scope.stop) - 1)
    expected = [
        [bool(scope.admits(np.array([query]), np.array([row]))[0]) for row in range(start, ROWS)]
        for query in range(first, len(scope.stop))
    ]
    assert shown(scope, first, start) == expected
    assert [sum(row) for row in shown(scope)] == scope.allowed.tolist()
