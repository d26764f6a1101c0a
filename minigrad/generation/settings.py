"""The settings of text generation: one field is one flag, spelled the same on the command line and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from minigrad.errors import InputError
from minigrad.options import REQUIRED, Group, flag_of, option, options, unknown, validate

_MOST = 10**9  # larger integers are typing errors
_NO_PENALTIES = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}


@dataclass(frozen=True)
class TextSettings(Group):
    """How many texts are written, and where each ends."""

    heading: ClassVar[str] = "text"

    tokens: int = option(200, "number of tokens to generate, at most", at_least=1, at_most=_MOST)
    samples: int = option(
        1,
        "number of texts to generate for each prompt; they are computed together, except with --draft",
        at_least=1,
        at_most=_MOST,
    )
    stop: tuple[str, ...] = option((), "stop before this string; may be given several times", filled=True)


@dataclass(frozen=True)
class Sampling(TextSettings):
    """How a text is continued: its length, its end, and how each token is drawn.

    Raises InputError for a value that is not allowed. One string is enough for `stop`, and a list for `stop` or `ban`.

    >>> Sampling(temperature=0.5, stop="\\n").stop
    ('\\n',)
    >>> Sampling(top_p=2.0)
    Traceback (most recent call last):
    ...
    minigrad.errors.InputError: top_p takes a finite number above 0 and at most 1, not 2.0
    """

    heading: ClassVar[str] = "sampling"

    temperature: float = option(
        0.8, "below 1, likely tokens become likelier; 0 always takes the most likely token", at_least=0
    )
    top_k: int | None = option(None, "choose among the k most likely tokens", at_least=1, at_most=_MOST, none_means="")
    top_p: float | None = option(
        0.95, "choose among the most likely tokens that together have at least this probability", above=0, at_most=1
    )
    min_p: float | None = option(
        None,
        "choose among tokens that have at least this share of the highest probability",
        above=0,
        at_most=1,
        none_means="",
    )
    repetition_penalty: float = option(
        1.0, "divide positive logits of tokens in the text by this, multiply negative ones", at_least=0.01, at_most=100
    )
    frequency_penalty: float = option(
        0.0, "lower the logit of a token by this each time it occurs", at_least=-100, at_most=100
    )
    presence_penalty: float = option(
        0.0, "lower the logit of a token by this if it occurs at all", at_least=-100, at_most=100
    )
    ban: tuple[int, ...] = option(
        (), "never draw the token with this id; may be given several times", value="ID", at_least=0, at_most=_MOST
    )
    adaptive_context: bool = option(
        False, "let the model see less of the text while the farther half of its view does not help, and otherwise more"
    )
    seed: int = option(0, "seed of the draws", at_least=0)
    draft_tokens: int = option(4, "tokens that the model of --draft proposes at a time", at_least=1, at_most=64)
    alternatives: int | None = option(
        None,
        "list the log-probability of each token, and of the N most likely ones in its place",
        value="N",
        at_least=0,
        at_most=_MOST,
        none_means="",
    )

    def __post_init__(self) -> None:
        for name in (each.name for each in options(type(self)) if each.many):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else () if given is None else given)
        validate(self)

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return these settings with some fields changed; raises InputError for an unknown name, naming the closest."""
        names = [each.name for each in options(Sampling)]
        for name in changes:
            if name not in names:
                raise unknown("setting of generation", name, sorted(names))
        return replace(self, **changes)

    def drawn_with(self) -> str:
        """Name the settings in use that decide which token is drawn.

        >>> Sampling(top_p=None, top_k=40).drawn_with()
        'temperature 0.8, top-k 40, seed 0'
        """
        usual = {"ban": (), **_NO_PENALTIES}
        names = ("temperature", "top_k", "top_p", "min_p", *_NO_PENALTIES, "ban", "seed")
        used = ((name, getattr(self, name)) for name in names)
        return ", ".join(f"{name.replace('_', '-')} {value}" for name, value in used if value != usual.get(name))

    @property
    def penalises(self) -> bool:
        """Whether the draw of a token depends on how often it occurred."""
        return any(getattr(self, name) != none for name, none in _NO_PENALTIES.items())


@dataclass(frozen=True, kw_only=True)
class ComputeSettings(Group):
    """How loaded models compute, in generate.py and in the server."""

    heading: ClassVar[str] = "model"

    quantize: str | None = option(
        None,
        "keep the matrices as float16, bfloat16, int8 or int4: less memory, and faster writing",
        value="FORMAT",
        choices=("float16", "bfloat16", "int8", "int4"),
        none_means="as in the folder",
    )
    cache_format: str = option(
        "float32",
        "keep keys and values as float32, bfloat16 or int8: less memory",
        value="FORMAT",
        choices=("float32", "bfloat16", "int8"),
    )
    threads: int | None = option(None, "processor threads", at_least=1, at_most=256, none_means="one per core")


@dataclass(frozen=True, kw_only=True)
class LoadSettings(ComputeSettings):
    """Which models are loaded, and how they compute."""

    run: str = option(
        REQUIRED,
        "a run folder, a Hugging Face folder, or the name of a model that comes with minigrad, such as vidya-v2-nano",
        positional=True,
        value="RUN",
        filled=True,
    )
    draft: str | None = option(
        None,
        "a smaller model with the same tokenizer, which proposes tokens; the model checks several at a time, so texts "
        "of the same distribution are written faster",
        value="RUN",
        none_means="",
        filled=True,
    )
    set: str | None = option(
        None,
        "change the model's config, as in rope_scaling=yarn,rope_factor=4",
        value="NAME=VALUE,...",
        none_means="",
        filled=True,
    )


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(Group):
    """What generate.py reads, and what it shows beside the text."""

    heading: ClassVar[str] = "input and output"

    prompt: tuple[str, ...] = option(
        (),
        "the beginning of the text; may be given several times; - reads it from standard input; without this flag a "
        "pipe is read, except with --page (generate.py RUN < story.txt)",
    )
    chat: bool = option(
        False,
        "talk with a chat model: it answers each line of standard input (/help); one that train.py taught takes the "
        "most likely tokens, unless --temperature, --top-k, --top-p, --min-p or --seed is given",
    )
    teach: bool = option(
        False,
        "offer several answers (--samples, by default 4) to each question of standard input; the next line is the "
        "number of the best one, or a better answer; that answer is added to --journal, to be learned later",
    )
    journal: str = option("journal.jsonl", "the file that --teach adds to", value="FILE", filled=True)
    explain: str | None = option(
        None,
        "write a page that explains the text: probabilities, alternatives, layers and attention",
        value="FILE",
        none_means="",
        filled=True,
    )
    page: str | None = option(
        None,
        "write a page that holds the model itself and writes with it in any browser, offline; its weights are float16, "
        "or as --quantize says",
        value="FILE",
        none_means="",
        filled=True,
    )


_NOT_ON_A_PAGE = ("samples", "stop", *_NO_PENALTIES, "ban", "adaptive_context", "alternatives")


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(Sampling, ConsoleSettings, LoadSettings):
    """The settings of generate.py."""

    def check(self) -> None:
        """Raise InputError for --chat, --teach, --explain or --page with a setting that they cannot have."""
        if self.page is not None:
            self._check_page()
        if self.teach:
            self._check_teach()
        for name, needs in (("journal", "teach"), ("draft_tokens", "draft")):
            if self.is_changed(name) and not getattr(self, needs):
                raise InputError(f"{flag_of(name)} is for --{needs}; leave it out, or give --{needs}")
        if self.explain is not None and self.adaptive_context:
            raise InputError("--explain reads the text with the whole context; leave out --adaptive-context")
        if self.explain is not None and self.chat:
            raise InputError("--explain shows how the text after a prompt came about; leave out --chat")
        if self.explain is not None and self.samples * max(len(self.prompt), 1) > 1:
            raise InputError("--explain shows how one text came about: give one prompt, and leave out --samples")
        if self.chat and self.samples > 1:
            raise InputError("--chat writes one answer to each message; leave out --samples")

    def _check_page(self) -> None:
        for name in ("chat", "teach", "explain", "draft"):
            if getattr(self, name):
                raise InputError(f"--page writes a page and no text; leave out --{name}")
        if self.cache_format != "float32":
            raise InputError("a page keeps keys and values as float32; leave out --cache-format")
        for name in _NOT_ON_A_PAGE:
            if self.is_changed(name):
                raise InputError(f"a page has no setting for {flag_of(name)}; leave it out")
        if len(self.prompt) > 1:
            raise InputError("--page begins with one text: give one prompt")

    def _check_teach(self) -> None:
        for name in ("chat", "explain"):
            if getattr(self, name):
                raise InputError(f"--teach asks which of several answers is best; leave out --{name}")
        if self.alternatives is not None:
            raise InputError("--teach shows whole answers; leave out --alternatives")
