"""What a call tells of its progress, on a terminal and elsewhere; e2e/tests/rpc_python.rs registers samples.idl and runs this."""

import contextlib
import faulthandler
import io
import os
import pty
import sys
import threading
import types
import unittest
from unittest import mock

import numpy

import kumiko
import kumiko._progress

DEADLINE = 60
STEPS = (100, 15_000)  # of so many microseconds: long enough to be told of


@contextlib.contextmanager
def terminal():
    """In the place of stderr; a list of what came out, whole at the end."""
    own, other = pty.openpty()
    said = []

    def read():
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while piece := os.read(own, 4096):
                said.append(piece.decode())

    reader = threading.Thread(target=read)
    reader.start()
    with open(other, "w") as stderr, mock.patch.object(sys, "stderr", stderr):
        yield said
    reader.join()
    os.close(own)


class Progress(unittest.TestCase):
    def setUp(self):
        self.slow = kumiko.rpc("samples/slow")
        self.done = numpy.array([5])

    def check(self, result):
        self.assertEqual(result.tolist(), [5 + STEPS[0]])

    def test_a_terminal_is_told_in_lines_where_there_is_no_tqdm(self):
        calls = [
            lambda: self.slow(*STEPS, self.done, progress=True),
            lambda: kumiko.rpc("samples/slow", progress=True)(*STEPS, self.done),
            lambda: self.slow.submit(*STEPS, self.done, progress=True).result(DEADLINE),
        ]
        often = mock.patch.object(kumiko._progress, "LINE_S", 1)
        with often, mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            for call in calls:
                with terminal() as said:
                    self.check(call())
                self.assertRegex("".join(said), r"^samples/slow: computing\r\n(samples/slow: computing, for \d+ s\r\n)+$")

    def test_nothing_is_told_unasked_nor_elsewhere_nor_of_what_is_over_soon(self):
        with mock.patch.object(sys, "stderr", io.StringIO()) as stderr:
            self.check(self.slow(*STEPS, self.done, progress=True))
        self.assertEqual(stderr.getvalue(), "")
        with terminal() as said:
            self.check(self.slow(*STEPS, self.done))
            self.slow(1, 0, self.done, progress=True)
        self.assertEqual(said, [])

    def test_tqdm_draws_where_there_is_one_and_each_bar_is_closed(self):
        bars = []

        class Bar:
            def __init__(self, desc, **_):
                self.desc, self.n, self.open = desc, 0, True
                bars.append(self)

            def refresh(self):
                self.drawn = True

            def close(self):
                self.open = False

        tqdm = types.SimpleNamespace(tqdm=Bar)
        with mock.patch.dict(sys.modules, {"tqdm": types.SimpleNamespace(auto=tqdm), "tqdm.auto": tqdm}):
            with terminal() as said:
                self.check(self.slow(*STEPS, self.done, progress=True))
                with self.assertRaises((kumiko.Error, TypeError)):
                    self.slow("x", progress=True)
        self.assertEqual([(bar.desc, bar.drawn, bar.open) for bar in bars], [("samples/slow: computing", True, False)])
        self.assertEqual(said, [])


if __name__ == "__main__":
    faulthandler.dump_traceback_later(5 * DEADLINE, exit=True)
    unittest.main()
