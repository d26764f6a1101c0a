"""How the law of `planning.scaling` is found from measured runs. No run does this: `LAW` has the result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from minigrad.training.planning.scaling import Law, Point
from minigrad.typing import Array

_GRID, _ROUNDS, _SHRINK = 9, 14, 0.6  # places on each axis, searches, and the width of each relative to that before
# Of alpha, beta and the logarithm of R. The runs alone would leave the exponents, and with them E, open: small ones fit
# nearly as well, and promise impossible losses after long runs. So no exponent is below the one found for large models
# (Besiroglu et al. 2024, "Chinchilla scaling: a replication attempt", arXiv 2404.10102).
_LOWEST, _HIGHEST = (0.3478, 0.3658, 0.0), (1.5, 1.5, 6.0)


def fit(points: Iterable[Point]) -> Law:
    """Return the law with the smallest sum of squared errors; needs three sizes and lengths.

    E, A and B are at least 0, and the other constants between `_LOWEST` and `_HIGHEST`. With alpha, beta and R given,
    the law is linear in E, A and B: a least-squares problem. So a grid of (alpha, beta, R) is tried, then a finer one
    around the best of it, and so on.
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
    """Return the sum of squared errors of each (alpha, beta, log R), infinite where E, A or B is below 0, and these."""
    parameters, tokens, unique, losses = np.array(points).T
    alpha, beta, repeats = tried[:, 0, None], tried[:, 1, None], np.exp(tried[:, 2, None])
    again = np.maximum(tokens / unique - 1, 0)
    worth = np.minimum(tokens, unique) - unique * repeats * np.expm1(-again / repeats)  # (tried, points)
    columns = np.stack([np.ones_like(worth), parameters**-alpha, worth**-beta], axis=-1)  # (tried, points, 3)
    scale = columns.mean(axis=1, keepdims=True)
    solution = np.linalg.pinv(columns / scale) @ losses / scale[:, 0]
    errors = ((columns @ solution[..., None] - losses[:, None]) ** 2).sum(axis=(1, 2))
    return np.where((solution >= 0).all(axis=1), errors, np.inf), solution


def residual_error(law: Law, points: Sequence[Point]) -> float:
    """Return the residual standard error of a law at more than six points, to which its six constants were fitted."""
    squares = sum((law.loss(*point[:3]) - point.bits_per_byte) ** 2 for point in points)
    return math.sqrt(squares / (len(points) - len(law)))


def without_each(curves: dict[str, tuple[Point, ...]]) -> list[Law]:
    """Return the laws that are found if one curve, all points of one model on one text, is left out."""
    return [fit(point for name, points in curves.items() if name != left for point in points) for left in curves]
