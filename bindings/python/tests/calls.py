"""Calls of the routines of examples/rpc at the personal site of whoever runs this; e2e/tests/rpc_python.rs does."""

import array
import asyncio
import concurrent.futures
import faulthandler
import inspect
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
import unittest

import numpy

import kumiko

# A quarter of an hour: a call of it is over in time only where its cancel has reached the site.
SLOW = 90_000, 10_000, numpy.zeros(1, "i8")
DEADLINE = 60
# Of all of it, on a machine that is busy with others.
WHOLE_DEADLINE = 300


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = kumiko.connect()

    @classmethod
    def tearDownClass(cls):
        cls.site.close()

    def tearDown(self):
        begun = time.monotonic()
        while self.site.open_calls():
            self.assertLess(time.monotonic() - begun, DEADLINE, "calls are left open")
            time.sleep(0.01)

    def test_linpack_solves_what_it_is_given_and_leaves_it_alone(self):
        solve = kumiko.rpc("linpack/dgesv")
        a = numpy.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]])
        b = numpy.array([6.0, 17, 22])
        kept = a.copy(), b.copy()
        for result in (solve(a, b), solve(3, a, b), solve(b=b, a=a), solve(a, b, n=3), solve(a, b, n=None)):
            numpy.testing.assert_allclose(result.b, [1, 2, 3], rtol=1e-12)
            self.assertEqual(result.info, 0)
            self.assertEqual((result.a.shape, result.ipiv.dtype, result.b.dtype), ((3, 3), "int32", "float64"))
        numpy.testing.assert_array_equal(a, kept[0])
        numpy.testing.assert_array_equal(b, kept[1])
        # What came back is an array as any other, and outlives the rest of its result.
        x = solve(a, b).b
        x += 1
        numpy.testing.assert_allclose(x, [2, 3, 4], rtol=1e-12)

    def test_a_routine_documents_itself(self):
        solve = kumiko.rpc("linpack/dgesv")
        self.assertIn("Solves a x = b", solve.__doc__)
        self.assertIn("a: in and out, float64, shape (n, n)", solve.__doc__)
        self.assertIn("n: in, int32, told by an array", solve.__doc__)
        self.assertEqual(str(inspect.signature(solve)), "(a, b, *, n=None)")
        self.assertIn("INOUT double", solve.idl)
        self.assertIn("pi/trial", [one.name for one in self.site.routines()])

    def test_every_kind_of_argument_goes_in_and_comes_back(self):
        call = lambda name, *given: kumiko.rpc("samples/" + name)(*given)
        self.assertIsNone(call("null"))
        for x in (numpy.arange(5.0), array.array("d", range(5)), memoryview(array.array("d", range(5)))):
            self.assertEqual(call("sum", x), 10)
        self.assertEqual(call("sum", numpy.zeros(0)), 0)
        # Of what does not travel nothing is changed.
        numpy.testing.assert_array_equal(call("every_other", numpy.arange(5.0)), [0, 2, 2, 6, 4])
        for text, length in (("two words", 9), ("", 0), (b"bytes", 5), ("\u7d44\u5b50", 6), (None, -1)):
            self.assertEqual(call("measure", text).length, length)
        words = (("no", b"no"), ["ab", None], ["no", None], ["", "\u7d44\u5b50"])
        self.assertEqual(call("measure_all", words).tolist(), [[-1, -1], [2, -1], [-1, -1], [0, 6]])
        self.assertEqual(call("measure_all", numpy.array([["a"], ["bcd"]])).tolist(), [[-1], [3]])
        for wrong, told in (("word", "a list of texts"), ([["a"], ["b", "c"]], "different lengths"), ([[1]], "str, bytes or None")):
            with self.assertRaisesRegex(kumiko.ArgumentError, f"words: .*{told}"):
                call("measure_all", wrong)
        widths = call("widths", -1, -300, 70000, 5_000_000_000, 0.5, numpy.float64(-2.25))
        self.assertEqual(widths.tolist(), [-1, -300, 70000, 5e9, 0.5, -2.25])
        z = numpy.array([1 + 2j, 3 - 4j])
        numpy.testing.assert_array_equal(call("conjugate", z), z.conjugate())
        big = numpy.random.default_rng(1).random(1_000_000)
        self.assertAlmostEqual(call("sum", big), big.sum(), places=4)
        back = call("every_other", big)
        expected = big.copy()
        expected[1::2] *= 2
        numpy.testing.assert_array_equal(back, expected)

    def test_what_is_wrong_is_told_by_parameter_before_anything_is_sent(self):
        solve = kumiko.rpc("linpack/dgesv")
        a, b = numpy.eye(3), numpy.ones(3)
        wrong = [
            ((a.astype("f4"), b), "a", "its elements are float32, and it takes float64"),
            ((a, b.astype(">f8")), "b", "its elements are '>d' of 8 bytes"),
            ((a, numpy.ones(2)), "b", "its shape is (2,), and it takes (3,)"),
            ((numpy.ones(9), b), "a", "its shape is (9,), and it takes (9, 9)"),
            ((numpy.asfortranarray(a + numpy.tri(3)), b), "a", "in Fortran order"),
            ((a, numpy.ones(6)[::2]), "b", "a view with gaps"),
            (([[1.0]], [1.0]), "a", "is no array: give numpy.array"),
            ((a,), "arguments", "1 are given, and it takes ([n], a, b)"),
            (("3", a, b), "n", "is given, and it takes int32"),
        ]
        for given, parameter, text in wrong:
            with self.assertRaises(kumiko.ArgumentError) as caught:
                solve(*given)
            error = caught.exception
            self.assertIn(text, str(error))
            self.assertEqual((error.parameter, error.name, error.fault), (parameter, "bad_arguments", "caller"))
            self.assertIsInstance(error, (ValueError, kumiko.CallerError))
            self.assertIn("mend", error.remedy)
        with self.assertRaisesRegex(kumiko.ArgumentError, "nothing of this name"):
            solve(a, b, info=1)
        with self.assertRaisesRegex(kumiko.ArgumentError, "does not fit"):
            kumiko.rpc("samples/crash")(1 << 40)
        with self.assertRaises(kumiko.RoutineNotFound) as caught:
            kumiko.rpc("linpack/none")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), again.name), (kumiko.RoutineNotFound, "no_routine"))

    def test_a_routine_that_crashes_is_an_exception_of_the_guest(self):
        with self.assertRaises(kumiko.GuestError) as caught:
            kumiko.rpc("samples/crash")(1)
        self.assertIn("signal 11", str(caught.exception))
        self.assertEqual(caught.exception.name, "routine_failed")

    def test_a_routine_calls_back_and_gets_what_the_function_returns(self):
        newton = kumiko.rpc("callback/newton")
        given = []

        def squares(n, x):
            given.append((int(n), x.shape, threading.current_thread()))
            return x * x - numpy.arange(2.0, 2.0 + n), 2 * x

        result = newton(numpy.ones(3), squares)
        numpy.testing.assert_allclose(result.x, numpy.sqrt([2, 3, 4]), rtol=1e-12)
        self.assertEqual(given[0], (3, (3,), threading.current_thread()))
        self.assertEqual(len(given), result.steps + 1)
        self.assertIn("f: function", newton.__doc__)
        total = kumiko.rpc("callback/count").submit(10, 0, lambda i, total: total + i)
        self.assertEqual(total.result(DEADLINE), 45)

    def test_a_function_is_given_texts(self):
        seen = []

        def look(number, word):
            seen.append((int(number), word))
            return len(word or "")

        self.assertEqual(kumiko.rpc("callback/words")("to be é", look), 5)
        self.assertEqual(seen, [(0, "to"), (1, "be"), (2, "é"), (3, None)])
        with self.assertRaisesRegex(kumiko.GuestError, "1 MiB at most goes either way"):
            kumiko.rpc("callback/words")("x" * (2 << 20), look)

    def test_what_a_function_raises_comes_out_of_the_call(self):
        count = kumiko.rpc("callback/count")

        def third(i, total):
            if i == 2:
                raise KeyError("mine")
            return total

        for call in (count, lambda *given: count.submit(*given).result(DEADLINE)):
            with self.assertRaisesRegex(KeyError, "mine"):
                call(5, 0, third)
        with self.assertRaisesRegex(ValueError, "total: its shape is"):
            count(5, 0, lambda i, total: [1, 2])
        with self.assertRaisesRegex(kumiko.ArgumentError, "is no function"):
            count(5, 0, 7)

    def test_files_go_in_by_name_and_come_back_where_they_are_to(self):
        with tempfile.TemporaryDirectory() as folder:
            into, out = os.path.join(folder, "in"), os.path.join(folder, "out")
            with open(into, "w") as file:
                file.write("small letters " * 50_000)
            self.assertEqual(kumiko.rpc("files/upper")(into, out), 700_000)
            with open(out) as file:
                self.assertEqual(file.read(), "SMALL LETTERS " * 50_000)
            self.assertIsNone(kumiko.rpc("files/stamp")("end", into))
            with open(into) as file:
                self.assertTrue(file.read().endswith("letters end\n"))
            with self.assertRaises(kumiko.CallerError) as caught:
                kumiko.rpc("files/upper")(os.path.join(folder, "none"), out)
            self.assertEqual(caught.exception.name, "argument_file")

    def test_an_executor_carries_calls_by_routine_or_name(self):
        total = kumiko.rpc("samples/sum")
        many = [numpy.full(1000, float(i)) for i in range(20)]
        with kumiko.Executor() as pool:
            self.assertIsInstance(pool, concurrent.futures.Executor)
            self.assertEqual(list(pool.map(total, many, timeout=DEADLINE)), [1000.0 * i for i in range(20)])
            x = numpy.ones(10)
            future = pool.submit("samples/sum", x)
            x[:] = 5  # it was copied
            self.assertEqual(future.result(DEADLINE), 10)
            bad = pool.submit("samples/crash", 2)
            self.assertIsInstance(bad.exception(DEADLINE), kumiko.GuestError)
            with self.assertRaises(TypeError):
                pool.submit(len, [])
        with self.assertRaises(RuntimeError):
            pool.submit(total, many[0])

    def test_asyncio_awaits_calls_and_cancels_them(self):
        total, slow = kumiko.rpc("samples/sum"), kumiko.rpc("samples/slow")

        async def all_of_it():
            sums = await asyncio.gather(*(total.async_(numpy.full(10, float(i))) for i in range(5)))
            self.assertEqual(sums, [10.0 * i for i in range(5)])
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(slow.async_(*SLOW), 0.2)

        asyncio.run(all_of_it())

    def test_a_future_that_is_cancelled_ends_its_call(self):
        slow = kumiko.rpc("samples/slow")
        future = slow.submit(*SLOW)
        self.assertIn(future.call_id, self.site.open_calls())
        self.assertTrue(future.cancel())
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result(DEADLINE)

    def test_ctrl_c_ends_a_call_and_other_threads_run_meanwhile(self):
        # Who was started in the background of a shell has it ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        slow = kumiko.rpc("samples/slow")

        earlier = set(self.site.open_calls())
        over = threading.Event()

        def interrupt():
            while not over.is_set():
                if set(self.site.open_calls()) - earlier:
                    signal.raise_signal(signal.SIGINT)
                    return
                time.sleep(0.01)

        other = threading.Thread(target=interrupt)
        other.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                slow(*SLOW)
        finally:
            # Also when it failed by something else, which is then told: nobody is to wait for a call that never was.
            over.set()
            other.join(DEADLINE)

    def test_a_child_connects_anew(self):
        kumiko.rpc("samples/null")()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            self.assertEqual(pool.apply_async(in_child).get(DEADLINE), 6)

    def test_without_a_record_nothing_is_noted(self):
        with kumiko.connect(durability="none") as site:
            self.assertEqual(site.rpc("samples/sum")(numpy.arange(4.0)), 6)
        with self.assertRaises(ValueError):
            kumiko.connect(durability="much")
        with self.assertRaises(kumiko.ConnectionLost) as caught:
            kumiko.connect(server="127.0.0.1:1")
        self.assertEqual(caught.exception.retry, "later")
        with self.assertRaises(kumiko.CallUnknown):
            kumiko.attach("999999-1")


def in_child():
    total = kumiko.rpc("samples/sum")(numpy.arange(4.0)).item()
    kumiko.default().close()  # such a child ends without what is done at exit
    return total


if __name__ == "__main__":
    faulthandler.dump_traceback_later(WHOLE_DEADLINE, exit=True)
    unittest.main()
