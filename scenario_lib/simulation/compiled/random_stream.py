"""numpy's default generator inside kernels: the same numbers, bit for bit, several times faster than block by block.

PCG64 (O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for random number
generation", 2014) with XSL-RR output, and the ziggurat of Marsaglia and Tsang (2000, doi.org/10.18637/jss.v005.i08)
with numpy's tables, of which numba keeps a copy. A golden test compares with `numpy.random.default_rng`: its streams
may change between numpy versions (NEP 19).
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numba.np.random import _constants as numpy_tables
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.jit import kernel

_MULTIPLIER_HIGH = np.uint64(2549297995355413924)
_MULTIPLIER_LOW = np.uint64(4865540595714422341)
_WORD = 2**64

_KI, _WI, _FI = numpy_tables.ki_double.astype(np.int64), numpy_tables.wi_double, numpy_tables.fi_double
_TAIL, _INVERSE_TAIL = numpy_tables.ziggurat_nor_r, numpy_tables.ziggurat_nor_inv_r


def stream(seed: int) -> NDArray[np.uint64]:
    """State of `numpy.random.default_rng(seed)` as words (state high, low, increment high, low), shape (4,)."""
    state = np.random.PCG64(seed).state["state"]
    return np.array([*divmod(state["state"], _WORD), *divmod(state["inc"], _WORD)], np.uint64)


@intrinsic  # type: ignore[untyped-decorator]
def _product_high(typing_context: Any, left: Any, right: Any) -> Any:  # noqa: ARG001
    """Upper 64 bits of the product of two unsigned 64-bit integers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@kernel
def _advanced(high, low, increment_high, increment_low):  # type: ignore[no-untyped-def]
    """The next state, 128 bits in two words as its arguments are: state, then increment."""
    product_low = low * _MULTIPLIER_LOW
    new_low = product_low + increment_low
    carry = np.uint64(new_low < product_low)
    crossed = _product_high(low, _MULTIPLIER_LOW) + high * _MULTIPLIER_LOW + low * _MULTIPLIER_HIGH
    return crossed + increment_high + carry, new_low


@kernel
def _output(high, low):  # type: ignore[no-untyped-def]
    word = high ^ low
    turn = high >> np.uint64(58)
    return (word >> turn) | (word << ((np.uint64(64) - turn) & np.uint64(63)))


@kernel
def _next_word(state):  # type: ignore[no-untyped-def]
    state[0], state[1] = _advanced(state[0], state[1], state[2], state[3])
    return _output(state[0], state[1])


@kernel
def next_uniform(state):  # type: ignore[no-untyped-def]
    """As `Generator.random`: uniform on [0, 1)."""
    return np.float64(np.int64(_next_word(state) >> np.uint64(11))) * (1.0 / 9007199254740992.0)


@kernel
def _proposal(word):  # type: ignore[no-untyped-def]
    """Layer, size within it and value that a word stands for; the value is accepted if the size is below `_KI`."""
    layer = word & np.uint64(0xFF)
    size = np.int64((word >> np.uint64(9)) & np.uint64(0x000FFFFFFFFFFFFF))
    value = np.float64(size) * _WI[layer]
    return layer, size, -value if (word >> np.uint64(8)) & np.uint64(1) else value


@kernel
def next_normal(state):  # type: ignore[no-untyped-def]
    """As `Generator.standard_normal`."""
    return _normal_from(_next_word(state), state)


@kernel
def _normal_from(word, state):  # type: ignore[no-untyped-def]
    """The normal that begins with this word, taking more of them if need be."""
    while True:
        layer, size, value = _proposal(word)
        if size < _KI[layer]:
            return value
        if layer == 0:
            return _tail(state, (size >> 8) & 1)
        step = _FI[layer - np.uint64(1)] - _FI[layer]
        if step * next_uniform(state) + _FI[layer] < np.exp(-0.5 * value * value):
            return value
        word = _next_word(state)


@kernel
def _tail(state, negative):  # type: ignore[no-untyped-def]
    """A value beyond the outermost layer (Marsaglia's method)."""
    while True:
        beyond = -_INVERSE_TAIL * np.log1p(-next_uniform(state))
        height = -np.log1p(-next_uniform(state))
        if height + height > beyond * beyond:
            return -(_TAIL + beyond) if negative else _TAIL + beyond


@kernel
def fill_normal(state, scale, out, first, stop):  # type: ignore[no-untyped-def]
    """Fill columns `first` to `stop` of `out`, shape (T, R), row by row, with standard normals times `scale`.

    The stream's words `state`, shape (4,), are moved on.
    """
    high, low, increment_high, increment_low = state
    for row in range(out.shape[0]):
        for column in range(first, stop):
            high, low = _advanced(high, low, increment_high, increment_low)
            word = _output(high, low)
            layer, size, value = _proposal(word)
            if not size < _KI[layer]:  # one in seventy
                state[0], state[1] = high, low
                value = _normal_from(word, state)
                high, low = state[0], state[1]
            out[row, column] = value * scale
    state[0], state[1] = high, low
