"""A context that adapts to what is read, after the plan of VSLA: for training, and for writing."""
