"""Teaching a trained model: conversations as data, objectives, and what was learned and forgotten."""
