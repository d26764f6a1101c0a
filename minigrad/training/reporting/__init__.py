"""What a run tells: lines and progress while it trains, metrics.jsonl, and the figures at its end."""
