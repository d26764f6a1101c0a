"""What a run tells: lines and progress while it trains, and the figures at its end."""
