"""Models that transformers does not have: the Python files with which it opens their folders.

    python -m minigrad.formats.transformers runs/vidya-v2-nano

vidya_v2/ holds the files for Vidya v2 with shifted keys or added values. They are programs of transformers and PyTorch,
which nothing here imports; they end in .txt, and lose that ending when they are written into a folder.
"""
