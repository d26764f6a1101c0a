from __future__ import annotations

import numpy as np

from minigrad.data.tokens.token_files import TokenFile
from minigrad.training.folder.run_folder import fingerprint


def test_the_fingerprint_of_a_text_changes_with_any_token():
    tokens = np.arange(9, dtype=np.uint16)
    one = fingerprint(TokenFile(tokens, 9, None))
    assert fingerprint(TokenFile(tokens.copy(), 8, None)) == one
    tokens[4] += 1
    assert fingerprint(TokenFile(tokens, 9, None)) != one
