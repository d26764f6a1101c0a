"""generate.py --page: one file that holds the model, and clear words where there can be none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import generate as program
import models
import tokenizer
from minigrad import adapters, no_grad
from minigrad.adapters.files import save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, tok = tmp_path_factory.mktemp("run") / "a & <b>", tokenizer.train([], vocab_size=261)
    models.build("vidya-v2", "nano", vocab_size=261, num_layers=2).save(place)
    tok.save(place)
    return place


def refusal(capsys, folder, *arguments: object) -> str:
    assert program.main([str(folder), *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"generate\.py: .+\n", said.err)
    return said.err


def written(capsys, folder, page: Path, *arguments: str) -> str:
    assert program.main([str(folder), "--page", str(page), *arguments]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert f"[{page} holds the model, " in said.err
    return page.read_text(encoding="utf-8")


def content_of(page: str) -> dict:
    return json.loads(re.search(r"id=content>(.*?)</script>", page)[1])


def test_the_page_is_one_file_that_names_no_other(folder, capsys, tmp_path):
    page = written(capsys, folder, tmp_path / "page.html", "--prompt", "</script><b>to be", "--top-k", "7")
    assert "<h1>a &amp; &lt;b&gt;</h1>" in page
    assert "weights in float16" in page
    assert page.count("</script>") == 3
    assert not re.search(r'(?:src|href)=["\']?(?!data:,)[a-z/.]', page)
    content = content_of(page)
    assert content["prompt"] == "</script><b>to be"
    assert not content["chat"]
    assert "id=top-k type=range min=0 max=200 step=1 value=7>" in page
    assert {each["format"] for each in content["model"]["matrices"]} == {"float16", "float32"}


def test_the_weights_have_the_format_that_was_chosen(folder, capsys, tmp_path):
    pages = {name: written(capsys, folder, tmp_path / f"{name}.html", "--quantize", name) for name in ("int8", "int4")}
    formats = {name: {each["format"] for each in content_of(page)["model"]["matrices"]} for name, page in pages.items()}
    assert formats == {"int8": {"int8", "float32"}, "int4": {"int4", "float32"}}
    assert len(pages["int4"]) < len(pages["int8"])


def test_a_model_that_was_taught_conversations_has_them_in_its_page(folder, capsys, tmp_path):
    record = folder / "minigrad.json"
    record.write_text('{"settings": {"objective": "sft"}, "chosen": {}}', encoding="utf-8")
    try:
        assert content_of(written(capsys, folder, tmp_path / "page.html"))["chat"]
    finally:
        record.unlink()


def test_the_tokens_that_the_model_lists_end_a_text_of_the_page(capsys, tmp_path):
    model, tok = models.build("vidya-v2", "nano", vocab_size=261, num_layers=1), tokenizer.train([], vocab_size=261)
    model.end_ids = (70,)
    model.save(tmp_path / "run")
    tok.save(tmp_path / "run")
    assert content_of(written(capsys, tmp_path / "run", tmp_path / "page.html"))["ends"] == sorted(
        {model.config.end_of_text_id, 70, *tok.specials.values()}
    )


def test_what_cannot_be_is_refused_in_a_sentence(folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    for other in (["--chat"], ["--teach"], ["--explain", tmp_path / "x.html"], ["--draft", folder]):
        assert f"leave out {other[0]}" in refusal(capsys, folder, "--page", page, *other)
    assert "give one prompt" in refusal(capsys, folder, "--page", page, "--prompt", "a", "--prompt", "b")
    assert "there is no folder" in refusal(capsys, folder, "--page", tmp_path / "nowhere" / "page.html")
    page.write_text("mine", encoding="utf-8")
    assert "exists and is not overwritten" in refusal(capsys, folder, "--page", page)
    assert page.read_text(encoding="utf-8") == "mine"


def test_a_model_without_a_program_and_a_split_of_ones_own_have_no_page(capsys, tmp_path):
    models.build("vsla", "nano", vocab_size=261, patterns="learned").save(tmp_path / "learned")
    tokenizer.train([], vocab_size=261).save(tmp_path / "learned")
    assert "this model has none" in refusal(capsys, tmp_path / "learned", "--page", tmp_path / "page.html")
    models.build("vidya-v2", "nano", vocab_size=261, num_layers=2).save(tmp_path / "own")
    tokenizer.train([], vocab_size=261, split=r"[\p{L}]+|[^\p{L}]+").save(tmp_path / "own")
    assert "a web page splits text as" in refusal(capsys, tmp_path / "own", "--page", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_adapters_are_in_the_weights_of_the_page(folder, capsys, tmp_path):
    model, changed = models.load(folder), tmp_path / "adapted"
    adapters.adapt(model, rank=2)
    with no_grad():
        for layer in adapters.adapted(model).values():
            layer.adapter.lora_B.weight[...] = 0.5
    save(model, changed, folder)
    tokenizer.load(folder).save(changed)
    pages = [written(capsys, each, tmp_path / f"{each.name}.html") for each in (folder, changed)]
    plain, adapted = (re.search(r"id=weights>(.*?)</script>", page)[1] for page in pages)
    assert len(plain) == len(adapted)
    assert plain != adapted


def test_a_run_in_float64_becomes_a_page(folder, capsys, tmp_path):
    models.load(folder, dtype="float64").save(tmp_path / "run")
    tokenizer.load(folder).save(tmp_path / "run")
    page = written(capsys, tmp_path / "run", tmp_path / "page.html")
    assert content_of(page)["model"] == content_of(written(capsys, folder, tmp_path / "other.html"))["model"]
