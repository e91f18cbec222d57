"""Functions that a routine has do some of its work: what they are given and give back. The native half calls this, in the thread that
waits for the call."""

from . import _results

try:
    import numpy
except ImportError:
    numpy = None


def _bytes(name, element, sizes, value):
    if numpy is None:
        return memoryview(value).cast("B").tobytes()
    array = numpy.asarray(value, dtype=element)
    if array.shape != tuple(sizes) and not (array.size == 1 and list(sizes) == [1]):
        raise ValueError(f"{name}: its shape is {array.shape}, and the routine takes {tuple(sizes)}")
    return array.tobytes()


def _value(kind, piece):
    if kind == "text":
        return None if piece is None else piece.decode("utf-8", "surrogateescape")
    return _results.value(kind == "one", piece)


def call(function, given, wanted):
    """`given`: kinds (one, array, text) and pieces. Of one array that is wanted its value, of more a tuple; bytes of each."""
    values = [_value(*one) for one in given]
    result = function(*values)
    if len(wanted) == 0:
        return []
    results = (result,) if len(wanted) == 1 else tuple(result)
    if len(results) != len(wanted):
        names = ", ".join(name for name, _, _ in wanted)
        raise ValueError(f"{len(results)} values come back, and the routine takes ({names})")
    return [_bytes(*one, value) for one, value in zip(wanted, results)]
