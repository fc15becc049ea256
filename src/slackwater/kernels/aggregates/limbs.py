"""Exact integer sums of any size: a number is ``sum(limb[i] * 2**(32*i))``, each limb an int64.

The lower limbs of a row lie in [0, 2**32), the highest is signed, so that limbs of two thousand million rows
add up without overflow. Arithmetic is modulo 2**64 per limb: differences of prefix sums stay exact
whenever the limbs of the difference fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.buckets import decimal_words
from slackwater.kernels.order import decimal_array

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BITS = np.int64(32)
_MASK = np.int64(0xFFFFFFFF)
_HALF = np.int64(1 << 31)


def from_ints(values: Ints, limbs: int) -> list[Ints]:
    """Limbs of 64-bit integers."""
    if limbs == 1:
        return [values]
    low = [values & _MASK, values >> _BITS]
    sign = values >> np.int64(63)
    # Sign extension: all limbs below the top are unsigned.
    while len(low) < limbs:
        low[-1] = low[-1] & _MASK
        low.append(sign)
    return low


def from_decimals(array: pa.Array, limbs: int) -> list[Ints]:
    """Limbs of the unscaled values of decimals; nulls count as 0."""
    low, high = decimal_words(array)
    if array.null_count:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        low, high = np.where(nulls, np.uint64(0), low), np.where(nulls, np.int64(0), high)
    word = low.view(np.int64)
    if limbs == 1:
        return [word]
    middle = (low >> np.uint64(32)).view(np.int64)
    if limbs == 2:
        return [word & _MASK, middle | (high << _BITS)]
    return [word & _MASK, middle, high & _MASK, high >> _BITS]


def add(a: Sequence[Ints], b: Sequence[Ints]) -> list[Ints]:
    """The sum."""
    return [x + y for x, y in zip(a, b)]


def carry(limbs: Sequence[Ints]) -> list[Ints]:
    """The same number with all limbs below the top in [0, 2**32)."""
    out = []
    over: Ints | np.int64 = np.int64(0)
    for limb in limbs[:-1]:
        total = limb + over
        out.append(total & _MASK)
        over = total >> _BITS
    out.append(limbs[-1] + over)
    return out


def scaled(limbs: Sequence[Ints], factor: int) -> list[Ints]:
    """The number times a small factor (below 2**30), carried."""
    return carry([limb * np.int64(factor) for limb in limbs])


def to_int64(limbs: Sequence[Ints]) -> tuple[Ints, Flags]:
    """The numbers modulo 2**64, and which of them do not fit a bigint."""
    limbs = carry(limbs)
    if len(limbs) == 1:
        return limbs[0], np.zeros(len(limbs[0]), dtype=np.bool_)
    value = (limbs[1] << _BITS) | limbs[0]
    if len(limbs) == 2:
        return value, (limbs[1] < -_HALF) | (limbs[1] >= _HALF)
    sign = value >> np.int64(63)
    bad = limbs[-1] != sign
    for limb in limbs[2:-1]:
        bad |= limb != (sign & _MASK)
    return value, bad


def to_double(limbs: Sequence[Ints]) -> npt.NDArray[np.float64]:
    """The nearest doubles (exactly rounded when the number fits 64 bits)."""
    limbs = carry(limbs)
    value, bad = to_int64(limbs)
    near = value.astype(np.float64)
    if bad.any():
        wide = np.zeros(len(value), dtype=np.float64)
        for limb in reversed(limbs):
            wide = wide * 4294967296.0 + limb
        near = np.where(bad, wide, near)
    return near


def to_words(limbs: Sequence[Ints]) -> tuple[Ints, Flags]:
    """(low, high) words modulo 2**128, shape (n, 2), and which numbers do not fit 127 bits."""
    n = len(limbs[0])
    wide = extend(carry(limbs), 4)
    low = wide[0] | (wide[1] << _BITS)
    top = wide[3]
    high = wide[2] | (top << _BITS)
    if len(wide) == 4:
        bad = (top < -_HALF) | (top >= _HALF)
    else:
        sign = high >> np.int64(63)
        bad = wide[-1] != sign
        for limb in wide[4:-1]:
            bad |= limb != (sign & _MASK)
    return np.stack([low, high], axis=1).reshape(n, 2), bad


def extend(limbs: Sequence[Ints], count: int) -> list[Ints]:
    """The same carried number with at least ``count`` limbs."""
    out = list(limbs)
    while len(out) < count:
        top = out[-1]
        out[-1] = top & _MASK
        out.append(top >> _BITS)
    return out


def to_decimal(
    limbs: Sequence[Ints], precision: int, scale: int, valid: Flags
) -> tuple[pa.Array, Flags]:
    """Unscaled numbers as decimals (null where not ``valid``), and which do not fit the precision."""
    words, bad = to_words(limbs)
    bad |= ~below(words, precision)
    bad &= valid
    return decimal_array(words, pa.decimal128(precision, scale), valid & ~bad), bad


def below(words: Ints, digits: int) -> Flags:
    """Whether |number| < 10**digits."""
    low, high = words[:, 0].view(np.uint64), words[:, 1]
    top, bottom = 10**digits, 1 - 10**digits
    high_top, low_top = np.int64(top >> 64), np.uint64(top & (2**64 - 1))
    high_bottom, low_bottom = np.int64(bottom >> 64), np.uint64(bottom & (2**64 - 1))
    less = (high < high_top) | ((high == high_top) & (low < low_top))
    more = (high > high_bottom) | ((high == high_bottom) & (low >= low_bottom))
    return np.asarray(less & more)


def divide(limbs: Sequence[Ints], count: Ints, digits: int) -> list[Ints]:
    """``limbs * 10**digits / count`` rounded half away from zero; 0 < count < 2**46.

    As Spark does it: the quotient is first rounded to 38 significant digits, then to its scale. The first
    rounding shows only when the result has so many digits that the rest cannot tell a tie from a
    near tie.
    """
    result = _divide(limbs, count, digits)
    words, bad = to_words(result)
    for extra in range(13):  # 10**13 is more than any count of rows; a divisor stays below 2**46
        rows = ~bad & below(words, 38 - extra)
        rows &= ~below(words, 37 - extra)
        if rows.any():
            some = [limb[rows] for limb in limbs]
            fine = _divide(some, count[rows], digits + extra)
            again = _divide(fine, np.full(len(fine[0]), 10**extra, dtype=np.int64), 0)
            for limb, value in zip(result, again):
                limb[rows] = value
    return result


def _divide(limbs: Sequence[Ints], count: Ints, digits: int) -> list[Ints]:
    work = extend(carry(limbs), 6)
    negative = work[-1] < 0
    work = carry([np.where(negative, -limb, limb) for limb in work])
    while digits > 0:
        step = min(digits, 8)
        work = scaled(work, 10**step)
        digits -= step
    work = scaled(work, 2)
    work[0] = work[0] + count
    work = carry(work)
    divisor = count * np.int64(2)
    rest = np.zeros(len(count), dtype=np.int64)
    out: list[Ints] = []
    for limb in reversed(work):
        high, rest = np.divmod((rest << np.int64(16)) | (limb >> np.int64(16)), divisor)
        low, rest = np.divmod((rest << np.int64(16)) | (limb & np.int64(0xFFFF)), divisor)
        out.append((high << np.int64(16)) + low)
    out.reverse()
    return carry([np.where(negative, -limb, limb) for limb in out])
