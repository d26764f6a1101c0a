"""Other names of the settings of a training run."""

TRAIN_ALIASES = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "context_length": "context",
    "block_size": "context",
    "iters": "steps",
    "max_steps": "steps",
    "epochs": "minutes",
    "dataset": "data",
    "output": "out",
    "vocab_size": "vocab",
    "gradient_accumulation": "accumulate",
    "num_threads": "threads",
    "dtype": "precision",
}
"""Other names of settings that people type, for suggestions in error messages."""
