"""Routines in Python: `kumiko rpc gen matrices.py` makes a program of each function that says so. Functions that do not are its own."""

import time
from pathlib import Path
from typing import NamedTuple

import numpy

import kumiko
from kumiko import Array, InOut, Out


class Solved(NamedTuple):
    x: Array["float64", "n"]
    rest: float


@kumiko.routine(calc_order="2*n^3/3")
def solve(a: Array["float64", "n", "n"], b: Array["float64", "n"]) -> Solved:
    """Solves a x = b, and says how far from b a x is."""
    x = numpy.linalg.solve(a, b)
    return Solved(x, distance(a @ x, b))


def distance(a, b):
    return abs(a - b).max(initial=0)


@kumiko.routine
def spectrum(a: Array["float64", "n", "n"]) -> Array["complex128", "n"]:
    """Eigenvalues."""
    return numpy.linalg.eigvals(a)


@kumiko.routine
def rotate(x: InOut["float32", "m", "k"], times: int) -> None:
    """Moves rows down, the last ones to the top."""
    x[:] = numpy.roll(x, times, axis=0)


@kumiko.routine
def letters(text: str, more: Path, counts: Out["int64", "26"]) -> int:
    """How often each letter stands in a text and a file; how long they are together."""
    both = text.encode() + more.read_bytes()
    for at in range(26):
        counts[at] = both.lower().count(b"a"[0] + at)
    return len(both)


@kumiko.routine
def lengths(words: Array[str, "n", "m"]) -> Array["int64", "n", "m"]:
    """How long each text is; -1 if there is none."""
    return numpy.array([[-1 if word is None else len(word) for word in row] for row in words], "int64").reshape(len(words), -1)


calls = 0


@kumiko.routine
def wait(seconds: float) -> int:
    """Sleeps. How many calls this process has had."""
    global calls
    calls += 1
    time.sleep(seconds)
    return calls
