"""Arrays of texts and files, from Python: lists of them, of the shape that the routine says."""

import pathlib

import kumiko
import numpy

if int(numpy.__version__.split(".")[0]) >= 2:
    # A number alone is shown as np.int32(3) from then on.
    numpy.set_printoptions(legacy="1.25")

words = kumiko.rpc("lines/words")("to be  or", 4)
print(words)
try:
    print(ascii(kumiko.rpc("lists/every_second")(["own", "one", "own", "thr\udce9e"])))
    kumiko.rpc("lists/every_second")("one")
except kumiko.errors.ArgumentError as error:
    print(error)
for name in "abcd":
    pathlib.Path(name).write_text(name + "\n")
print(kumiko.rpc("lists/mark")([["a", "b"], [pathlib.Path("c"), "d"]], "mark"))
print([pathlib.Path(name).read_text() for name in "abcd"])
print(kumiko.rpc("lists/nothing")(2, ["empty", "never"]), repr(pathlib.Path("empty").read_text()))


def f(n, lines, log, logs, told, what, x, one):
    print(n, lines, x, what, log.read_text(), [one.read_text() == log.read_text() for one in logs])
    told[1].write_text("second\n")
    one.write_text("one\n")
    log.write_text("told\n")
    return [None, "asked", None], ["more", None], x + 100


def in_order(n, lines, log, logs, told, x, one, what):
    return f(n, lines, log, logs, told, what, x, one)


print(kumiko.rpc("lists/ask")(["zero", "one", "two"], "a", ["told1", "told2"], in_order))
print([pathlib.Path(name).read_text() for name in ("told1", "told2")])
try:
    kumiko.rpc("lists/ask")(["zero", "one", "two"], "a", ["told1", "told2"], lambda *given: (["too", "few"], ["more", None], given[5]))
except Exception as error:
    print(error)
