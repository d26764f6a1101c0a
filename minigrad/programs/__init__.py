"""The pass of a model over one token, as a program that one loop carries out."""
