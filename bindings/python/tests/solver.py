"""Calls examples/rpc/solver.idl with a function that hears how far it is; e2e/tests/rpc_solver.rs registers it and runs this."""

import faulthandler
import unittest

import numpy

import kumiko

DEADLINE = 60


class Solver(unittest.TestCase):
    def test_each_step_is_told_and_the_last(self):
        n, every = 60, 5
        rows = [[k for k in (i - 1, i, i + 1) if 0 <= k < n] for i in range(n)]
        first = numpy.cumsum([0] + [len(row) for row in rows])
        column = numpy.concatenate(rows)
        value = numpy.concatenate([[4.0 if k == i else -1.0 for k in row] for i, row in enumerate(rows)])
        heard = []
        told = lambda step, rest: heard.append((int(step), float(rest)))
        solve = kumiko.rpc("solver/cg_told")
        result = solve(first, column, value, numpy.ones(n), numpy.zeros(n), 1e-10, 1000, every, told)
        residual = numpy.array([sum(v * result.x[k] for v, k in zip(value[a:b], column[a:b])) for a, b in zip(first, first[1:])]) - 1
        self.assertLess(numpy.linalg.norm(residual), 1e-8)
        steps = [step for step, _ in heard]
        self.assertEqual(steps[:-1], list(range(0, int(result.steps), every)))
        self.assertEqual(steps[-1], result.steps)
        self.assertEqual(heard[-1][1], result.rest)
        self.assertLess(heard[-1][1], heard[0][1])


if __name__ == "__main__":
    faulthandler.dump_traceback_later(5 * DEADLINE, exit=True)
    unittest.main()
