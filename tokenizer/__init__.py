"""Byte-level byte-pair encoding, written by hand: from text to token ids and back.

    import tokenizer
    tok = tokenizer.train(texts, vocab_size=4096)
    ids = tok.encode("some text")

On the command line it is `python -m tokenizer`. The package does not need minigrad.

Read naive.py first: the whole algorithm on one page. Then learn/incremental.py, which avoids rescanning, and
learn/trainer.py, which does the same in arrays; then encode/merging.py, encode/encoder.py and bpe.py, the tokenizer.

The files and rooms stand on floors, and each imports only from the floors below it. From the bottom:

    errors, jit, naive      the exception, the decorator of compiled loops, the chapter; they import nothing
    disk, structures/       files; hash tables and a heap for kernels
    templates/              chat templates of other authors, in processes of their own
    text/                   Unicode, splitting into words, texts in chunks, special tokens
    vocabulary, learn/      what a tokenizer consists of; from texts to merges
    encode/                 from text to token ids with a vocabulary
    formats/                from a vocabulary to files and back
    bpe                     the class Tokenizer, train and load
    chat, vidya_v1          conversations; a tokenizer without words
    cli/                    the command line
"""

from tokenizer.bpe import Tokenizer, load, train
from tokenizer.chat import ChatTemplate, encode_chat, load_chat, render_conversation
from tokenizer.encode.stream import StreamDecoder, StreamEncoder
from tokenizer.errors import TokenizerError
from tokenizer.text.added_tokens import SPECIAL_TOKENS
from tokenizer.vidya_v1 import KINDS
from tokenizer.vocabulary import Vocabulary

__all__ = ["KINDS", "SPECIAL_TOKENS", "ChatTemplate", "StreamDecoder", "StreamEncoder", "Tokenizer", "TokenizerError"]
__all__ += ["Vocabulary", "encode_chat", "load", "load_chat", "render_conversation", "train"]
