"""The command line `python -m tokenizer`: its flags, what each command does, and what it prints.

Nothing in the package imports this room but `__main__`.
"""
