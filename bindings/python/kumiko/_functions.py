"""Functions that a routine has do some of its work: what they are given and give back. The native half calls this, in the thread that
waits for the call."""

import math
import os
import pathlib

from . import _results

try:
    import numpy
except ImportError:
    numpy = None


def _flat(value, dimensions):
    if dimensions == 0:
        return [value]
    return [text for part in value for text in _flat(part, dimensions - 1)]


def _texts(name, sizes, value):
    if list(sizes) == [1] and isinstance(value, (str, bytes, type(None))):
        value = [value]
    texts = _flat(value, len(sizes))
    if not all(isinstance(text, (str, bytes, type(None))) for text in texts):
        raise TypeError(f"{name}: it is a list of str, bytes or None")
    if len(texts) != math.prod(sizes):
        raise ValueError(f"{name}: {len(texts)} texts come back, and the routine takes {tuple(sizes)}")
    return [text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text for text in texts]


def _bytes(name, element, sizes, value):
    if element == "str":
        return _texts(name, sizes, value)
    if numpy is None:
        return memoryview(value).cast("B").tobytes()
    array = numpy.asarray(value, dtype=element)
    if array.shape != tuple(sizes) and not (array.size == 1 and list(sizes) == [1]):
        raise ValueError(f"{name}: its shape is {array.shape}, and the routine takes {tuple(sizes)}")
    return array.tobytes()


def _paths(piece):
    if isinstance(piece, list):
        return [_paths(part) for part in piece]
    return None if piece is None else pathlib.Path(os.fsdecode(piece))


def _value(kind, piece):
    if kind in ("text", "texts"):
        return _results.text(piece)
    if kind == "paths":
        return _paths(piece)
    return _results.value(kind == "one", piece)


def call(function, given, wanted):
    """`given`: kinds (one, array, text, texts, paths) and pieces. Of one array that is wanted its value, of more a tuple; bytes of each, and
    of texts a list of those."""
    values = [_value(*one) for one in given]
    result = function(*values)
    if len(wanted) == 0:
        return []
    results = (result,) if len(wanted) == 1 else tuple(result)
    if len(results) != len(wanted):
        names = ", ".join(name for name, _, _ in wanted)
        raise ValueError(f"{len(results)} values come back, and the routine takes ({names})")
    return [_bytes(*one, value) for one, value in zip(wanted, results)]
