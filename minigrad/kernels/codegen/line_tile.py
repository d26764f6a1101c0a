"""The code that multiplies four lines of weights with the vectors of one text or of several, in vector registers.

Lines and their formats: `minigrad.kernels.codegen.line_products`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from minigrad.kernels.codegen import llvm
from minigrad.kernels.codegen.bits import emit_float32_of_float16
from minigrad.kernels.codegen.llvm import BYTE, DOUBLE, FLOAT, INT64, SHORT, WORD, int64, repeated
from minigrad.kernels.codegen.prefetch import CACHE_LINE, emit_prefetch
from minigrad.kernels.codegen.vector_moves import SIDE

FULL, FLOAT16, BFLOAT16, INT8, INT4 = range(5)
"""The formats of lines."""
LINES, TEXTS, GROUP = 4, 4 if SIDE == 16 else 2, 32
"""Lines and texts that are multiplied together (only AVX-512 has registers for four), and the elements of a group."""
_AHEAD = 2_048  # bytes from the products to the data fetched meanwhile
GROUP_BYTES = {FLOAT16: 64, BFLOAT16: 64, INT8: 32, INT4: 16}
"""The bytes of a group of one line."""


class LineTile:
    """A product of lines with one vector of each text: LLVM values, and the code that computes it.

    Each text has four sums at a time, so that one multiply-add need not wait for another: in a packed format those of
    four lines, whose groups follow each other; in FULL, where lines lie apart, those of four parts of one line.
    """

    def __init__(self, kind: int, builder: Any, lines: list[Any], vectors: list[Any], scales: Any = None) -> None:
        self.kind, self.builder, self.lines, self.vectors, self.scales = kind, builder, lines, vectors, scales
        self.element = vectors[0].type.pointee
        self.floats, self.words = ir.VectorType(self.element, SIDE), ir.VectorType(WORD, SIDE)
        self.step = SIDE if kind == FULL else GROUP  # elements of each line that are multiplied at a time

    def emit(self, inputs: Any) -> list[Any]:
        """Emit the loops over whole steps, then a step for the rest; return the sums, text by text."""
        builder, count = self.builder, LINES * len(self.vectors)
        whole = builder.sub(inputs, builder.urem(inputs, int64(self.step)))
        sums, begin = [repeated(self.floats, 0.0)] * count, int64(0)
        if self.kind == FULL:
            end = builder.sub(inputs, builder.urem(inputs, int64(LINES * SIDE)))
            sums, begin = self._loop(sums, begin, end, LINES), end
        sums, before = self._loop(sums, begin, whole, 1), builder.block
        with builder.if_then(builder.icmp_signed("<", whole, inputs)):
            with_rest, rest = self._add_step(sums, *self._filled(whole, inputs)), builder.block
        totals = [builder.phi(self.floats) for _ in range(count)]
        for total, one, other in zip(totals, sums, with_rest, strict=True):
            total.add_incoming(one, before)
            total.add_incoming(other, rest)
        texts = [totals[start : start + LINES] for start in range(0, count, LINES)]
        if self.kind == FULL:
            pairs = [(builder.fadd(a, b), builder.fadd(c, d)) for a, b, c, d in texts]
            return sums_of_lanes(builder, [builder.fadd(*pair) for pair in pairs])
        return [total for text in texts for total in sums_of_lanes(builder, text)]

    def _loop(self, sums: list[Any], begin: Any, end: Any, steps: int) -> list[Any]:
        """Add the products of the elements from `begin` to `end`, some steps at a time; return the sums."""
        builder, before = self.builder, self.builder.block
        head, loop, after = (builder.append_basic_block(name) for name in ("lines", "step", "left"))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(INT64)
        found = [builder.phi(self.floats) for _ in sums]
        builder.cbranch(builder.icmp_signed("<", k, end), loop, after)
        builder.position_at_end(loop)
        places = self._places(k)
        self._fetch_ahead(places[0][0], steps)
        following = [builder.add(k, int64(steps * self.step)), *self._add_step(found, *places, steps)]
        for value, start, next_value in zip([k, *found], [begin, *sums], following, strict=True):
            value.add_incoming(start, before)
            value.add_incoming(next_value, loop)
        builder.branch(head)
        builder.position_at_end(after)
        return found

    def _fetch_ahead(self, line: Any, steps: int) -> None:
        """Ask for as many bytes as these steps read, from a place that is read later.

        Weights are read from front to back, so that is where the next lines are, or the end of the matrix.
        """
        count = steps * self.step * _ALIGNED[self.element] if self.kind == FULL else LINES * GROUP_BYTES[self.kind]
        byte = self.builder.bitcast(line, BYTE.as_pointer())
        for place in range(0, count, CACHE_LINE):
            emit_prefetch(self.builder, self.builder.gep(byte, [int64(_AHEAD + place)]))

    def _places(self, k: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return where lines, vectors and scales have the step that begins with element k."""
        builder, group = self.builder, self.builder.udiv(k, int64(GROUP))
        place = k if self.kind == FULL else builder.mul(group, int64(LINES * GROUP_BYTES[self.kind]))
        scales = []
        if self.kind == INT4:
            first_scale = builder.gep(self.scales, [builder.mul(group, int64(LINES))])
            scales = [builder.gep(first_scale, [int64(i)]) for i in range(LINES)]
        lines = [builder.gep(line, [place]) for line in self.lines]
        return lines, [builder.gep(vector, [k]) for vector in self.vectors], scales

    def _add_step(
        self, sums: list[Any], lines: list[Any], vectors: list[Any], scales: list[Any], steps: int = 1
    ) -> list[Any]:
        """Return the sums with the products of the steps at these places added."""
        builder, added = self.builder, list(sums)
        places = range(0, steps * self.step, SIDE)
        x = [[self._load(vector, self.element, place) for place in places] for vector in vectors]
        if self.kind == FULL:
            for part, start in enumerate(places):
                weights = self._load(lines[0], self.element, start)
                for t, those in enumerate(x):
                    place = t * LINES + part
                    added[place] = self._multiply_add(weights, those[part], added[place])
            return added
        for i, line in enumerate(lines):
            widened = self._widened(line)
            for t, those in enumerate(x):
                place = t * LINES + i
                if self.kind != INT4:
                    for part, other in zip(widened, those, strict=True):
                        added[place] = self._multiply_add(part, other, added[place])
                    continue
                total = builder.fmul(widened[0], those[0])
                for part, other in zip(widened[1:], those[1:], strict=True):
                    total = self._multiply_add(part, other, total)
                scale = llvm.in_all_lanes(builder, self.floats, builder.load(scales[i]))
                added[place] = self._multiply_add(total, scale, added[place])
        return added

    def _filled(self, whole: Any, inputs: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the places of the last step: the rest of the vectors, and of lines of FULL, copied and filled with 0.

        So no memory beyond them is read.
        """
        builder, (lines, vectors, scales) = self.builder, self._places(whole)
        sources, targets = lines + vectors if self.kind == FULL else vectors, []
        for source in sources:
            kind = ir.ArrayType(source.type.pointee, self.step)
            with builder.goto_entry_block():
                memory = builder.alloca(kind)
            builder.store(ir.Constant(kind, None), memory)
            targets.append(builder.bitcast(memory, source.type))
        with llvm.counting(builder, builder.sub(inputs, whole)) as j:
            for source, target in zip(sources, targets, strict=True):
                builder.store(builder.load(builder.gep(source, [j])), builder.gep(target, [j]))
        return (targets[:1] if self.kind == FULL else lines), targets[-len(vectors) :], scales

    def _load(self, start: Any, element: Any, place: int) -> Any:
        """Load the vector of elements that begins `place` elements after `start`."""
        builder = self.builder
        first = builder.gep(builder.bitcast(start, element.as_pointer()), [int64(place)])
        return builder.load(builder.bitcast(first, ir.VectorType(element, SIDE).as_pointer()), align=_ALIGNED[element])

    def _widened(self, line: Any) -> list[Any]:
        """Load a group of a packed line, as vectors of floats."""
        builder, words = self.builder, self.words
        if self.kind in (FLOAT16, BFLOAT16):
            halves = [self._load(line, SHORT, place) for place in range(0, GROUP, SIDE)]
            if self.kind == FLOAT16:
                return [emit_float32_of_float16(builder, half) for half in halves]
            upper = [builder.shl(builder.zext(half, words), repeated(words, 16)) for half in halves]
            return [builder.bitcast(word, self.floats) for word in upper]
        bytes_ = [self._load(line, BYTE, place) for place in range(0, GROUP_BYTES[self.kind], SIDE)]
        numbers = [builder.sext(each, words) for each in bytes_]
        if self.kind == INT4:
            up, down = repeated(words, 28), repeated(words, 4)
            lower = [builder.ashr(builder.shl(number, up), up) for number in numbers]  # the sign is kept
            numbers = lower + [builder.ashr(number, down) for number in numbers]
        return [builder.sitofp(number, self.floats) for number in numbers]

    def _multiply_add(self, x: Any, y: Any, total: Any) -> Any:
        name = f"llvm.fmuladd.v{SIDE}f{8 * _ALIGNED[self.element]}"
        return self.builder.call(llvm.declare(self.builder, name, self.floats, [self.floats] * 3), [x, y, total])


def sums_of_lanes(builder: Any, totals: list[Any]) -> list[Any]:
    """Return the sum of the lanes of each of one, two or four vectors, added in the same order for each.

    Halves are added until one vector holds a part of the lanes of each, then those within it.
    """
    count, distance = len(totals), SIDE // 2
    while len(totals) > 1:
        totals = [_add_lanes(builder, totals[i], totals[i + 1], distance) for i in range(0, len(totals), 2)]
        distance //= 2
    (total,) = totals
    while distance:
        total = _add_lanes(builder, total, total, distance)
        distance //= 2
    places = [number % 2 * SIDE // 2 + number // 2 * SIDE // 4 for number in range(count)]
    return [builder.extract_element(total, ir.Constant(WORD, place)) for place in places]


def _add_lanes(builder: Any, a: Any, b: Any, distance: int) -> Any:
    """Add lanes of a, and of b, that are `distance` apart: the sums of a where that bit of the lane is 0."""
    near = [j if not j & distance else SIDE + j - distance for j in range(SIDE)]
    far = [j + distance if not j & distance else SIDE + j for j in range(SIDE)]
    words = ir.VectorType(WORD, SIDE)
    return builder.fadd(*(builder.shuffle_vector(a, b, ir.Constant(words, order)) for order in (near, far)))


_ALIGNED = {BYTE: 1, SHORT: 2, FLOAT: 4, DOUBLE: 8}
