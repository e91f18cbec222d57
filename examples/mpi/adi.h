/* What BT and SP have in common: implicit steps (I + dt Lx)(I + dt Ly)(I + dt Lz) du = dt (f - L u) towards a known solution,
 * on a cube of points with five unknowns each, as those kernels of the NAS Parallel Benchmarks take them (RNR-94-007,
 * section 3.2). Ranks have planes of z: systems along x and y are solved at home; those along z go through all ranks and back,
 * a row of lines at a time, so that every rank soon has one to work at.
 * Simplified: planes instead of a multi-partition of cells, and constant coefficients. What a system is, is the kernel's:
 * WIDTH neighbours on each side; STATE doubles of a line that the next rank needs on the way up, KEEP of a point for the way
 * back, and three functions. Not here: those. */
#ifndef ADI_H
#define ADI_H

#include "kernel.h"

#define FIVE 5
#define WIDTH 2
#define STATE 30
#define NEXT 10
#define DT 0.5
#define SHIFT 0.3

typedef double five[FIVE];

/* Adds (L u) of one direction, where neighbours are `stride` apart. */
static void apply(const five *u, ptrdiff_t stride, double *sum);
/* Eliminates `count` points upwards: `state` is what comes from below and then what goes on. */
static void up(five *r, ptrdiff_t stride, int count, double (*keep)[KEEP], double *state);
/* Substitutes downwards: `next` holds the solution above, the nearest first, and then ours. */
static void down(five *r, ptrdiff_t stride, int count, double (*keep)[KEEP], double *next);

static int n, own, first;
static five *u, *f, *r;
static double (*keep)[KEEP];

#define SIDE (n + 2 * WIDTH)
/* Points of the cube are 0 to n - 1 (z: 0 to own - 1); around them are zeros, or the neighbours' planes. */
#define AT(z, y, x) ((((size_t)((z) + WIDTH)) * SIDE + (y) + WIDTH) * SIDE + (x) + WIDTH)
#define ALONG_X ((ptrdiff_t)1)
#define ALONG_Y ((ptrdiff_t)SIDE)
#define ALONG_Z ((ptrdiff_t)SIDE * SIDE)

static double known(int z, int y, int x, int m) {
    if (z < 0 || z >= n || y < 0 || y >= n || x < 0 || x >= n) return 0;
    return sin(0.3 * (z + 1) * (m + 1)) + cos(0.2 * (y + 2) + m) * (x + 1) / n;
}

static void planes(five *a) {
    int below = rank ? rank - 1 : MPI_PROC_NULL, above = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    int size = WIDTH * SIDE * SIDE * FIVE;
    size_t bottom = 0, low = (size_t)WIDTH * SIDE * SIDE, high = (size_t)own * SIDE * SIDE, top = (size_t)(own + WIDTH) * SIDE * SIDE;
    MPI_Sendrecv(a[low], size, MPI_DOUBLE, below, 1, a[top], size, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(a[high], size, MPI_DOUBLE, above, 2, a[bottom], size, MPI_DOUBLE, below, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void right_side(void) {
    planes(u);
    for (int z = 0; z < own; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                five sum = {0};
                const five *at = (const five *)&u[AT(z, y, x)];
                apply(at, ALONG_X, sum), apply(at, ALONG_Y, sum), apply(at, ALONG_Z, sum);
                for (int m = 0; m < FIVE; m++) r[AT(z, y, x)][m] = DT * (f[AT(z, y, x)][m] - sum[m]);
            }
}

static void at_home(ptrdiff_t stride) {
    for (int z = 0; z < own; z++)
        for (int line = 0; line < n; line++) {
            double state[STATE] = {0}, next[NEXT] = {0};
            five *begin_at = &r[stride == ALONG_X ? AT(z, line, 0) : AT(z, 0, line)];
            up(begin_at, stride, n, keep, state);
            down(begin_at, stride, n, keep, next);
        }
}

static void through_all(void) {
    static double states[128][STATE], nexts[128][NEXT];
    for (int y = 0; y < n; y++) {
        memset(states, 0, sizeof states);
        if (rank > 0) MPI_Recv(states, n * STATE, MPI_DOUBLE, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int x = 0; x < n; x++) up(&r[AT(0, y, x)], ALONG_Z, own, keep + ((size_t)y * n + x) * own, states[x]);
        if (rank < ranks - 1) MPI_Send(states, n * STATE, MPI_DOUBLE, rank + 1, 3, MPI_COMM_WORLD);
    }
    for (int y = 0; y < n; y++) {
        memset(nexts, 0, sizeof nexts);
        if (rank < ranks - 1) MPI_Recv(nexts, n * NEXT, MPI_DOUBLE, rank + 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int x = 0; x < n; x++) down(&r[AT(0, y, x)], ALONG_Z, own, keep + ((size_t)y * n + x) * own, nexts[x]);
        if (rank > 0) MPI_Send(nexts, n * NEXT, MPI_DOUBLE, rank - 1, 4, MPI_COMM_WORLD);
    }
}

static int solve(const char *name, char class, int points, int steps) {
    n = points;
    first = (int)part_of(n, rank, ranks), own = (int)part_of(n, rank + 1, ranks) - first;
    if (n / ranks < WIDTH) {
        if (rank == 0) fprintf(stderr, "%s: %d planes are too few for %d ranks\n", name, n, ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t size = (size_t)(own + 2 * WIDTH) * SIDE * SIDE, lines = (size_t)n * n * own;
    u = room(size, sizeof *u), f = room(size, sizeof *f), r = room(size, sizeof *r);
    keep = room(lines > (size_t)n ? lines : (size_t)n, sizeof *keep);
    /* The right side that the known solution has: L of it. */
    for (int z = -WIDTH; z < own + WIDTH; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++)
                for (int m = 0; m < FIVE; m++) r[AT(z, y, x)][m] = known(first + z, y, x, m);
    for (int z = 0; z < own; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                const five *at = (const five *)&r[AT(z, y, x)];
                apply(at, ALONG_X, f[AT(z, y, x)]), apply(at, ALONG_Y, f[AT(z, y, x)]), apply(at, ALONG_Z, f[AT(z, y, x)]);
            }
    memset(r, 0, size * sizeof *r);

    int step = 0;
    name_state("u", u, size * sizeof *u), name_state("step", &step, sizeof step);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (resumed(); step < steps; step++) {
        safe_point();
        right_side();
        at_home(ALONG_X), at_home(ALONG_Y), through_all();
        for (int z = 0; z < own; z++)
            for (int y = 0; y < n; y++)
                for (int x = 0; x < n; x++)
                    for (int m = 0; m < FIVE; m++) u[AT(z, y, x)][m] += r[AT(z, y, x)][m];
    }
    double seconds = MPI_Wtime() - began, most = 0;

    long long wrong = 0, all;
    for (int z = 0; z < own; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++)
                for (int m = 0; m < FIVE; m++) {
                    double off = fabs(u[AT(z, y, x)][m] - known(first + z, y, x, m));
                    wrong += !(off < 1e-8), most = fmax(off, most);
                }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    char what[100];
    snprintf(what, sizeof what, "off by %.2e at rank 0 after %d steps", most, steps);
    return end(name, class, seconds, all == 0, what);
}

#endif
