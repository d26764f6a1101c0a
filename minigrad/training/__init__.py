"""A training run: its settings and plan, its steps, and the files it writes."""
