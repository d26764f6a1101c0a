"""A context that adapts to what is read, following VSLA's plan: for training and for generation."""
