"""What the pages say of single studies is what the tables of their runs give."""

from __future__ import annotations

import re
from itertools import chain, pairwise

import numpy as np
import pytest

from benchmarks.evaluation.intervals import holm, over_seeds, over_seeds_and_documents
from benchmarks.evaluation.report import compare, paired
from benchmarks.evaluation.results import nats, score
from docs.measurements.records import read
from minigrad.evaluate.losses import bits_per_byte
from tests.benchmarks.evaluation.tables import FOLDER, difference, floats, judged, load, of_table, shown

GELU, RATES = "Llama, GELU in place of SwiGLU", "wiola_or_llama_rates"


@pytest.mark.parametrize(("part", "text"), [("documents", "validation"), ("test", "test")])
def test_the_comparisons_beside_the_study_of_rates_are_what_its_runs_give(part: str, text: str) -> None:
    record = read()["wiola-or-llama-rates"]
    (printed,) = record.values(f"GELU minus Wiola, {text}")
    expected = shown(difference(GELU, "Wiola", RATES, part=part))
    assert floats(printed) == pytest.approx(expected, abs=1e-4)
    (printed,) = record.values("Wiola, all twelve pairs, validation and test")
    expected = shown(difference("Wiola", "Llama", RATES, "wiola_or_llama", part=part))[:3]
    place = 3 * (part == "test")
    assert floats(printed)[place : place + 3] == pytest.approx(expected, abs=1e-4)


def test_the_figures_of_the_test_text_are_what_the_runs_give() -> None:
    record = read()["wiola-or-llama-rates"]
    corrected = holm([difference(arm, "Llama", RATES, part="test").p_differs() for arm in ("Wiola", GELU)])
    for arm, name, p in (("Wiola", "Wiola", corrected[0]), (GELU, "GELU", corrected[1])):
        (printed,) = record.values(f"test text, {name}: difference, interval, p")
        expected = [*shown(difference(arm, "Llama", RATES, part="test"))[:3], p]
        assert floats(printed) == pytest.approx(expected, abs=1e-4)
    arms = ("sparse", "adaptive", "full, adaptive context")
    found = [difference(arm, "full", "vsla_patterns_time", part="test") for arm in arms]
    for arm, each, p in zip(arms, found, holm([each.p_differs() for each in found]), strict=True):
        (printed,) = read()["vsla-patterns-time"].values(f"test text, {arm}: difference, interval, p")
        assert floats(printed) == pytest.approx([*shown(each)[:3], p], abs=1e-4)
    for name in ("wiola_or_llama_code", "wiola_or_llama_code_time", "wiola_or_llama_micro", "wiola_adamw"):
        (printed,) = read()[name.replace("_", "-")].values("test text, Wiola: difference, interval, p")
        assert floats(printed) == pytest.approx(shown(difference("Wiola", "Llama", name, part="test")), abs=1e-4)
    for corpus, name in enumerate(("python-docs", "python-source")):
        (printed,) = read()["ngram-memory"].values(f"test text, {name}: difference, interval, p")
        expected = shown(difference("with tables", "without", "ngram_memory", part="test", corpus=corpus))
        assert floats(printed) == pytest.approx(expected, abs=1e-4)


def test_what_is_said_of_single_runs_is_what_they_give() -> None:
    study, results = load("wiola_or_llama_micro")
    (comparison,), record = study.comparisons(), read()["wiola-or-llama-micro"]
    wiola, llama = (results.of(comparison, arm) for arm in ("Wiola", "Llama"))
    (printed,) = record.values("differences of the pairs")
    apart = [score(wiola[seed], 256) - score(llama[seed], 256) for seed in sorted(llama)]
    assert floats(printed) == pytest.approx(apart, abs=1e-4)
    seconds = [sum(run["seconds"] for run in runs.values()) for runs in (wiola, llama)]
    assert record.value("processor time of a step of Wiola") == pytest.approx(seconds[0] / seconds[1], abs=0.005)
    study, results = load("wiola_or_llama_code_time")
    wiola, llama = (results.of(study.comparisons()[0], arm) for arm in ("Wiola", "Llama"))
    apart = [score(wiola[seed], 256) - score(llama[seed], 256) for seed in sorted(llama)]
    (printed,) = read()["wiola-or-llama-code-time"].values("differences of the pairs")
    assert floats(printed) == pytest.approx(apart, abs=5.1e-4)
    study, results = load("vsla_patterns_time")
    full = results.of(study.comparisons()[0], "full")
    (printed,) = read()["vsla-patterns-time"].values("steps with full attention and a fixed context")
    assert [int(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", printed)] == [
        full[seed]["steps"] for seed in sorted(full)
    ]


def test_local_attention_leads_on_longer_sequences_in_every_pair_and_on_both_texts() -> None:
    study, results = load("vsla_patterns_1024")
    (comparison,), record = study.comparisons(), read()["vsla-patterns-1024"]
    full, local = (results.of(comparison, arm) for arm in ("full", "local"))
    for part in ("documents", "test"):
        apart = [score(local[seed], 1024, part) - score(full[seed], 1024, part) for seed in full]
        assert max(apart) < 0
        if part == "documents":
            (printed,) = record.values("single pairs, local")
            assert floats(printed) == pytest.approx([max(apart), min(apart)], abs=5.1e-5)
    steps = [sum(run["steps"] for run in runs.values()) for runs in (local, full)]
    more = 100 * (steps[0] / steps[1] - 1)
    assert record.value("steps of local attention, more than full") == pytest.approx(more, abs=0.5)
    found = [difference(arm, "full", study.path.stem, part="test") for arm in ("local", "pyramid")]
    (printed,) = record.values("test text, local: difference, interval, p")
    p = holm([each.p_differs() for each in found])[0]
    assert floats(printed) == pytest.approx([*shown(found[0])[:3], p], abs=1e-4)


def test_what_is_said_of_merging_in_a_llama_is_what_the_runs_give() -> None:
    study, results = load("wiola_added_merging")
    (comparison,), record = study.comparisons(), read()["wiola-added-merging"]
    llama, merged, leaking = (results.of(comparison, arm.name) for arm in study.arm)
    (printed,) = record.values("on the test text")
    found = shown(difference("with merging", "Llama", study.path.stem, part="test"))
    assert floats(printed)[:3] == pytest.approx(found[:3], abs=5.1e-4)
    assert floats(printed)[3] == pytest.approx(found[3], abs=5.1e-3)
    apart = [score(merged[seed], 256) - score(llama[seed], 256) for seed in llama]
    (printed,) = record.values("single pairs, merging")
    assert floats(printed) == pytest.approx([min(apart), max(apart)], abs=5.1e-4)
    (printed,) = record.values("merged in the last step")
    shares = [100 * np.mean([each["merge_ratio"] for each in runs.values()]) for runs in (merged, leaking)]
    assert floats(printed) == pytest.approx(shares, abs=0.051)
    assert all(score(leaking[seed], 256) > score(llama[seed], 256) for seed in leaking)


def test_what_is_said_of_merging_and_recall_is_what_the_runs_give() -> None:
    study, results = load("wiola_merging_recall")
    (comparison,), record, arms = study.comparisons(), read()["wiola-merging-recall"], [arm.name for arm in study.arm]
    of_arm = {arm: results.of(comparison, arm) for arm in arms}
    repeated = {arm: {seed: nats(run, 256)[0] for seed, run in runs.items()} for arm, runs in of_arm.items()}
    all_runs = [each for runs in repeated.values() for each in runs.values()]
    (printed,) = record.values("nats, repeated pairs: least and most of all runs")
    assert floats(printed) == pytest.approx([min(all_runs), max(all_runs)], abs=5.1e-3)
    both = [arm for arm in arms if arm.startswith("from 0.4")]
    lost = [repeated[arm][seed] - nats_of_control for arm in both for seed, nats_of_control in repeated["off"].items()]
    (printed,) = record.values("nats, repeated pairs: least and most of what the arms from 0.4 lose in a pair")
    assert floats(printed) == pytest.approx([min(lost), max(lost)], abs=5.1e-4)
    assert all(score(of_arm[arm][seed], 256) > score(run, 256) for arm in both for seed, run in of_arm["off"].items())
    rows = np.concatenate([run["documents"]["256"] for run in of_arm["off"].values()])
    for pairs, printed in read()["wiola-merging-recall-by-pairs"].figures.items():
        of_size = rows[rows[:, 0] == 20 * int(pairs)].sum(axis=0)  # a pair is told in ten bytes, and asked in as many
        assert [float(each) for each in printed] == pytest.approx(
            [of_size[4] / of_size[3], np.log(int(pairs))], abs=5.1e-3
        )
    found = [difference(arm, "off", study.path.stem, part="test") for arm in arms[1:]]
    for arm, each, p in zip(arms[1:], found, holm([each.p_differs() for each in found]), strict=True):
        (printed,) = record.values(f"test text, difference and p: {arm}")
        assert floats(printed) == pytest.approx([each.mean, p], abs=1e-4)


def test_what_is_said_of_merging_where_recall_has_formed_is_what_the_runs_give() -> None:
    study, results = load("wiola_merging_recall_few")
    (comparison,), record = study.comparisons(), read()["wiola-merging-recall-few"]
    of_arm = {arm.name: results.of(comparison, arm.name) for arm in study.arm}
    arms = list(of_arm)
    apart = {
        arm: [
            np.sum(run["documents"]["256"], axis=0) - np.sum(of_arm["off"][seed]["documents"]["256"], axis=0)
            for seed, run in of_arm[arm].items()
        ]
        for arm in arms[1:]
    }
    pairs = [score(run, 256) - score(of_arm["off"][seed], 256) for arm in arms[1:] for seed, run in of_arm[arm].items()]
    (printed,) = record.values("single pairs, all arms: least and most")
    assert floats(printed) == pytest.approx([min(pairs), max(pairs)], abs=5.1e-5)
    shares = [100 * found[4] / found[2] for found in (np.sum(each, axis=0) for each in apart.values())]
    (printed,) = record.values("share of repeated pairs in the difference: least and most")
    assert [int(each) for each in re.findall(r"\d+", printed)] == [round(min(shares)), round(max(shares))]
    found = [difference(arm, "off", study.path.stem, part="test") for arm in arms[1:]]
    for name, wanted in (("differences", [each.mean for each in found]), ("p", holm([e.p_differs() for e in found]))):
        (printed,) = record.values(f"test text, {name}")
        assert floats(printed) == pytest.approx(wanted, abs=5.1e-5)


def test_the_least_loss_of_repeated_pairs_is_that_of_a_reader_who_cannot_know_the_next_key() -> None:
    for name, printed in read()["wiola-merging-recall-few-by-pairs"].figures.items():
        pairs = int(name)
        chance = 1 / pairs  # that the next key is the one that was told after this value
        unknown = chance * sum(np.log(left) for left in range(1, pairs))
        asked = pairs + chance * (pairs - 1)  # tokens that complete a pair: all values, and such keys
        assert [float(each) for each in printed[2:]] == pytest.approx([unknown / asked, np.log(pairs)], abs=5.1e-3)


@pytest.mark.parametrize(("column", "arm"), [(0, "off"), (1, "from 0")])
def test_the_losses_by_pairs_add_up_to_the_loss_of_the_table(column: int, arm: str) -> None:
    """Documents of one pair to four are equally frequent, and nearly free with one pair."""
    by_pairs, record = read()["wiola-merging-recall-few-by-pairs"], read()["wiola-merging-recall-few"]
    asked = {pairs: pairs + (pairs - 1) / pairs for pairs in range(1, 5)}
    total = sum(asked[int(name)] * float(printed[column]) for name, printed in by_pairs.figures.items())
    assert record.value(arm, "nats, repeated pairs") == pytest.approx(total / sum(asked.values()), abs=1e-3)


def test_both_changes_of_the_second_round_lead_in_every_pair() -> None:
    study, results, _ = of_table(FOLDER / "tables" / "nano_settings-round-2.json.gz")
    (comparison,) = study.comparisons()
    control, ends = results.of(comparison, study.control), list[float]()
    for arm in ("2 heads of 48", "beta2 0.99"):
        runs = results.of(comparison, arm)
        apart = [score(runs[seed], 256) - score(control[seed], 256) for seed in control]
        ends += [max(apart), min(apart)]
    (printed,) = read()["nano-settings-round-2"].values("single pairs: 2 heads, beta2")
    assert floats(printed) == pytest.approx(ends, abs=5.1e-4)


def test_updates_with_equal_rows_lead_in_every_pair_and_those_of_polar_express_in_three() -> None:
    study, results, _ = of_table(FOLDER / "tables" / "nano_muon-round-2.json.gz")
    (comparison,) = study.comparisons()
    control, led = results.of(comparison, study.control), {}
    for arm in ("equal rows", "polar express"):
        runs = results.of(comparison, arm)
        led[arm] = [score(runs[seed], 256) - score(control[seed], 256) for seed in control]
    (printed,) = read()["nano-muon-round-2"].values("single pairs, equal rows")
    assert floats(printed) == pytest.approx([max(led["equal rows"]), min(led["equal rows"])], abs=5.1e-5)
    assert sum(each < 0 for each in led["polar express"]) == 3


def test_what_is_said_of_two_heads_is_what_the_runs_give() -> None:
    study, results = load("nano_heads")
    (comparison,), record, name = study.comparisons(), read()["nano-heads"], study.path.stem
    control, arms = results.of(comparison, study.control), [arm.name for arm in study.arm[1:]]
    ends = list[float]()
    for arm in arms:
        runs = results.of(comparison, arm)
        apart = [score(runs[seed], 256) - score(control[seed], 256) for seed in control]
        ends += [max(apart), min(apart)]
    (printed,) = record.values("single pairs: beta2; both")
    assert floats(printed) == pytest.approx(ends, abs=5.1e-4)
    found = [difference(arm, study.control, name, part="test") for arm in arms]
    corrected = holm([each.p_differs() for each in found])
    wanted = [[*shown(each)[:3], p] for each, p in zip(found, corrected, strict=True)]
    (printed,) = record.values("on the test text: beta2; both")
    assert floats(printed) == pytest.approx([*chain.from_iterable(wanted)], abs=5.1e-4)
    runs, transforms = [results.of(comparison, arm) for arm in (*arms, study.control)], 40
    bits, sizes = zip(*(paired(of_arm, runs[-1], 256, "test") for of_arm in runs[:-1]), strict=True)
    sizes_without = np.delete(sizes[0], transforms)
    without = [over_seeds(np.delete(each, transforms, axis=1), sizes_without) for each in bits]
    (printed,) = record.values("on the test text; without the docstrings of numba.core.transforms: beta2; both")
    assert printed.startswith(f"{len(sizes[0])} documents")
    assert floats(printed) == pytest.approx([each.mean for each in without], abs=5.1e-5)
    assert bits[0][:, transforms].sum() / bits[0].sum() > 0.5  # half of the difference of beta2
    needed = [bits_per_byte(run["test"]["256"][transforms][2], sizes[0][transforms]) for run in runs[-1].values()]
    (printed,) = record.values("the control on these docstrings, least and most")
    assert floats(printed) == pytest.approx([min(needed), max(needed)], abs=5.1e-3)
    (printed,) = record.values("both against beta2 alone: validation; test")
    heads = [shown(difference(arms[1], arms[0], name, part=part)) for part in ("documents", "test")]
    assert floats(printed) == pytest.approx([*chain.from_iterable(heads)], abs=5.1e-4)


def test_what_is_said_of_the_heads_of_micro_is_what_the_runs_give() -> None:
    study, results = load("micro_heads")
    (comparison,), record, arm = study.comparisons(), read()["micro-heads"], study.arm[1].name
    control, runs = results.of(comparison, study.control), results.of(comparison, arm)
    apart = [score(runs[seed], 256) - score(control[seed], 256) for seed in control]
    (printed,) = record.values("single pairs")
    assert floats(printed) == pytest.approx([max(apart), min(apart)], abs=5.1e-4)
    on_validation, on_test = (
        difference(arm, study.control, study.path.stem, part=part) for part in ("documents", "test")
    )
    assert floats(" ".join(record.values(arm)[2:5])) == pytest.approx([*shown(on_validation)], abs=5.1e-4)
    (printed,) = record.values("on the test text")
    assert floats(printed) == pytest.approx([*shown(on_test)], abs=5.1e-4)


LEFT_OUT = ["wiola_micro_without", "wiola_without_time", "wiola_without_code", "wiola_gate_offset_code"]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_wiola_loses_without_one_of_its_parts_is_what_the_runs_give(name: str) -> None:
    study, results = load(name)
    (comparison,), record = study.comparisons(), read()[name.replace("_", "-")]
    whole = results.of(comparison, "Wiola")
    arms = [arm.name for arm in study.arm if arm.name != "Wiola"]
    on_test = [shown(difference(arm, "Wiola", name, part="test")) for arm in arms]
    corrected = holm([p for *_, p in on_test])
    for arm, (*estimate, _), p in zip(arms, on_test, corrected, strict=True):
        less, part = results.of(comparison, arm), arm.partition(" (")[0]
        apart = [score(less[seed], 256) - score(whole[seed], 256) for seed in sorted(whole)]
        if f"single pairs, {part}" in record.figures:
            (printed,) = record.values(f"single pairs, {part}")
            assert floats(printed) == pytest.approx(apart, abs=5.1e-5)
        (printed,) = record.values(f"on the test text, {part}")
        assert floats(printed) == pytest.approx([*estimate, p], abs=5.1e-5)


def test_the_pairs_of_wiola_without_its_offset_scatter_as_is_said() -> None:
    study, results = load("wiola_gate_offset_code")
    control, _, plain = judged(study, results, study.comparisons()[0], 256).values()
    apart = np.subtract(plain.compared.scores, control.compared.scores)
    record = read()["wiola-gate-offset-code"]
    printed = record.value("scatter of the pairs without the offset")
    assert printed == pytest.approx(np.std(apart, ddof=1), abs=5.1e-5)
    (earlier,) = record.values("in the four pairs of the study before: gate, offset")
    before = [
        read()["wiola-without-code"].values(arm)[2] for arm in ("without the gate", "without the offset (RMSNorm)")
    ]
    assert floats(earlier) == [floats(each)[0] for each in before]


@pytest.mark.parametrize(("part", "text"), [("documents", "validation"), ("test", "test")])
def test_what_is_said_of_the_two_versions_of_vidya_is_what_the_runs_give(part: str, text: str) -> None:
    record = read()["key-shift"]
    for row, arm, control in (
        (f"gain by shifted keys, {text}: v2", "v2, shifted keys", "v2 as published"),
        (f"gain by shifted keys, {text}: v1", "v1, shifted keys", "v1 as published"),
        (f"v1 minus v2, both with shifted keys, {text}", "v1, shifted keys", "v2, shifted keys"),
    ):
        (printed,) = record.values(row)
        assert floats(printed) == pytest.approx(shown(difference(arm, control, "key_shift", part=part))[:3], abs=5.1e-5)


def test_what_is_said_of_the_two_versions_of_vidya_in_equal_time_is_what_the_runs_give() -> None:
    study, results = load("vidya_time")
    (comparison,), record = study.comparisons(), read()["vidya-time"]
    v1, v2 = (results.of(comparison, f"{name}, shifted keys") for name in ("v1", "v2"))
    (printed,) = record.values("differences of the pairs")
    assert floats(printed) == pytest.approx([score(v1[s], 256) - score(v2[s], 256) for s in sorted(v1)], abs=5.1e-5)
    (printed,) = record.values("test text, v1: difference, interval, p")
    of_test = difference("v1, shifted keys", "v2, shifted keys", "vidya_time", part="test")
    assert floats(printed) == pytest.approx(shown(of_test), abs=5.1e-5)


def scatter_of_pairs(name: str, length: int) -> float:
    """Return the standard deviation of paired differences, pooled over the arms of a study."""
    study, results = load(name)
    control, *others = judged(study, results, study.comparisons()[0], length).values()
    apart = [np.subtract(each.compared.scores, control.compared.scores) for each in others]
    return float(np.sqrt(np.var(apart, axis=1, ddof=1).mean()))


def test_what_is_said_of_vidya_without_a_change_on_source_code_is_what_the_runs_give() -> None:
    study, results = load("vidya_without_code")
    (comparison,), record = study.comparisons(), read()["vidya-without-code"]
    whole = results.of(comparison, study.control)
    for length in study.judged:
        plain = results.of(comparison, "without SwiGLU")
        (printed,) = record.values(f"single pairs, without SwiGLU, {length}")
        apart = [score(plain[seed], length) - score(whole[seed], length) for seed in sorted(whole)]
        assert floats(printed) == pytest.approx(apart, abs=5.1e-5)
    wide = results.of(comparison, "4 layers of 96, not 9 of 64")
    times = [np.mean([run["seconds"] for run in runs.values()]) for runs in (whole, wide)]
    assert record.value("processor time of nine layers of 64, of four of 96") == pytest.approx(
        times[0] / times[1], abs=5e-3
    )
    sizes = [next(iter(runs.values()))["parameters"] for runs in (wide, whole)]
    more = record.value("parameters of four layers of 96, more than nine of 64")
    assert more == pytest.approx(100 * (sizes[0] / sizes[1] - 1), abs=0.5)
    (printed,) = record.values("scatter of pairs here, 64, 256; on python-docs")
    names = ("vidya_without_code", "vidya_without")
    scatter = [scatter_of_pairs(name, length) for name in names for length in study.judged]
    assert floats(printed) == pytest.approx(scatter, abs=5.1e-5)
    opened = {length: judged(study, results, comparison, length, "test") for length in study.judged}
    for arm in (each.name for each in study.arm if each.name != study.control):
        (printed,) = record.values(f"on the test text, 64 and 256: {arm}")
        expected = [each for found in opened.values() for each in (found[arm].compared.both.mean, found[arm].p)]
        assert floats(printed) == pytest.approx(expected, abs=5.1e-5)


def test_a_second_answer_to_the_question_of_an_ablation_is_corrected_for_both() -> None:
    study, results = load("wiola_without_code")
    (printed,) = read()["wiola-without-code"].values(
        "p of dual streams, also corrected for the ablation: validation, test"
    )
    found = [
        judged(study, results, study.comparisons()[0], 256, part)["without dual streams (SwiGLU)"].p
        for part in ("documents", "test")
    ]
    assert floats(printed) == pytest.approx([2 * (p or 0) for p in found], abs=5.1e-4)


def test_all_llamas_with_gelu_had_learned_to_copy_and_no_other_run_of_the_study() -> None:
    study, results = load(RATES)
    by_arm = {
        arm.name: [nats(run, 256)[0] for run in results.of(study.comparisons()[0], arm.name).values()]
        for arm in study.arm
    }
    ends = floats(read()["wiola-or-llama-rates"].values("nats, repeated pairs, of the four GELU")[0])
    assert ends == pytest.approx([min(by_arm[GELU]), max(by_arm[GELU])], abs=5.1e-3)
    assert ends[1] < 2.2 < min(min(found) for name, found in by_arm.items() if name != GELU)


@pytest.mark.parametrize("name", ["GELU", "squared ReLU"])
def test_what_is_said_of_plain_blocks_in_the_default_model_is_what_the_runs_give(name: str) -> None:
    study, results = load("nano_gelu_again")
    (comparison,), record, arm = study.comparisons(), read()["nano-gelu-again"], f"{name} in place of SwiGLU"
    gated, plain = (results.of(comparison, each) for each in (study.control, arm))
    apart = [score(plain[seed], 256) - score(gated[seed], 256) for seed in gated]
    assert max(apart) < 0  # lower in each pair
    found = judged(study, results, comparison, 256, "test")[arm]
    (printed,) = record.values(f"test text, {name}: difference, interval, p")
    both = found.compared.both
    assert floats(printed) == pytest.approx([both.mean, *both.interval(), found.p], abs=5.1e-5)


def test_what_is_said_of_a_larger_vocabulary_is_what_the_runs_give() -> None:
    study, results = load("nano_vocabulary")
    (comparison,), record = study.comparisons(), read()["nano-vocabulary"]
    few, many = (results.of(comparison, arm.name) for arm in study.arm)
    (printed,) = record.values("single pairs")
    apart = [score(many[seed], 256) - score(few[seed], 256) for seed in few]
    assert floats(printed) == pytest.approx([min(apart), max(apart)], abs=5.1e-5)
    (printed,) = record.values("over the seeds alone, validation")
    (compared,) = compare(study, results, comparison, 256, "documents")[1:]
    assert floats(printed) == pytest.approx(compared.seeds.interval(), abs=5.1e-5)
    assert record.value("p, within the margin") == pytest.approx(compared.both.p_equivalent(study.margin), abs=5.1e-3)
    (printed,) = record.values("on the test text")
    both = difference("8,192 tokens", "4,096 tokens", "nano_vocabulary", part="test")
    assert floats(printed) == pytest.approx(shown(both), abs=5.1e-5)
    steps = [np.mean([run["steps"] for run in runs.values()]) for runs in (few, many)]
    assert record.value("steps, fewer with 8,192 tokens") == round(100 * (1 - steps[1] / steps[0]))


def test_what_each_change_of_the_defaults_contributed_is_what_the_runs_give() -> None:
    study, results = load("nano_attribution")
    record, each, arms = read()["nano-attribution"], read()["nano-attribution-of-each"], [arm.name for arm in study.arm]
    for part, first in (("documents", 0), ("test", 3)):
        found = [difference(arm, before, study.path.stem, part=part) for before, arm in pairwise(arms)]
        for arm, change, p in zip(arms[1:], found, holm([change.p_differs() for change in found]), strict=True):
            printed = " ".join(each.values(arm.removeprefix("and "))[first : first + 3])
            assert floats(printed) == pytest.approx([*shown(change)[:3], p], abs=1e-4)
    for name, part in (("all three together: gain, interval", "documents"), ("the same on the test text", "test")):
        mean, low, high = shown(difference(arms[-1], arms[0], study.path.stem, part=part))[:3]
        (printed,) = record.values(name)
        assert floats(printed) == pytest.approx([-mean, -high, -low], abs=1e-4)
    runs = [results.of(study.comparisons()[0], arm).values() for arm in arms]
    scores = [[score(run, 256) for run in of_arm] for of_arm in runs]
    assert all(np.less(lower, higher).all() for higher, lower in pairwise(scores))  # each row, in each pair
    (printed,) = record.values("the three runs of the first row")
    assert floats(printed) == pytest.approx(scores[0], abs=1e-4)
    slow, fast = (sum(run["tokens"] for run in of_arm) for of_arm in runs[:2])
    assert record.value("text read with bfloat16 for that with float32") == pytest.approx(fast / slow, abs=0.05)


def test_three_controls_of_the_second_study_of_vidya_are_those_of_the_first() -> None:
    study, results = load("vidya_without")
    (comparison,), (first, earlier) = study.comparisons(), load("vidya_short")
    known = earlier.of(first.comparisons()[0], "all five")
    control = results.of(comparison, "all five")
    shared = {seed for seed in control.keys() & known.keys() if control[seed]["documents"] == known[seed]["documents"]}
    assert shared == {0, 1, 2}
    new, found = control.keys() - known.keys(), list[float]()
    for arm in ("without SwiGLU", "vocabulary of 512, not 2,048"):
        runs = results.of(comparison, arm)
        bits, sizes = paired(*({seed: of[seed] for seed in sorted(new)} for of in (runs, control)), 64, "documents")
        found += shown(over_seeds_and_documents(bits, sizes))[:3]
    (printed,) = read()["vidya-without"].values("the three new seeds alone: without SwiGLU; vocabulary of 512")
    assert floats(printed) == pytest.approx(found, abs=1.1e-3)
