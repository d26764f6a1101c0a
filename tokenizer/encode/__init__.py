"""From text to token ids with a given vocabulary, all at once or in a stream. Nothing here learns or reads files."""
