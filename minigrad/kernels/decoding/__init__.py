"""Writing token by token: the whole pass of a model over one token of each text, as one call of one loop."""
