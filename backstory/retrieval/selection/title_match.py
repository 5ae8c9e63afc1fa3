"""Hits whose query chunk names the title of the document.

Who writes of Radiohead, or of the 1.0 timeline, names the page or post that is called so. Cosine and BM25 see the same
words in every document that mentions them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import polars as pl

TermsOf = Callable[[Sequence[str]], pl.DataFrame]


def match_titles(
    hits: pl.DataFrame, window_chunks: pl.DataFrame, stored_chunks: pl.DataFrame, terms_of: TermsOf
) -> pl.Series:
    """Return for each hit whether its query chunk holds every word of the document's title.

    Words are those of the keyword search: their form and order do not count, and stop words are left out. A title
    without any other word is never named. Nor is one that several documents found by the query chunk share, such as
    the parts of one handbook: it tells none of them from the others. The query of a whole window names nothing, since
    the words of a title are scattered over every long text.

    Args:
        hits: Table ``hits``.
        window_chunks: Table ``window_chunks`` of the same windows.
        stored_chunks: ``chunk_id`` and ``title`` of the chunks of the hits.
        terms_of: Gives the known words of texts, :meth:`backstory.index.search.SearchIndex.terms_of`.

    Returns:
        One Boolean per hit, in their order.
    """
    asking = window_chunks.join(hits, left_on="chunk_id", right_on="query_chunk_id", how="semi")
    query_terms = _list_terms(asking["chunk_id"], asking["text"], terms_of)
    titles = stored_chunks["title"].unique(maintain_order=True)
    words = _list_terms(titles, titles, terms_of)
    title_of = dict(stored_chunks.select("chunk_id", "title").iter_rows())
    nothing: frozenset[int] = frozenset()
    found = hits.select(
        "query_chunk_id",
        "document_id",
        title=pl.col("chunk_id").replace_strict(title_of, return_dtype=pl.String),
    )
    sharing = pl.col("document_id").n_unique().over("query_chunk_id", "title").alias("sharing")
    named = [
        sharing == 1
        and bool(title_terms := words.get(title, nothing))
        and title_terms <= query_terms.get(query_id, nothing)
        for query_id, title, sharing in found.select("query_chunk_id", "title", sharing).iter_rows()
    ]
    return pl.Series("named", named, dtype=pl.Boolean)


def _list_terms(keys: pl.Series, texts: pl.Series, terms_of: TermsOf) -> dict[str, frozenset[int]]:
    """Return the known words of the text of each key that has any."""
    found: dict[int, set[int]] = defaultdict(set)
    for text, term in terms_of(texts.to_list()).select("text", "term").iter_rows():
        found[text].add(term)
    return {keys[text]: frozenset(terms) for text, terms in found.items()}
