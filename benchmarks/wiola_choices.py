"""Wiola's choices: the paper's are changed, one at a time, and trained on equally many tokens.

They are how many layers of summaries (Lambda), the similarity above which neighbours merge (tau), and what summarises a
layer. The alternatives to the mean over the tokens so far are the token's own row, a mean whose weights a query learns
(d parameters a layer), and a maximum, which is soft so that it can be a mean as well. One seed each: differences of
0.01 bits are within the spread of seeds. What Wiola loses without a part: evaluation/studies/wiola_without.toml.

    python benchmarks/wiola_choices.py runs/choices --tokens 1228800

Stop the script at any moment, and give the same command again: finished variants are kept, and one that was stopped
continues.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from machine import describe_machine

from minigrad.system import hardware  # isort: skip  (before NumPy)


from minigrad.system.files import write_text


def choices() -> dict[str, Any]:
    """Return the models with one choice changed, by name."""
    from minigrad import ops
    from minigrad.autograd.tensor import Tensor
    from minigrad.nn import Layout
    from minigrad.nn.parameter import Init, Parameter
    from models.wiola import Wiola, WiolaConfig
    from models.wiola.operations.prefix_mean import prefix_mean

    class OwnRow(Wiola):
        """Without pooling: the summary of a layer at a token is the layer's row of the token."""

        def _summary(self, x: Tensor, layout: Layout, cache: Any, index: int) -> Tensor:
            return x

    class Learned(OwnRow):
        """A mean whose weights are exponentials of products with a query that is learned."""

        def __init__(self, config: WiolaConfig) -> None:
            super().__init__(config)
            self.queries = [Parameter((config.width, 1), Init()) for _ in range(config.num_layers)]

        def _summary(self, x: Tensor, layout: Layout, cache: Any, index: int) -> Tensor:
            weights = ops.exp(x @ self.queries[index] * x.shape[1] ** -0.5)
            top, bottom = (prefix_mean(each, offsets=layout.offsets) for each in (x * weights, weights))
            return top / bottom

    swept = {f"Lambda {n}": (Wiola, f"gcla_lookback={n}") for n in (1, 3, 5)}
    swept |= {f"tau {tau}": (Wiola, f"atm_threshold={tau}") for tau in (0.7, 0.85, 0.97)}
    pooled = {"no pooling": OwnRow, "learned mean": Learned}
    return {"the paper's": (Wiola, ""), **swept, **{name: (make, "") for name, make in pooled.items()}}


def train_variant(make: Any, changes: str, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train a variant in place of Wiola, or continue its run; return what came of it."""
    import models
    from minigrad.training.folder import metrics
    from minigrad.training.folder.record import Record
    from minigrad.training.settings import TrainConfig
    from models import wiola
    from models.registry import Family
    from train import train

    models.FAMILIES["wiola"] = Family(make, wiola.WiolaConfig, wiola.SIZES)
    new = TrainConfig(
        model="wiola",
        size="nano",
        data=options.data,
        tokens=options.tokens,
        set=changes or None,
        out=str(out),
        seed=options.seed,
        threads=options.threads,
        sample_every=10**9,
    )
    train(TrainConfig(resume=str(out)) if (out / "minigrad.json").exists() else new)
    record, lines = Record.read(out), metrics.read(out)
    speeds = sorted(line["tokens_per_second"] for line in lines)
    return {
        "parameters": record.parameters,
        "bits_per_byte": record.result["bits_per_byte"],
        "tokens_per_second": speeds[len(speeds) // 2],
        "seconds": lines[-1]["seconds"],
        "merge_ratio": lines[-1].get("merge_ratio"),
    }


def main() -> None:
    """Train every variant that is not there yet, and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the runs are; each command needs one of its own")
    parser.add_argument("--tokens", type=int, default=1_500_000)
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="default: all")
    parser.add_argument("--only", type=int, help="train the variant of this number, from 0 on, and print no table")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    hardware.prepare(options.threads)
    print(describe_machine())

    results = []
    for number, (name, (make, changes)) in enumerate(choices().items()):
        if options.only not in (None, number):
            continue
        kept = options.folder / f"{number}.json"
        if not kept.exists():
            found = train_variant(make, changes, options.folder / str(number), options)
            write_text(kept, json.dumps({"variant": name, **found}))
        results.append(json.loads(kept.read_text(encoding="utf-8")))
    if options.only is not None:
        return
    print(f"\nWiola nano, {options.tokens:,} tokens of {options.data}\n")
    print("| variant | parameters | bits per byte | against the first | tokens/s |\n| --- | --: | --: | --: | --: |")
    for each in results:
        difference = each["bits_per_byte"] - results[0]["bits_per_byte"]
        print(
            f"| {each['variant']} | {each['parameters']:,} | {each['bits_per_byte']:.3f} | {difference:+.3f} | "
            f"{each['tokens_per_second']:,.0f} |"
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
