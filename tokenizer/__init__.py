"""Byte-level byte-pair encoding, written by hand: from text to token ids and back.

    import tokenizer
    tok = tokenizer.train(texts, vocab_size=4096)
    ids = tok.encode("some text")

Read it in this order: alphabet (bytes as letters), split (text into words), naive (the whole algorithm on one
page), incremental (without rescanning), then the same fast: kernels, table, heap, scanner, lots, count, pairs and
trainer, merging and encoder; then vocabulary, added and bpe (the tokenizer), stream and chat; formats and the files
that it can be kept in, vidya_v1 (a tokenizer without words), and show. On the command line it is `python -m tokenizer`.
It does not need minigrad.
"""

from tokenizer.bpe import Tokenizer, load, train
from tokenizer.chat import encode_chat
from tokenizer.encode.stream import StreamDecoder, StreamEncoder
from tokenizer.errors import TokenizerError
from tokenizer.text.chunks import read_files
from tokenizer.vocabulary import SPECIAL_TOKENS

__all__ = [
    "SPECIAL_TOKENS",
    "StreamDecoder",
    "StreamEncoder",
    "Tokenizer",
    "TokenizerError",
    "encode_chat",
    "load",
    "read_files",
    "train",
]
