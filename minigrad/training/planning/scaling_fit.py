"""How a scaling law is found from measurements: three numbers are searched for, the other three follow from them.

With alpha, beta and R given, the law $L = E + A N^{-\\alpha} + B D'^{-\\beta}$ is linear in E, A and B: a least-squares
problem. So a grid of (alpha, beta, R) is tried, then a finer one around the best of it, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minigrad.training.planning.scaling import Law, Point
from minigrad.typing import Array

_GRID, _ROUNDS, _SHRINK = 9, 14, 0.6  # places on each axis, searches, and the width of each relative to that before
_LOWEST, _HIGHEST = (0.02, 0.02, 0.0), (1.5, 1.5, 6.0)  # alpha, beta and the logarithm of R


def fit(points: Iterable[Point]) -> Law:
    """Return the law with the smallest sum of squared errors, with E, A and B at least 0.

    Needs models of at least three sizes, and texts of at least three lengths, to say anything.
    """
    found = list(points)
    low, high = np.array(_LOWEST), np.array(_HIGHEST)
    center, width, law = (low + high) / 2, high - low, None
    for _ in range(_ROUNDS):
        axes = [
            np.linspace(max(middle - wide / 2, least), min(middle + wide / 2, most), _GRID)
            for middle, wide, least, most in zip(center, width, low, high, strict=True)
        ]
        tried = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        errors, coefficients = _solve(found, tried)
        best = int(errors.argmin())
        center, width = tried[best], width * _SHRINK
        (alpha, beta, repeats), (entropy, a, b) = tried[best].tolist(), coefficients[best].tolist()
        law = Law(entropy, a, alpha, b, beta, float(np.exp(repeats)))
    assert law is not None
    return law


def _solve(points: list[Point], tried: Array) -> tuple[Array, Array]:
    """Return the sum of squared errors of each (alpha, beta, log R), and its best (E, A, B).

    Where these best values are below zero, the error is infinite.
    """
    parameters, tokens, unique, losses = np.array(points).T
    alpha, beta, repeats = tried[:, 0, None], tried[:, 1, None], np.exp(tried[:, 2, None])
    again = np.maximum(tokens / unique - 1, 0)
    worth = np.minimum(tokens, unique) - unique * repeats * np.expm1(-again / repeats)  # (tried, points)
    columns = np.stack([np.ones_like(worth), parameters**-alpha, worth**-beta], axis=-1)  # (tried, points, 3)
    scale = columns.mean(axis=1, keepdims=True)
    solution = np.linalg.pinv(columns / scale) @ losses / scale[:, 0]
    errors = ((columns @ solution[..., None] - losses[:, None]) ** 2).sum(axis=(1, 2))
    return np.where((solution >= 0).all(axis=1), errors, np.inf), solution


def without_each(curves: dict[str, tuple[Point, ...]]) -> list[Law]:
    """Return the laws that are found if one curve, all points of one model on one text, is left out."""
    return [fit(point for name, points in curves.items() if name != left for point in points) for left in curves]
