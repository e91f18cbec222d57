"""Routines in Python whose lists go in and come back."""

import pathlib
from typing import Callable

import kumiko
from kumiko import Array, InOut, Out


@kumiko.routine
def shout(words: Array[str, "n"], same: InOut[str, "n"], more: Out[str, 2, 2]) -> tuple[Array[str, "n"], str]:
    same[0] = (same[0] or "none") + "!"
    more[1][0] = "more"
    return [word and word.upper() for word in words], " ".join(word or "-" for word in words)


@kumiko.routine
def share(parts: Array[pathlib.Path, "n"], logs: InOut[pathlib.Path, "n"], new: Out[pathlib.Path, 2]) -> int:
    for part, log in zip(parts, logs):
        log.write_text(log.read_text() + part.read_text())
    new[0].write_text("new")
    return len(parts)


@kumiko.routine
def asks(words: Array[str, "n"], file: pathlib.Path, f: Callable[[Array[str, "k"], pathlib.Path], tuple[Array[str, "k"], str]]) -> Array[str, "n"]:
    back, one = f(words, file)
    back[0] = f"{back[0]} {one}"
    return back


@kumiko.routine
def wrong(words: Array[str, "n"]) -> Array[str, "n"]:
    return words + words
