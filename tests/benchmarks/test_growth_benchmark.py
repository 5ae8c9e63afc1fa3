"""The growth benchmark, on few rows."""

from benchmarks.growth import make_texts, measure


def test_every_ranking_is_measured_with_its_engine() -> None:
    exact = measure(rows=300, queries=4, dimension=16, repeats=1, approximate=False)
    assert [(f.ranking, f.engine) for f in exact] == [
        ("dense", "exact"),
        ("keyword", "bm25"),
        ("hybrid", "exact"),
    ]
    assert all(f.rows == 300 and f.queries == 4 and f.wall_ms > 0 and f.disk_mb > 0 for f in exact)
    approximate = measure(rows=300, queries=4, dimension=16, repeats=1, approximate=True)
    assert [f.engine for f in approximate] == ["vss", "bm25", "vss"]


def test_texts_have_common_and_rare_words() -> None:
    texts = make_texts(400, 50, seed=1)
    counts = texts.str.split(" ").explode().value_counts(sort=True)["count"].to_list()
    assert texts.len() == 400
    assert sum(counts) == 400 * 50
    assert counts[0] > 10 * counts[len(counts) // 2]
    assert texts.equals(make_texts(400, 50, seed=1))
