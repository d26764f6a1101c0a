"""Serving models: an API for any client of OpenAI's, many texts at once, each the same as if it were written alone."""
