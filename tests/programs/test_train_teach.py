"""`train.py --objective sft`: a book is learned, the text is not forgotten unnoticed, and a killed run continues."""

from __future__ import annotations

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import generate
import models
import tokenizer
from minigrad import InputError
from minigrad.evaluate import __main__ as evaluate
from minigrad.formats.json_files import read_json
from minigrad.training.folder import metrics
from minigrad.training.planning import description
from minigrad.training.planning.plan import Plan
from minigrad.training.settings import TrainConfig
from tests.killed_runs import killed_at
from tests.killed_runs import repeat as repeated
from tests.small_runs import WORDS, flags, outcome, record, refusal, settings, timeless
from train import train

BOOK = "".join(f"Q: {word}?\nA: {word[::-1]}.\n" for word in ("to", "be", "or", "not"))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(BOOK, encoding="utf-8")
    return path


def teaching(book: Path, start: Path, out: Path, **changes: Any) -> TrainConfig:
    how = {"init": str(start), "objective": "sft", "vocab": None, "batch": 4, "steps": 8, "dropout": 0.1}
    return settings(book, out, **how | changes)


@pytest.fixture(scope="module")
def taught(book: Path, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 150 steps that learns the book; its questions have one word, which must not be changed."""
    out = tmp_path_factory.mktemp("taught") / "run"
    how = {"lr": 0.01, "replay": 0.25, "dropout": 0.0, "question_noise": 0.0, "save_every": 30}
    train(teaching(book, finished, out, steps=150, **how))
    return out


def test_the_book_is_learned_and_the_report_says_what_was_forgotten(taught: Path, finished: Path) -> None:
    found = record(taught)
    assert found["before"]["recall"] == 0
    assert found["result"]["recall"] == 1
    assert found["result"]["bits_per_byte_before"] == found["before"]["bits_per_byte"]
    known = record(finished)
    assert found["before"]["bits_per_byte"] == pytest.approx(known["result"]["bits_per_byte"], rel=1e-6)
    assert found["settings"]["replay_text"] == known["data"]
    page = (taught / "report.html").read_text(encoding="utf-8")
    assert "4 of 4 taught questions are answered token for token (100%; before: 0%)" in page
    assert "<td>be?<td>eb.<td>eb." in page
    assert "for the validation text of the pre-training before, and needs" in page
    assert f"not taught, {100 * found['result']['recall_reworded']:.0f}% are." in page
    assert "<h2>Asked in other words</h2><p>5 of 5" in page  # three are too long
    assert "<td>be<td>eb." in page


def test_a_taught_model_is_evaluated_on_the_text_and_not_on_the_book(
    taught: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate.main([str(taught), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["bits_per_byte"] == pytest.approx(record(taught)["result"]["bits_per_byte"], rel=1e-4)


def test_a_taught_model_answers_in_a_chat(
    taught: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert generate.main([str(taught), "--chat", "--temperature", "0", "--prompt", "not?"]) == 0
    assert capsys.readouterr().out.startswith("ton.")


def test_other_programs_end_a_text_where_an_answer_ends(taught: Path, tmp_path: Path) -> None:
    ends = [tokenizer.load(taught).specials[name] for name in ("<|endoftext|>", "<|end|>")]
    models.load(taught).save(tmp_path)
    for folder in (taught, tmp_path):
        assert read_json(folder / "generation_config.json")["eos_token_id"] == ends


def test_a_killed_course_continues_bit_for_bit_and_its_command_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, book: Path, finished: Path, tmp_path: Path
) -> None:
    whole = train(teaching(book, finished, tmp_path / "whole", accumulate=2))
    assert f"generate.py {tmp_path / 'whole'} --chat\n" in capsys.readouterr().out
    killed_at(monkeypatch, 7, teaching(book, finished, tmp_path / "killed", accumulate=2))
    train(TrainConfig(resume=str(tmp_path / "killed")))
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert record(tmp_path / "killed")["before"] == record(tmp_path / "whole")["before"]
    assert whole is not None
    assert timeless(repeated(whole.command, tmp_path)) == timeless(tmp_path / "whole")
    assert metrics.read(tmp_path / "whole")[-1]["tokens"] == whole.tokens < 8 * 2 * 4 * 16


def test_a_changed_book_is_refused_on_resume(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, finished: Path, tmp_path: Path
) -> None:
    path = tmp_path / "book.jsonl"
    talk = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    path.write_text(json.dumps(talk), encoding="utf-8")
    killed_at(monkeypatch, 6, teaching(path, finished, tmp_path / "run"))
    path.write_text(json.dumps(talk).replace('"b"', '"c"'), encoding="utf-8")
    error = refusal(capsys, "--resume", tmp_path / "run")
    either = f"what minigrad teaches from {path}, or the model in {finished},"
    assert error.startswith(f"{either} is not the one that {tmp_path / 'run'} began with")


@pytest.mark.parametrize(("objective", "data"), [("sft", ""), ("grpo", "task:arithmetic")])
def test_a_model_that_cannot_generate_is_not_taught_answers(
    book: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], objective: str, data: str
) -> None:
    tok = tokenizer.load(finished)
    tok.save(tmp_path)
    shape = {"vocab_size": tok.vocab_size, "num_layers": 2, "context_length": 32}
    models.build("wiola", size="nano", **shape, gcla_summary="paper").save(tmp_path)
    words = ["--init", tmp_path, "--objective", objective, "--data", data or book, "--out", tmp_path / "run"]
    assert "cannot write one" in refusal(capsys, *words, "--steps", 2)
    assert not (tmp_path / "run").exists()


def test_what_teaching_needs_is_named(
    capsys: pytest.CaptureFixture[str], book: Path, finished: Path, text: Path, tmp_path: Path
) -> None:
    def refused(**changes: Any) -> str:
        return refusal(capsys, *flags(replace(teaching(book, finished, tmp_path / "run"), **changes)))

    assert refused(init=None) == "--objective sft teaches a trained model: name its folder with --init"
    assert refused(data="python-docs").startswith("--objective sft needs --data FILE, a file of conversations")
    assert refused(objective=None, replay=0.5).startswith("--replay is for teaching a trained model: give --objective")
    assert refused(adaptive_context=True).startswith("--adaptive-context is for pre-training")
    assert refused(context=4) == (
        f"{book}, line 1: the conversation has 9 tokens, and --context is 4: shorten it, or take a larger --context if "
        "the model allows one"
    )
    assert "line 1 begins no conversation" in refused(data=str(text))
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def parrot(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has seen some solved problems of copying, so that some of its answers are right."""
    out = tmp_path_factory.mktemp("parrot") / "run"
    train(teaching(Path("task:copying"), finished, out, steps=40, batch=8, context=32, lr=0.02, replay=0.0))
    return out


def practising(start: Path, out: Path, objective: str, **changes: Any) -> TrainConfig:
    how = {"objective": objective, "batch": 16, "context": 32, "steps": 6, "dropout": 0.0}
    return teaching(Path("task:copying"), start, out, **how | changes)


@pytest.mark.parametrize("objective", ["reinforce", "best-of-n", "grpo"])
def test_a_model_practises_and_a_killed_run_continues_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    parrot: Path,
    tmp_path: Path,
    objective: str,
) -> None:
    train(practising(parrot, tmp_path / "whole", objective))
    lines = metrics.read(tmp_path / "whole")
    assert f"reward: {lines[-1]['reward']:.2f} on average" in capsys.readouterr().out
    assert all(0 <= line["reward"] <= 1 for line in lines)
    page = (tmp_path / "whole" / "report.html").read_text(encoding="utf-8")
    assert "Reward" in page
    assert "of 200 unseen problems are answered as they must be to be rewarded" in page
    if objective == "grpo":  # the one with the most to come back to: a reference, and log-probabilities
        killed_at(monkeypatch, 5, practising(parrot, tmp_path / "killed", objective))
        train(TrainConfig(resume=str(tmp_path / "killed")))
        assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def test_a_plan_counts_the_teacher_and_its_share_of_the_tokens(
    monkeypatch: pytest.MonkeyPatch, finished: Path, tmp_path: Path
) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr(description, "describe", lambda plan, _: str(plans.append(plan)))
    for objective, replay in (("reinforce", 0.0), ("reinforce", 0.25), ("grpo", 0.0)):
        train(replace(practising(finished, tmp_path / "run", objective, steps=2), replay=replay, plan=True))
    found = [(each.teacher is not None, each.lessons.read_by_teacher) for each in plans if each.lessons]
    assert found == [(False, 0), (True, 0.25), (True, 1)]


def test_equal_rewards_change_no_weight_and_it_is_said(
    capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path
) -> None:
    """Without a gradient AdamW would still decay the weights, and move them by its averages."""
    train(practising(finished, tmp_path / "run", "grpo", steps=2))
    assert "for every question all answers are equally good, so no weight changes" in capsys.readouterr().out
    before, after = (models.load(folder).state_dict() for folder in (finished, tmp_path / "run"))
    assert {name: each.tobytes() for name, each in before.items()} == {n: each.tobytes() for n, each in after.items()}


def test_what_practice_needs_is_named(
    capsys: pytest.CaptureFixture[str], book: Path, finished: Path, tmp_path: Path
) -> None:
    def refused(**changes: Any) -> str:
        return refusal(capsys, *flags(replace(practising(finished, tmp_path / "run", "grpo"), **changes)))

    assert refused(data="task:copy").startswith("--data task:copy: unknown task 'copy'; did you mean 'copying'?")
    assert refused(data=str(book)).startswith("--objective grpo learns from rewards, which need a task with a checker")
    assert refused(question_noise=0.1).startswith("--question-noise is for --objective sft; grpo reads questions as")
    assert refused(dropout=0.1).startswith("--objective grpo computes probabilities of answers without dropout")
    assert "and --context is 8: take a --context of at least 21" in refused(context=8)
    assert not (tmp_path / "run").exists()


def test_chosen_answers_gain_on_rejected_ones_and_a_killed_run_continues(
    monkeypatch: pytest.MonkeyPatch, finished: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.jsonl"
    asked = [[{"role": "user", "content": word}] for word in WORDS]
    pairs = [{"messages": each, "chosen": "be", "rejected": "or not"} for each in asked]
    path.write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")

    def preferring(out: str) -> TrainConfig:
        return teaching(path, finished, tmp_path / out, objective="dpo", batch=8, lr=0.003, steps=12, dropout=0.0)

    train(preferring("whole"))
    result = record(tmp_path / "whole")["result"]
    assert result["preferred"] == 1
    assert result["margin"] > 0.1
    assert "held-out pairs the chosen answer gained" in (tmp_path / "whole/report.html").read_text(encoding="utf-8")
    killed_at(monkeypatch, 7, preferring("killed"))
    train(TrainConfig(resume=str(tmp_path / "killed")))
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def test_a_teacher_at_the_keyboard_fills_a_journal_that_can_be_learned(
    taught: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"not?\n1\nbe?\nnever.\n")))
    assert generate.main([str(taught), "--teach", "--temperature", "0", "--journal", str(journal)]) == 0
    assert "  1  ton.\n" in capsys.readouterr().out
    lines = [json.loads(line)["messages"] for line in journal.read_text(encoding="utf-8").splitlines()]
    assert [[each["content"] for each in messages] for messages in lines] == [["not?", "ton."], ["be?", "never."]]
    train(teaching(journal, taught, tmp_path / "run", steps=1))
    for words, message in (
        (["--chat"], "leave out --chat"),
        (["--journal", str(tmp_path)], "it is a folder"),
    ):
        assert generate.main([str(taught), "--teach", *words]) == 2
        assert message in capsys.readouterr().err


def test_the_form_of_another_author_is_learned_and_kept(
    book: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a model that was downloaded: nothing but its weights, its tokenizer and its template."""
    pytest.importorskip("jinja2")
    source = shutil.copytree(finished, tmp_path / "theirs", ignore=shutil.ignore_patterns("minigrad.json", "check*"))
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["chat_template"] = "{% for m in messages %}<|system|>{{ m.role }}:\n{{ m.content }}<|end|>{% endfor %}"
    config["chat_template"] += "{% if add_generation_prompt %}<|system|>assistant:\n{% endif %}"
    (source / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    known = record(finished)["settings"]["data"]
    changes: dict[str, Any] = {"replay_text": known, "context": 64, "steps": 6}
    killed_at(monkeypatch, 5, teaching(book, source, tmp_path / "run", **changes))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (source / name).unlink()
    source.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"with the model in \S+theirs, as it was before, even when a run continues"):
        train(TrainConfig(resume=str(tmp_path / "run")))
    (tmp_path / "moved").rename(source)
    train(TrainConfig(resume=str(tmp_path / "run")))
    tok = tokenizer.load(tmp_path / "run")
    ids = tokenizer.load_chat(tmp_path / "run", tok).encode([{"role": "user", "content": "a"}])
    assert tok.decode(ids).replace("<|system|>", "").startswith("user:\na")


def test_lessons_that_cannot_be_taught_are_left_out_only_when_asked(
    capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    talk = [{"role": "user", "content": "to?"}, {"role": "assistant", "content": "ot."}]
    long = [talk[0], talk[1] | {"content": "ot " * 400}]
    lines = [json.dumps({"messages": talk}), '{"mess', json.dumps({"messages": long})]
    journal.write_text("\n".join(lines), encoding="utf-8")
    config = teaching(journal, finished, tmp_path / "run", steps=1, plan=True)
    assert refusal(capsys, *flags(config)).startswith(f"{journal}, line 2 is not a JSON object")
    train(replace(config, skip_broken=True))
    plan = " ".join(capsys.readouterr().out.split())
    assert "1 conversation in" in plan
    assert "line 2 is not a JSON object" in plan
    assert "line 3: the conversation has" in plan
    journal.write_text('{"mess\n', encoding="utf-8")
    error = refusal(capsys, *flags(replace(config, skip_broken=True)))
    assert error.startswith(f"nothing in {journal} can be taught: {journal}, line 1 is not a JSON object")
    other = replace(config, skip_broken=True, objective="grpo", data="task:sorting")
    assert refusal(capsys, *flags(other)).startswith("--skip-broken is for --objective sft and a file of conversations")
    alone = replace(config, skip_broken=True, objective=None, init=None, replay_text=None)
    assert refusal(capsys, *flags(alone)).startswith("--skip-broken is for a file of conversations")
