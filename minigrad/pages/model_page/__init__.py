"""The page with the model inside: one HTML file with the weights, the tokenizer, and an engine in JavaScript.

The engine runs the program that decoding runs (`minigrad.programs`): `export` writes its table of steps and its
weights, and the scripts in the folder `script` carry it out.
"""
