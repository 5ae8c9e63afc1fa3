"""Tokenizers of models, for texts that other people wrote: no text becomes a token that steers the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer that encodes the spelling of a special token (``[SEP]``, ``</s>``) as ordinary text.

    Attributes:
        tokenizer: Encodes texts.
        special: Spellings of the special tokens.
        leaking: Ids of special tokens that it makes of their spelling nevertheless, since vocabularies of some
            types (Unigram) hold them as ordinary pieces. :meth:`find_text_tokens` leaves them out.
    """

    tokenizer: Tokenizer
    special: frozenset[str]
    leaking: frozenset[int]

    def find_text_tokens(self, encoding: Encoding) -> list[int]:
        """Find the tokens of an encoding that the model may see.

        Args:
            encoding: An encoding of the tokenizer.

        Returns:
            Places of all tokens, but for special ones that stand in the text and not around it.
        """
        if self.leaking.isdisjoint(encoding.ids):
            return list(range(len(encoding.ids)))
        around = encoding.special_tokens_mask
        return [
            place for place, token in enumerate(encoding.ids) if around[place] or token not in self.leaking
        ]


def load_text_tokenizer(content: bytes) -> TextTokenizer:
    """Load a tokenizer for texts that other people wrote.

    Args:
        content: A ``tokenizer.json``.

    Raises:
        ValueError: The content is no tokenizer.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.encode_special_tokens = True
    # Ordinary texts hold the token for unknown text, too.
    unknown = _name_unknown(content)
    special = {
        number: token.content
        for number, token in tokenizer.get_added_tokens_decoder().items()
        if token.special and number not in unknown and token.content not in unknown
    }
    leaking = {
        number
        for number, spelling in special.items()
        if number in tokenizer.encode(spelling, add_special_tokens=False).ids
    }
    return TextTokenizer(tokenizer, frozenset(special.values()), frozenset(leaking))


def _name_unknown(content: bytes) -> tuple[str | None, int | None]:
    """Return the spelling or the id of the token for unknown text: types of vocabularies state one or the other."""
    model = json.loads(content)["model"]
    return model.get("unk_token"), model.get("unk_id")
