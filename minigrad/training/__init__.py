"""A training run: its settings and plan, one step after the other, and everything it writes down."""
