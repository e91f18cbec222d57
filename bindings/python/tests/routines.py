"""Calls of the routines that examples/rpc/matrices.py has; e2e/tests/rpc_python_routines.rs registers them and runs this."""

import faulthandler
import inspect
import pickle
import unittest

import numpy

import kumiko

DEADLINE = 60


class Routines(unittest.TestCase):
    def test_functions_are_called_as_if_they_were_here(self):
        solve = kumiko.rpc("matrices/solve")
        a = numpy.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]])
        result = solve(a, numpy.array([6.0, 17, 22]))
        numpy.testing.assert_allclose(result.x, [1, 2, 3], rtol=1e-12)
        self.assertLess(result.rest, 1e-12)
        self.assertEqual(str(inspect.signature(solve)), "(a, b, *, n=None)")
        self.assertIn("Solves a x = b, and says", solve.__doc__)
        self.assertIn("CalcOrder 2 * n ^ 3 / 3", solve.idl)
        found = kumiko.rpc("matrices/spectrum")(numpy.array([[0.0, -1], [1, 0]]))
        numpy.testing.assert_allclose(sorted(found, key=lambda z: z.imag), [-1j, 1j], atol=1e-12)

    def test_what_is_changed_in_its_place_comes_back_whole_however_big_it_is(self):
        rotate = kumiko.rpc("matrices/rotate")
        for shape in ((3, 2), (300, 200), (0, 5), (1, 1)):
            x = numpy.arange(numpy.prod(shape), dtype="f4").reshape(shape)
            numpy.testing.assert_array_equal(rotate(x, 1), numpy.roll(x, 1, axis=0))
        # Of 700 x 700 the result is a file.
        a = numpy.eye(700) * 2
        numpy.testing.assert_allclose(kumiko.rpc("matrices/solve")(a, numpy.ones(700)).x, 0.5)

    def test_lists_of_texts_come_as_they_are(self):
        lengths = kumiko.rpc("matrices/lengths")
        self.assertEqual(lengths([["a", None, ""], ["\u7d44\u5b50", "xyz", "b"]]).tolist(), [[1, -1, 0], [2, 3, 1]])
        many = [["x" * (number % 70)] for number in range(10_000)]
        self.assertEqual(lengths(many).tolist(), [[number % 70] for number in range(10_000)])

    def test_what_it_raises_comes_out_by_name_and_where_it_was_raised(self):
        solve = kumiko.rpc("matrices/solve")
        for call in (solve, lambda *given: solve.submit(*given).result(DEADLINE)):
            with self.assertRaises(kumiko.RoutineRaised) as caught:
                call(numpy.zeros((2, 2)), numpy.ones(2))
            error = caught.exception
            self.assertEqual((error.name, error.fault, error.retry), ("routine_raised", "guest", "no"))
            self.assertEqual(error.error, "numpy.linalg.LinAlgError")
            self.assertIn("Singular matrix", str(error))
            self.assertRegex(str(error), r"matrices.py:\d+ in solve: x = numpy.linalg.solve\(a, b\)")
            self.assertEqual(pickle.loads(pickle.dumps(error)).error, error.error)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(5 * DEADLINE, exit=True)
    unittest.main()
