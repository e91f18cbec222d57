"""Routines in Python that compute for long, have functions of their caller's do some of the work, and take and give files."""

import time
from pathlib import Path
from typing import Callable, NamedTuple

import numpy

import kumiko
from kumiko import Array, InOut, Out, checkpoint

Values = Array["float64", "n"]


class Told(NamedTuple):
    passed: int
    of_the_last: int
    began_at: int


@kumiko.routine
def relax(x: InOut["float64", "n"], steps: int, pause_s: float) -> Told:
    """Smooths x, a stretch at a step, each a safe point. Steps in all, those of the process that ended it, the checkpoint it began at."""
    done = numpy.zeros(1, "int64")
    checkpoint.state("x", x)
    checkpoint.state("done", done)
    checkpoint.every(0)  # a routine that is in earnest leaves this to the library
    began_at = checkpoint.resumed()
    first = int(done[0])
    while done[0] < steps:
        checkpoint.point()
        start = int(done[0]) * 40 % (len(x) - 40)
        x[start + 1 : start + 40] = (x[start : start + 39] + 2 * x[start + 1 : start + 40] + x[start + 2 : start + 41]) / 4
        done[0] += 1
        time.sleep(pause_s)
    return Told(steps, steps - first, began_at)


@kumiko.routine
def newton(x: InOut["float64", "n"], f: Callable[[Values], tuple[Values, Values]]) -> int:
    """Finds where each of n functions is zero: f gives their values and slopes at x. How many steps it took."""
    for step in range(100):
        y, slope = f(x)
        if abs(y).max(initial=0) < 1e-12:
            return step
        x -= y / slope
    return 100


@kumiko.routine
def count(times: int, pause_s: float, tell: Callable[[int, InOut["int64", "1"]], None]) -> int:
    """Has its caller count: tell adds what it likes to the total. A safe point before each."""
    state = numpy.zeros(2, "int64")
    total = state[1:]
    checkpoint.state("state", state)
    checkpoint.every(0)
    checkpoint.resumed()
    while state[0] < times:
        checkpoint.point()
        tell(int(state[0]), total)
        state[0] += 1
        time.sleep(pause_s)
    return int(total[0])


@kumiko.routine
def words(text: str, look: Callable[[int, str], int]) -> int:
    """Has its caller look at each word of a text, and when there is no more at None."""
    return sum(look(number, word) for number, word in enumerate([*text.split(), None]))


@kumiko.routine
def upper(source: Path, to: Out[Path], log: InOut[Path]) -> int:
    """Copies a file, with small letters made capital, and adds a line to another. How long it is."""
    text = source.read_bytes()
    to.write_bytes(text.upper())
    with open(log, "a") as file:
        print(len(text), file=file)
    return len(text)


@kumiko.routine
def number(source: Path, to: Out[Path], pause_s: float) -> Told:
    """Copies a file of lines with their numbers before them, each after a pause. What it tells is of lines."""
    done = numpy.zeros(1, "int64")
    checkpoint.state("done", done)
    checkpoint.every(0)
    with checkpoint.open("from", source, "rb") as lines, checkpoint.open("to", to, "w") as numbered:
        began_at = checkpoint.resumed()
        first = int(done[0])
        while True:
            checkpoint.point()
            line = lines.readline()
            if not line:
                break
            print(done[0], line.decode().rstrip("\n"), file=numbered)
            done[0] += 1
            time.sleep(pause_s)
    return Told(int(done[0]), int(done[0]) - first, began_at)
