"""GGUF, the file that llama.cpp runs: the weights, the shape of the model, its tokenizer and its chat template in one.

    python -m minigrad.formats.gguf runs/gpt2-nano --type q8_0

container.py is the layout of the file and the types of its arrays; network.py translates config.json and
model.safetensors into llama.cpp's names, vocabulary.py does so with tokenizer.json.
"""
