"""Teaching a trained model: conversations as data, objectives, and the examination afterwards."""
