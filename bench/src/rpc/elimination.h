/* Elimination without pivots, of a matrix that outweighs itself on the diagonal; what is done before each column is the caller's. */
#ifndef ELIMINATION_H
#define ELIMINATION_H

/* Goes on with column *k; *k is n at the end, and b the solution. */
static void eliminate(int n, double *a, double *b, long *k, void (*before)(void)) {
    for (; *k < n; ++*k) {
        if (before) before();
        const double *pivot = a + *k * n;
        for (long i = *k + 1; i < n; i++) {
            double *row = a + i * n, factor = row[*k] / pivot[*k];
            row[*k] = factor;
            for (long j = *k + 1; j < n; j++) row[j] -= factor * pivot[j];
            b[i] -= factor * b[*k];
        }
    }
    for (long i = n - 1; i >= 0; i--) {
        for (long j = i + 1; j < n; j++) b[i] -= a[i * n + j] * b[j];
        b[i] /= a[i * n + i];
    }
}

#endif
