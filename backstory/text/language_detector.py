"""The model that tells in which language a text is: that of py3langid, scored for many texts at once.

py3langid takes a text a call, converts what it reads of the model to single precision each time, and sorts all
languages. Here each row of the model is converted once, and only what depends on one text alone is done for each. The
probabilities are the same, bit for bit.

py3langid also unpacks the 4.6 MB of the model in each process, which takes half a second of a core. Here a user's first
process does so for all, and to map the 68 MB that result takes a tenth of that.
"""

from __future__ import annotations

import hashlib
import lzma
import math
import mmap
import unicodedata
import zipfile
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.environment import cache_folder
from backstory.base.errors import ModelSetupError
from backstory.base.files.arrays import view_array
from backstory.base.files.atomic import require_built_file

# The arrays of the model as py3langid names them, in an order in which each begins at a multiple of its numbers' size.
_ARRAYS: Final = {
    "nextmove": "<u4",
    "out_feat": "<i4",
    "pc": "<f4",
    "classes": "<U3",
    "nextmove_row": "<u2",
    "ptc": "<f2",
}


class LanguageDetector:
    """The model for some languages. Threads may share an object.

    Attributes:
        labels: The languages, each once.
    """

    def __init__(self, languages: Collection[str]) -> None:
        from py3langid.langid import MODEL_DIR, MODEL_FILE

        arrays = _read_arrays(_open_unpacked((MODEL_DIR / MODEL_FILE).read_bytes()))
        moves, features, priors, labels, rows, weights = arrays
        self._model = weights.reshape(-1, len(priors))
        self._moves, self._features, classes = moves.data, features.tolist(), labels.tolist()
        self._chosen = [place for place, label in enumerate(classes) if label in languages]
        named = [classes[place] for place in self._chosen]
        self.labels: Sequence[str] = list(dict.fromkeys(named))
        self._columns = [named.index(label) for label in self.labels]
        # A label may have a further column, such as that of another script.
        self._further = [
            (named.index(label), place) for place, label in enumerate(named) if named.index(label) != place
        ]
        self._priors = np.ascontiguousarray(priors[self._chosen], np.float32)
        self._rows = [row << 8 for row in rows.tolist()]
        # Most rows are never read, so their pages never take memory.
        self._weights = np.empty((len(self._model), len(named)), np.float32)
        self._is_converted = np.zeros(len(self._model), bool)

    def measure(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the probabilities of the languages for each text.

        Its shape is ``(texts, labels)``; a row adds up to 1. Probabilities are normalised by the length of the
        text, so that one threshold fits all lengths.
        """
        from py3langid.langid import visit_counts

        encoded = [_encode(text) for text in texts]
        seen = [visit_counts(self._moves, self._rows, self._features, each) or {} for each in encoded]
        self._convert(sorted({feature for each in seen for feature in each}))
        scores = np.zeros((len(texts), len(self._priors)), np.float32)
        for row, features in zip(scores, seen, strict=True):
            if features:
                counts = np.fromiter(features.values(), np.float32, len(features))
                np.add(np.log1p(counts) @ self._weights[list(features)], self._priors, out=row)
        scores *= np.array([[1 / math.sqrt(len(each) or 1)] for each in encoded], np.float32)
        np.exp(scores - scores.max(axis=1, keepdims=True), out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        for first, further in self._further:
            scores[:, first] += scores[:, further]
        return scores[:, self._columns]

    def _convert(self, features: Sequence[int]) -> None:
        """Convert the rows of features that were not read before."""
        wanted = np.array(features, np.intp)
        fresh = wanted[~self._is_converted[wanted]]
        self._weights[fresh] = self._model[fresh][:, self._chosen]
        self._is_converted[fresh] = True


@cache
def load_detector(languages: Collection[str]) -> LanguageDetector:
    """Load the model for some languages, once in a process."""
    return LanguageDetector(languages)


def _encode(text: str) -> bytes:
    """Encode a text as those were that the model was trained on."""
    lower = text.lower() if text.isupper() else text
    return unicodedata.normalize("NFC", lower).encode(errors="surrogatepass")


def _open_unpacked(packed: bytes) -> mmap.mmap:
    """Map the unpacked model in the cache folder, or in memory where that folder cannot be written."""
    version = hashlib.sha256(packed + np.__version__.encode()).hexdigest()[:12]
    try:
        path = cache_folder() / "models" / f"py3langid-{version}" / "model.bin"
        require_built_file(path, lambda: _unpack(packed))
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (ModelSetupError, OSError, RuntimeError):  # the last one where there is no home
        content = _unpack(packed)
        held = mmap.mmap(-1, len(content))
        held.write(content)
        return held


def _unpack(packed: bytes) -> bytes:
    """Write the bytes of each array one after another, behind their counts."""
    with zipfile.ZipFile(BytesIO(lzma.decompress(packed))) as model:
        contents = [view_array(model.read(f"{name}.npy"), dtype).tobytes() for name, dtype in _ARRAYS.items()]
    return b"".join([np.array([*map(len, contents)], np.int64).tobytes(), *contents])


def _read_arrays(content: mmap.mmap) -> Iterator[NDArray[Any]]:
    sizes = np.frombuffer(content, np.int64, len(_ARRAYS))
    starts = sizes.nbytes + sizes.cumsum() - sizes
    for dtype, start, size in zip(_ARRAYS.values(), starts.tolist(), sizes.tolist(), strict=True):
        yield np.frombuffer(content, dtype, size // np.dtype(dtype).itemsize, start)
