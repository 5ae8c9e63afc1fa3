from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backstory.models.embeddings.protocol import group_in_order
from backstory.models.onnx_text import group_by_length

COUNTS = st.lists(st.integers(0, 60), max_size=60).map(lambda counts: np.array(counts, np.int64))


@given(COUNTS)
def test_by_length_no_text_of_a_batch_is_much_shorter_than_the_longest(counts: np.ndarray) -> None:
    batches = group_by_length(counts, max_padded_tokens=50, least_filled=0.8)

    assert sorted(position for batch in batches for position in batch) == list(range(len(counts)))
    assert all(counts[batch].min() >= 0.8 * counts[batch].max() for batch in batches)
    for batch, following in pairwise(batches):
        longest = counts[batch].max()
        assert (len(batch) + 1) * longest > 50 or counts[following[0]] < 0.8 * longest


@given(COUNTS)
def test_in_order_each_text_is_in_one_batch_within_both_limits(counts: np.ndarray) -> None:
    batches = group_in_order(counts, max_texts=4, max_tokens=50)

    assert [position for batch in batches for position in batch] == list(range(len(counts)))
    assert all(len(batch) <= 4 for batch in batches)
    assert all(len(batch) == 1 or counts[batch].sum() <= 50 for batch in batches)


def test_equal_lengths_keep_their_order_and_are_alone_where_nothing_is_padded() -> None:
    (batch,) = group_by_length(np.array([3, 5, 3, 5]), max_padded_tokens=100)
    assert batch.tolist() == [1, 3, 0, 2]

    batches = group_by_length(np.array([5, 7, 5, 5, 7, 900, 5]), max_padded_tokens=10, least_filled=1.0)
    assert [batch.tolist() for batch in batches] == [[5], [1], [4], [0, 2], [3, 6]]
