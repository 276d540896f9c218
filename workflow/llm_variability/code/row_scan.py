"""The inner loop of the tree edit distance, sixteen cells at a time.

A cell of a row of scores is the largest of three numbers: the cell above it, the cell to its left,
and what is had by matching the node of its column. The cell to its left makes the row a running
maximum, which compilers do not vectorise. Here it is written in vectors: a running maximum inside
a vector takes four shifts, and one number is carried to the next vector. LLVM turns the vectors
into what the machine has, be it AVX-512, AVX2, NEON or single numbers.

Numba sees two functions, `scan_forest` and `scan_tree`. Both work on `WIDTH` columns at once, and
so read and write up to `WIDTH` - 1 columns past the last: arrays need that much room, and positions
there have to be valid. The scores there are of no matter: a cell takes only from cells to its left.

Numba's cache does not see edits of this file: after one, touch `edit_distance.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

WIDTH = 16
"""Columns that are worked on at once."""

_LANE = ir.IntType(32)
_VECTOR = ir.VectorType(_LANE, WIDTH)
_MASK = ir.VectorType(ir.IntType(1), WIDTH)
_WORD = ir.IntType(64)
_ZEROS = ir.Constant(_VECTOR, [0] * WIDTH)


class _LaneAddresses(ir.Instruction):
    """The addresses of several elements of an array, which llvmlite's own builder cannot take."""

    def __init__(self, block: ir.Block, array: ir.Value, positions: ir.Value) -> None:
        addresses = ir.VectorType(ir.PointerType(), WIDTH)
        super().__init__(block, addresses, "getelementptr", [array, positions])

    def descr(self, buf: list[str]) -> None:
        array, positions = (f"{each.type} {each.get_reference()}" for each in self.operands)
        buf.append(f"getelementptr i32, {array}, {positions}\n")


def _largest(builder: ir.IRBuilder, one: ir.Value, other: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", one, other), one, other)


def _shuffle(builder: ir.IRBuilder, vector: ir.Value, lanes: list[int]) -> ir.Value:
    """Rearrange lanes; lane `WIDTH` is a zero."""
    return builder.shuffle_vector(vector, _ZEROS, ir.Constant(_VECTOR, lanes))


def _running_maximum(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Give each lane the largest of itself and the lanes before it; none is below zero."""
    shift = 1
    while shift < WIDTH:
        moved = [WIDTH if lane < shift else lane - shift for lane in range(WIDTH)]
        vector = _largest(builder, vector, _shuffle(builder, vector, moved))
        shift *= 2
    return vector


def _gather(builder: ir.IRBuilder, array: ir.Value, positions: ir.Value) -> ir.Value:
    wide = builder.zext(positions, ir.VectorType(_WORD, WIDTH))
    addresses = _LaneAddresses(builder.block, array, wide)
    builder._insert(addresses)
    all_lanes = ir.Constant(_MASK, [1] * WIDTH)
    signature = ir.FunctionType(_VECTOR, [addresses.type, _LANE, _MASK, _VECTOR])
    gather = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.masked.gather.v{WIDTH}i32.v{WIDTH}p0"
    )
    return builder.call(gather, [addresses, _LANE(4), all_lanes, _ZEROS])


def _emit_scan(
    builder: ir.IRBuilder,
    count: ir.Value,
    above: ir.Value,
    result: ir.Value,
    score_at: Callable[[Callable[[ir.Value], ir.Value]], ir.Value],
) -> None:
    """Emit the loop over a row.

    score_at: emits what matching gives in the columns at hand, from a function that loads an
    array's elements there.
    """
    before = builder.block
    loop = builder.append_basic_block("scan")
    after = builder.append_basic_block("scanned")
    start = ir.Constant(_WORD, 0)
    builder.cbranch(builder.icmp_signed(">", count, start), loop, after)

    builder.position_at_end(loop)
    column = builder.phi(_WORD)
    carried = builder.phi(_VECTOR)

    def place(array: ir.Value) -> ir.Value:
        return builder.bitcast(builder.gep(array, [column]), _VECTOR.as_pointer())

    def load(array: ir.Value) -> ir.Value:
        return builder.load(place(array), align=4)

    score = _running_maximum(builder, _largest(builder, score_at(load), load(above)))
    last = _shuffle(builder, score, [WIDTH - 1] * WIDTH)
    builder.store(_largest(builder, score, carried), place(result), align=4)

    step = builder.add(column, ir.Constant(_WORD, WIDTH))
    column.add_incoming(start, before)
    column.add_incoming(step, loop)
    carried.add_incoming(_ZEROS, before)
    carried.add_incoming(_largest(builder, last, carried), loop)
    builder.cbranch(builder.icmp_signed("<", step, count), loop, after)
    builder.position_at_end(after)


def _spread(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """Give every lane one number."""
    narrow = number if number.type == _LANE else builder.trunc(number, _LANE)
    vector = builder.insert_element(_ZEROS, narrow, _LANE(0))
    return _shuffle(builder, vector, [0] * WIDTH)


def _address(context: Any, builder: ir.IRBuilder, kind: Any, array: Any, start: Any) -> ir.Value:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [start])


@intrinsic
def scan_forest(  # type: ignore[no-untyped-def]
    _context, scores, above, result, rest, gains, gain, behind, kinds, first, count
):
    """Scan a row.

    scan_forest(scores, above, result, rest, gains, gain, behind, kinds, first, count)

    For columns c from `first` on, `count` of them, scores[result + c] becomes the largest, over the
    columns c' of these up to c, of scores[above + c'] and
    scores[rest + behind[c']] + gains[gain + kinds[c']]. All arrays are 1-D int32, contiguous, and
    hold nothing below 0; the rest are positions in them. Rows `above` and `result` differ.
    """
    word = types.int64

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        def at(array: int, start: ir.Value) -> ir.Value:
            return _address(context, builder, signature.args[array], given[array], start)

        column = given[8]
        rest_row, gain_row = at(0, given[3]), at(4, given[5])
        behind_row, kind_row = at(6, column), at(7, column)

        def score(load: Callable[[ir.Value], ir.Value]) -> ir.Value:
            left = _gather(builder, rest_row, load(behind_row))
            return builder.add(left, _gather(builder, gain_row, load(kind_row)))

        above_row = at(0, builder.add(given[1], column))
        _emit_scan(builder, given[9], above_row, at(0, builder.add(given[2], column)), score)
        return context.get_dummy_value()

    taken = (scores, word, word, word, gains, word, behind, kinds, word, word)
    return types.void(*taken), emit


@intrinsic
def scan_tree(  # type: ignore[no-untyped-def]
    _context, scores, above, result, rest, gains, gain, kinds, first, count, labels, label, saved
):
    """Scan a row whose own forest is a tree.

    scan_tree(scores, above, result, rest, gains, gain, kinds, first, count, labels, label, saved)

    As `scan_forest`, with scores[rest + c'] where that has scores[rest + behind[c']]. In columns in
    which both forests are trees labels[c'] is from 0, and matching their roots gives
    scores[above + c' - 1] and one of `saved` (two numbers): the first if labels[c'] is `label`.
    """
    word = types.int64

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        def at(array: int, start: ir.Value) -> ir.Value:
            return _address(context, builder, signature.args[array], given[array], start)

        column = given[7]
        rest_row, gain_row = at(0, builder.add(given[3], column)), at(4, given[5])
        kind_row, label_row = at(6, column), at(9, column)
        above_row = at(0, builder.add(given[1], column))
        left_above = builder.gep(above_row, [_WORD(-1)])
        wanted = _spread(builder, given[10])
        same = _spread(builder, builder.extract_value(given[11], 0))
        renamed = _spread(builder, builder.extract_value(given[11], 1))

        def score(load: Callable[[ir.Value], ir.Value]) -> ir.Value:
            known = builder.add(load(rest_row), _gather(builder, gain_row, load(kind_row)))
            there = load(label_row)
            gained = builder.select(builder.icmp_signed("==", there, wanted), same, renamed)
            meeting = builder.add(load(left_above), gained)
            return builder.select(builder.icmp_signed(">=", there, _ZEROS), meeting, known)

        _emit_scan(builder, given[8], above_row, at(0, builder.add(given[2], column)), score)
        return context.get_dummy_value()

    pair = types.UniTuple(word, 2)
    taken = (scores, word, word, word, gains, word, kinds, word, word, labels, word, pair)
    return types.void(*taken), emit
