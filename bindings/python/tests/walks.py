"""Calls of the routines that examples/rpc/walks.py has with functions of ours; with the word count, one that says each time that it is
asked. e2e/tests/rpc_python_routines.rs registers them and runs this."""

import faulthandler
import sys
import unittest

import numpy

import kumiko

DEADLINE = 60


class Walks(unittest.TestCase):
    def test_functions_of_the_caller_take_and_give_arrays(self):
        squares = numpy.array([2.0, 3, 4])
        found = kumiko.rpc("walks/newton")(numpy.ones(3), lambda n, x: (x * x - squares, 2 * x))
        numpy.testing.assert_allclose(found.x, numpy.sqrt(squares), rtol=1e-12)
        self.assertIn(found.result, range(3, 10))

    def test_what_is_changed_in_its_place_is_and_numbers_go(self):
        def tell(number, total):
            return total + number

        total = kumiko.rpc("walks/count")(4, 0.0, tell)
        self.assertEqual(total, 6)

    def test_a_function_is_given_texts(self):
        seen = []

        def look(number, word):
            seen.append((int(number), word))
            return len(word or "")

        self.assertEqual(kumiko.rpc("walks/words")("to be", look), 4)
        self.assertEqual(seen, [(0, "to"), (1, "be"), (2, None)])

    def test_what_a_function_raises_ends_the_call(self):
        def tell(number, total):
            raise KeyError("not known")

        with self.assertRaises(KeyError):
            kumiko.rpc("walks/count")(4, 0.0, tell)

    def test_the_routines_are_functions_as_others_where_they_are_written(self):
        import pathlib

        sys.path.insert(0, str(pathlib.Path.cwd()))
        import walks

        x = numpy.zeros(100)
        x[50] = 1
        self.assertEqual(walks.relax(x, 4, 0.0), (4, 4, 0))
        self.assertLess(x[50], 1)


def count():
    def tell(number, total):
        print("tell", number, flush=True)
        return total + number + 1

    print("sum", kumiko.rpc("walks/count")(50, 0.02, tell))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(5 * DEADLINE, exit=True)
    count() if sys.argv[1:] == ["count"] else unittest.main()
