"""The tokens of a text: in a terminal, or as an HTML page that shows how merges built each token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from tokenizer.bpe import Tokenizer
from tokenizer.text.spelling import MARK

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --soft: #666; --line: #ccc; --node: #f4f4f8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17191c; --ink: #e4e6e9; --soft: #9aa0a8; --line: #444950; --node: #24272c; }
}
body { font: 16px/1.6 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--paper); color: var(--ink); }
#text { font-family: ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem;
  border: 1px solid var(--line); border-radius: .4rem; }
#text a { color: #111; text-decoration: none; border-radius: .2rem; }
#text a:hover { outline: 2px solid var(--ink); }
.c0 { background: #afd7af; } .c1 { background: #d7d7ff; } .c2 { background: #ffd7af; }
.c3 { background: #afd7d7; } .c4 { background: #d7ffff; } .c5 { background: #ffafaf; }
#trees { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-end; }
section { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem 1rem; max-width: 100%; overflow-x: auto; }
section:target { border-color: #d33; box-shadow: 0 0 0 2px #d33; }
section p { margin: 0 0 .5rem; color: var(--soft); font-size: .8rem; }
.node { display: inline-flex; flex-direction: column; align-items: stretch; vertical-align: bottom; }
.parts { display: flex; align-items: flex-end; gap: .25rem; }
.name { text-align: center; border: 1px solid var(--soft); border-radius: .2rem; padding: 0 .35rem; margin-top: .25rem;
  font-family: ui-monospace, monospace; white-space: pre; background: var(--node); }
.name small { display: block; color: var(--soft); font-size: .65rem; line-height: 1.1; }
"""

NUM_COLOURS = 6  # the backgrounds of STYLE; tokens use them in turn
COLOURS = (151, 189, 223, 182, 159, 217)  # pale backgrounds of the terminal's 256, used in turn under black text


def readable(token: bytes) -> str:
    r"""Return the text of a token, with control characters, and bytes that are not UTF-8, as hexadecimal numbers.

    >>> readable(b" caf\xc3"), readable(b"\x1b\n")
    (' caf<c3>', '<1b>⏎\n')
    """
    parts = []
    for character in token.decode("utf-8", "surrogateescape"):
        if character == "\n":
            parts.append("⏎\n")
        elif "\udc80" <= character <= "\udcff":
            parts.append(f"<{ord(character) - 0xDC00:02x}>")
        else:
            is_visible = character.isprintable() or character == "\t"
            parts.append(character if is_visible else f"<{ord(character):02x}>")
    return "".join(parts)


def separated(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the tokens with bars between them, for output without colours.

    >>> from tokenizer import train
    >>> tok = train(["to be or not to be"] * 2, vocab_size=270)
    >>> separated(tok, tok.encode("to be or"))
    'to| be| or'
    """
    return "|".join(readable(tokenizer.decode_bytes([number])) for number in ids)


def coloured(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the tokens on alternating backgrounds, with the escape codes of a terminal."""
    parts = []
    for i, number in enumerate(ids):
        begin = f"\x1b[30;48;5;{COLOURS[i % len(COLOURS)]}m"
        # Some terminals continue a background colour to the end of the next line, so it ends before each line end.
        lines = readable(tokenizer.decode_bytes([number])).split("\n")
        parts.append("\n".join(f"{begin}{line}\x1b[0m" if line else "" for line in lines))
    return "".join(parts)


def page(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return an HTML page that loads nothing: the text in tokens, and below it the tree of merges of each token."""
    vocabulary, size, times = tokenizer.vocabulary, len(tokenizer.decode_bytes(ids)), Counter(ids)
    text = "".join(
        f'<a class="c{i % NUM_COLOURS}" href="#t{number}" title="id {number}">'
        f"{escape(readable(tokenizer.decode_bytes([number])))}</a>"
        for i, number in enumerate(ids)
    )
    trees = "\n".join(
        f'<section id="t{number}"><p>id {number}, {"once" if times[number] == 1 else f"{times[number]:,} times"}</p>'
        f"{tree}</section>"
        for number, tree in _trees(tokenizer, list(times)).items()
    )
    facts = (
        f"{_plural(len(ids), 'token')} for {_plural(size, 'byte')}, {size / max(1, len(ids)):.2f} bytes per token. "
        f"The tokenizer has {tokenizer.vocab_size:,} ids and {_plural(len(vocabulary.merges), 'merge')}; it cuts text "
        f"into words by <code>{escape(vocabulary.split)}</code>. "
        f"Its hash is <code>{tokenizer.fingerprint()[:16]}</code>."
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Tokens</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>Tokens</h1>\n<p>{facts}</p>\n"
        f'<div id="text">{text}</div>\n<h2>How merges built each token</h2>\n'
        "<p>Read each tree from the top: single bytes, then the merges that joined them, down to the token. A merge's "
        "number says when training learned it: the smaller the number, the more frequent the pair was. A byte that is "
        "not a visible character by itself is written like &lt;e6&gt;, a space as ␣, a line end as ⏎, a tab as ⇥.</p>\n"
        f'<div id="trees">\n{trees}\n</div>\n</body>\n</html>\n'
    )


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _trees(tokenizer: Tokenizer, ids: Iterable[int]) -> dict[int, str]:
    """Return the tree of merges of each id's token, as HTML."""
    vocabulary = tokenizer.vocabulary
    merges = {left + right: (rank, left, right) for rank, (left, right) in enumerate(vocabulary.merges, start=1)}
    added = {number: name for name, number in (vocabulary.specials | vocabulary.added).items()}
    # Merges join spellings, which with byte fallback have U+2581 for a space: the page shows the space.
    spelled = {number: token for token, number in vocabulary.ids.items()}
    numbers = [number for number in ids if number not in added]
    tokens = {number: spelled.get(number) or tokenizer.decode_bytes([number]) for number in numbers}
    needed, waiting = set(), list(tokens.values())
    while waiting:
        token = waiting.pop()
        if token in merges and token not in needed:
            needed.add(token)
            waiting += merges[token][1:]

    def node(token: bytes, origin: str, parts: str = "") -> str:
        return _node(token.replace(MARK.encode(), b" ") if vocabulary.byte_ids else token, origin, parts)

    trees: dict[bytes, str] = {}
    # The parts of a token are shorter than the token, so in order of length their trees come first.
    for token in sorted(needed, key=len):
        rank, left, right = merges[token]
        parts = "".join(trees.get(part) or node(part, "") for part in (left, right))
        trees[token] = node(token, f"merge {rank:,}", f'<span class="parts">{parts}</span>')
    whole = {i: trees.get(token) or node(token, "byte" if len(token) == 1 else "") for i, token in tokens.items()}
    return {number: whole.get(number) or _node(added[number].encode(), "no merge makes it") for number in ids}


def _node(token: bytes, origin: str, parts: str = "") -> str:
    """Return a token with a note on its origin, below the trees of its parts, as HTML."""
    name = escape(readable(token).replace(" ", "␣").replace("⏎\n", "⏎").replace("\t", "⇥"))
    return f'<span class="node">{parts}<span class="name">{name}<small>{origin}</small></span></span>'
