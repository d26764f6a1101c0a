"""How well a trained model predicts a text: ``python -m minigrad.evaluate RUN``."""
