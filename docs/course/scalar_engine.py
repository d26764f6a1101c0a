"""A scalar engine: numbers that remember how they were computed, and from that compute derivatives."""

import itertools
import math

_count = itertools.count()


class Value:
    """A number, and its derivative with respect to each value that it was computed from.

    Such a derivative is called a slope here: the number that the chain rule multiplies by.
    """

    def __init__(self, data, slopes=()):
        self.data = data
        self.slopes = slopes  # pairs (value it was computed from, slope)
        self.gradient = 0.0  # the derivative of the final result with respect to this number
        self.order = next(_count)  # a value is always younger than those it was computed from

    def __add__(self, other):
        other = as_value(other)
        return Value(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        other = as_value(other)
        return Value(self.data * other.data, [(self, other.data), (other, self.data)])

    def __pow__(self, exponent):
        return Value(self.data**exponent, [(self, exponent * self.data ** (exponent - 1))])

    def tanh(self):
        """Return the hyperbolic tangent, whose slope is 1 - tanh^2."""
        t = math.tanh(self.data)
        return Value(t, [(self, 1 - t * t)])

    # The rest is made of these four, so its slopes need no thought.
    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other):
        return self + -1.0 * as_value(other)

    def __truediv__(self, other):
        return self * as_value(other) ** -1

    def backward(self):
        """Add the derivative of this value, with respect to each value that it came from, to that value's gradient."""
        found, waiting = {self}, [self]
        while waiting:
            for value, _ in waiting.pop().slopes:
                if value not in found:
                    found.add(value)
                    waiting.append(value)
        self.gradient = 1.0
        # From the youngest to the oldest: the gradient of a value is complete before it is passed on.
        for result in sorted(found, key=lambda value: value.order, reverse=True):
            for value, slope in result.slopes:
                value.gradient += result.gradient * slope  # +=, because a value may be used more than once


def as_value(number):
    """Return a number as a Value; a Value stays as it is."""
    return number if isinstance(number, Value) else Value(number)
