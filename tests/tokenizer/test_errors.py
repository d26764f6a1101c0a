from tokenizer.errors import did_you_mean


def test_the_nearest_name_is_suggested():
    assert did_you_mean("tiktokn", ["gpt2", "tiktoken"]) == "; did you mean 'tiktoken'?"
    assert did_you_mean(5, {"gpt2": 1}) == "."
