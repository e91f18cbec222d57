"""What comes back of a call: a tuple with names, of numpy's arrays where there is numpy."""

import collections
import functools

try:
    import numpy
except ImportError:
    numpy = None


@functools.lru_cache(maxsize=256)
def _tuple_of(names):
    return collections.namedtuple("Result", names, rename=True)


def text(piece):
    """One text, or lists of them; None for none."""
    if isinstance(piece, list):
        return [text(part) for part in piece]
    return None if piece is None else piece.decode("utf-8", "surrogateescape")


def value(is_one, piece):
    if isinstance(piece, list):
        texts = text(piece)
        return texts[0] if is_one else texts
    if numpy is not None:
        array = numpy.asarray(piece)
        return array[0] if is_one else array
    view = memoryview(piece)
    return view[0] if is_one and view.format not in ("Zf", "Zd") else view


def result(outputs):
    """Nothing: None. One output: it. More: a tuple with their names."""
    values = [value(is_one, piece) for _, is_one, piece in outputs]
    if len(values) < 2:
        return values[0] if values else None
    return _tuple_of(tuple(name for name, _, _ in outputs))._make(values)
