"""Texts that spell special tokens are text for every type of vocabulary."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from backstory.models.embeddings.local.granite_pack import read_granite_pack
from backstory.models.onnx_text import load_text_tokenizer

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
def test_no_text_makes_a_special_token(kind: str) -> None:
    loaded = load_text_tokenizer(MAKERS[kind]())
    special = {loaded.tokenizer.token_to_id(spelling) for spelling in loaded.special}
    assert special
    for spelling in loaded.special:
        for text in (spelling, f"soup {spelling} trains", f"a{spelling}{spelling}b"):
            encoding = loaded.tokenizer.encode(text)
            ids = [encoding.ids[place] for place in loaded.find_text_tokens(encoding)]
            assert special.isdisjoint(ids[1:-1]), text
            assert special >= {ids[0], ids[-1]}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_text_without_special_tokens_is_encoded_as_before(kind: str) -> None:
    content = MAKERS[kind]()
    loaded = load_text_tokenizer(content)
    encoding = loaded.tokenizer.encode(PLAIN)
    assert [encoding.ids[place] for place in loaded.find_text_tokens(encoding)] == Tokenizer.from_buffer(
        content
    ).encode(PLAIN).ids
