"""Builds of an index into a Milvus server, and what the server holds then."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from pymilvus import MilvusClient

from backstory.index.request import SearchRequest
from backstory.index.snapshot.build import IndexBuild
from backstory.index.snapshot.manifest import read_manifest
from backstory.index.snapshot.opening import open_index
from backstory.index.snapshot.row_keys import read_row_keys
from backstory.index.snapshot.served import name_alias
from tests.index.conftest import Corpus


def build_at(uri: str, corpus: Corpus, folder: Path, **settings: Any) -> IndexBuild:
    return corpus.build(folder, engine="milvus", uri=uri, **settings)


def collection_of(build: IndexBuild) -> str:
    collection = read_manifest(build.folder).collection
    assert collection is not None
    return collection


def alias_of(build: IndexBuild) -> str:
    return name_alias(collection_of(build), build.version)


def keys_of(build: IndexBuild) -> set[int]:
    return set(read_row_keys(build.folder).keys.tolist())


@contextmanager
def asking(uri: str) -> Iterator[MilvusClient]:
    client = MilvusClient(uri=uri)
    try:
        yield client
    finally:
        client.close()


def list_collections(uri: str) -> set[str]:
    with asking(uri) as client:
        return set(client.list_collections())


def list_aliases(uri: str, collection: str) -> set[str]:
    with asking(uri) as client:
        return set(client.list_aliases(collection)["aliases"])


def list_keys(uri: str, collection: str) -> set[int]:
    with asking(uri) as client:
        return {
            row["key"] for row in client.query(collection, filter="", output_fields=["key"], limit=16_384)
        }


def take(corpus: Corpus, wanted: pl.Expr | pl.Series) -> Corpus:
    """Keep some documents."""
    documents = corpus.documents.filter(wanted)
    is_kept = corpus.chunks["document_id"].is_in(documents["document_id"].implode())
    return Corpus(documents, corpus.chunks.filter(is_kept), corpus.vectors[is_kept.to_numpy()])


def search_in(folder: Path, corpus: Corpus, top_k: int = 5) -> Any:
    with open_index(folder) as index:
        return index.search(corpus.queries(4), SearchRequest(top_k=top_k))
