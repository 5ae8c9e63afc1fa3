"""Texts that spell special tokens are text for every type of vocabulary."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from backstory.models.embeddings.packs import read_granite_pack
from backstory.models.onnx_text import TextTokenizer

PLAIN = "the soup talks about trains\n1 < 2 [see above] </div> unheard"
SPECIAL = ("<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "[UNK]")
WORDS = ("[", "]", "<", ">", "/", "▁", *"abcdefghiklmnoprstuv")


def add_frame(tokenizer: Tokenizer, first: str, last: str, unknown: str) -> bytes:
    tokenizer.add_special_tokens([first, last, unknown])
    ids = {name: tokenizer.token_to_id(name) for name in (first, last)}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=list(ids.items())
    )
    return tokenizer.to_str().encode()


def make_word_pieces() -> bytes:
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return add_frame(tokenizer, "[CLS]", "[SEP]", "[UNK]")


def make_unigrams() -> bytes:
    vocabulary = [*((name, 0.0) for name in SPECIAL), *((word, -3.0) for word in WORDS)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIAL.index("<unk>")))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return add_frame(tokenizer, "<s>", "</s>", "<unk>")


MAKERS = {
    "bytes": lambda: read_granite_pack().read_tokenizer(),
    "word pieces": make_word_pieces,
    "unigrams": make_unigrams,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_no_text_makes_a_special_token_and_any_other_is_encoded_as_before(kind: str) -> None:
    content = MAKERS[kind]()
    tokenizer, plain = TextTokenizer(content), Tokenizer.from_buffer(content)
    special = {plain.token_to_id(spelling) for spelling in tokenizer.special}
    assert special
    for spelling in tokenizer.special:
        for tokens in tokenizer.encode([spelling, f"soup {spelling} trains", f"a{spelling}{spelling}b"]):
            assert special.isdisjoint(tokens.ids[1:-1])
            assert special >= {tokens.ids[0], tokens.ids[-1]}
    assert tokenizer.encode([PLAIN])[0].ids == plain.encode(PLAIN).ids
