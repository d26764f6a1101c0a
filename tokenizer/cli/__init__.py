"""The command line `python -m tokenizer`: its flags, what each command does, and what it prints."""
