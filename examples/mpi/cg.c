/* CG, conjugate gradients: the smallest eigenvalue of a large, sparse, symmetric matrix of random pattern, by inverse
 * iteration, whose linear systems take 25 steps of conjugate gradients each, as the kernel of that name in the NAS Parallel
 * Benchmarks (RNR-94-007, section 2.4). Irregular access, short reductions, and a vector that all must have.
 * Simplified: rows are divided in one dimension, so that the vector goes round by one allgather instead of sums along
 * rows of a grid of ranks; the matrix is ours: a diagonal that outweighs its row, with known bounds of its eigenvalues
 * (Gershgorin). Right means: the residual of the last system is below 1e-8 of its right side, the estimate has settled to
 * 1e-10, and lies within the bounds.
 * Usage: cg [S|W|A]: 1,400 rows of about 15 entries, 28,000 or 250,000 of about 17. */
#include "kernel.h"

#define ROUNDS 15
#define STEPS 25

static int rows, own, *counts, *places;
/* Compressed rows. */
static int *start, *column;
static double *value, *whole;

static double dot(const double *a, const double *b) {
    double sum = 0, all;
    for (int i = 0; i < own; i++) sum += a[i] * b[i];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* result = A x */
static void multiply(const double *x, double *result) {
    MPI_Allgatherv(x, own, MPI_DOUBLE, whole, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < own; i++) {
        double sum = 0;
        for (int k = start[i]; k < start[i + 1]; k++) sum += value[k] * whole[column[k]];
        result[i] = sum;
    }
}

/* Every rank draws the same entries (i, j) and keeps those of its rows, each entry in both places. */
static void make(int entries, double *least, double *most) {
    uint64_t seed = 314159265;
    long long drawn = (long long)rows * entries / 2;
    int first = places[rank], *fill;
    double *off = room(rows, sizeof *off);
    start = room(own + 1, sizeof *start), fill = room(own, sizeof *fill);
    for (int pass = 0; pass < 2; pass++) {
        seed = 314159265;
        for (long long n = 0; n < drawn; n++) {
            int i = (int)(next(&seed) * rows), j = (int)(next(&seed) * rows);
            double v = next(&seed) - 0.5;
            if (i == j) continue;
            for (int side = 0; side < 2; side++, i ^= j, j ^= i, i ^= j) {
                if (pass == 0) off[i] += fabs(v);
                if (i < first || i >= first + own) continue;
                if (pass == 0) start[i - first + 1]++;
                else column[fill[i - first]] = j, value[fill[i - first]++] = v;
            }
        }
        if (pass == 1) break;
        for (int i = 0; i < own; i++) start[i + 1] += start[i] + 1;
        column = room(start[own], sizeof *column), value = room(start[own], sizeof *value);
        for (int i = 0; i < own; i++) fill[i] = start[i];
    }
    /* One row stands apart from all others, so that inverse iteration settles; the others' spread is what the inner
     * iteration has to work at. */
    *least = 1e300, *most = 0;
    for (int i = 0; i < rows; i++) {
        double diagonal = off[i] + (i == 0 ? 0.1 : 20 + 80.0 * i / rows);
        if (diagonal - off[i] < *least) *least = diagonal - off[i];
        if (diagonal + off[i] > *most) *most = diagonal + off[i];
        if (i >= first && i < first + own) column[fill[i - first]] = i, value[fill[i - first]++] = diagonal;
    }
    free(fill), free(off);
}

int main(int count, char **words) {
    char class = begin(&count, &words);
    rows = by_class(class, 1400, 28000, 250000);
    counts = room(ranks, sizeof *counts), places = room(ranks, sizeof *places);
    for (int i = 0; i < ranks; i++) {
        places[i] = (int)part_of(rows, i, ranks);
        counts[i] = (int)part_of(rows, i + 1, ranks) - places[i];
    }
    own = counts[rank], whole = room(rows, sizeof *whole);
    double least, most;
    make(by_class(class, 14, 16, 16), &least, &most);
    double *x = room(own, sizeof *x), *z = room(own, sizeof *z), *p = room(own, sizeof *p);
    double *q = room(own, sizeof *q), *r = room(own, sizeof *r), zeta = 0, before = 0, residual = 0;
    int round = 0;
    for (int i = 0; i < own; i++) x[i] = 1;
    name_state("x", x, own * sizeof *x), name_state("zeta", &zeta, sizeof zeta), name_state("round", &round, sizeof round);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (resumed(); round < ROUNDS; round++) {
        safe_point();
        for (int i = 0; i < own; i++) z[i] = 0, p[i] = r[i] = x[i];
        double rho = dot(r, r);
        for (int step = 0; step < STEPS; step++) {
            multiply(p, q);
            double alpha = rho / dot(p, q), old = rho;
            for (int i = 0; i < own; i++) z[i] += alpha * p[i], r[i] -= alpha * q[i];
            rho = dot(r, r);
            for (int i = 0; i < own; i++) p[i] = r[i] + rho / old * p[i];
        }
        multiply(z, q);
        for (int i = 0; i < own; i++) r[i] = x[i] - q[i];
        residual = sqrt(dot(r, r) / dot(x, x));
        before = zeta, zeta = dot(x, x) / dot(x, z);
        double norm = sqrt(dot(z, z));
        for (int i = 0; i < own; i++) x[i] = z[i] / norm;
    }
    double seconds = MPI_Wtime() - began;

    int good = residual < 1e-8 && fabs(zeta - before) < 1e-10 * zeta && zeta >= least && zeta <= most;
    char what[120];
    snprintf(what, sizeof what, "eigenvalue %.10f in [%.2f, %.2f], residual %.1e, settled to %.1e", zeta, least, most, residual, fabs(zeta - before));
    return end("CG", class, seconds, good, what);
}
