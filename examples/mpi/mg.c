/* MG, multigrid: V-cycles on a periodic cube for Poisson's equation with charges at twenty points, as the kernel of that
 * name in the NAS Parallel Benchmarks (RNR-94-007, section 2.3): at each level, faces of all sizes go to the neighbours.
 * Simplified: planes are divided in one dimension, so that a rank has two neighbours and not six; the 7-point operator,
 * damped Jacobi, full weighting and linear interpolation instead of the four 27-point stencils; as many levels as leave a
 * plane for each rank. Right means: twelve cycles bring the residual below 1e-7 of the first.
 * Usage: mg [S|W|A]: 32, 64 or 128 points a side; the number of ranks divides it. */
#include "kernel.h"

#define CYCLES 12
#define MOST_LEVELS 8
#define CHARGES 10

/* A level: n points a side, `own` planes here, with a plane of the neighbours' below and above. */
struct level {
    int n, own;
    double *u, *f, *r;
};

static struct level levels[MOST_LEVELS];
static int number;

#define AT(l, z, y, x) (((size_t)(z) * (l)->n + (y)) * (l)->n + (x))

static void faces(const struct level *l, double *a) {
    int plane = l->n * l->n, down = (rank + ranks - 1) % ranks, up = (rank + 1) % ranks;
    MPI_Sendrecv(a + plane, plane, MPI_DOUBLE, down, 1, a + (size_t)(l->own + 1) * plane, plane, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(a + (size_t)l->own * plane, plane, MPI_DOUBLE, up, 2, a, plane, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* r = f - A u, where A is minus the Laplacian times the square of this level's distance: h counts in points of the finest. */
static void residual(const struct level *l) {
    double h = (double)levels[0].n / l->n, scale = 1 / (h * h);
    faces(l, l->u);
    for (int z = 1; z <= l->own; z++)
        for (int y = 0; y < l->n; y++)
            for (int x = 0; x < l->n; x++) {
                int n = l->n, west = x ? x - 1 : n - 1, east = x < n - 1 ? x + 1 : 0, south = y ? y - 1 : n - 1, north = y < n - 1 ? y + 1 : 0;
                double around = l->u[AT(l, z - 1, y, x)] + l->u[AT(l, z + 1, y, x)] + l->u[AT(l, z, south, x)]
                    + l->u[AT(l, z, north, x)] + l->u[AT(l, z, y, west)] + l->u[AT(l, z, y, east)];
                l->r[AT(l, z, y, x)] = l->f[AT(l, z, y, x)] - scale * (6 * l->u[AT(l, z, y, x)] - around);
            }
}

static void smooth(const struct level *l, int times_over) {
    double h = (double)levels[0].n / l->n, weight = h * h * 6 / 7 / 6;
    size_t from = AT(l, 1, 0, 0), to = AT(l, l->own + 1, 0, 0);
    while (times_over--) {
        residual(l);
        for (size_t i = from; i < to; i++) l->u[i] += weight * l->r[i];
    }
}

/* One dimension of full weighting and of linear interpolation: point 2i and its neighbours. */
static const double weights[3] = {0.25, 0.5, 0.25};

static void restrict_to(const struct level *fine, const struct level *l) {
    faces(fine, fine->r);
    for (int z = 1; z <= l->own; z++)
        for (int y = 0; y < l->n; y++)
            for (int x = 0; x < l->n; x++) {
                double sum = 0;
                /* Plane 1 of a rank is point 0 of its part, on every level. */
                for (int i = 0; i < 27; i++) {
                    int fz = 2 * z - 1 + i / 9 - 1, fy = (2 * y + i / 3 % 3 - 1 + fine->n) % fine->n, fx = (2 * x + i % 3 - 1 + fine->n) % fine->n;
                    sum += weights[i / 9] * weights[i / 3 % 3] * weights[i % 3] * fine->r[AT(fine, fz, fy, fx)];
                }
                l->f[AT(l, z, y, x)] = sum;
                l->u[AT(l, z, y, x)] = 0;
            }
}

static void interpolate(const struct level *l, const struct level *fine) {
    faces(l, l->u);
    for (int z = 1; z <= fine->own; z++)
        for (int y = 0; y < fine->n; y++)
            for (int x = 0; x < fine->n; x++) {
                double sum = 0;
                for (int i = 0; i < 8; i++) {
                    int cz = (z - 1) / 2 + 1 + (i >> 2 & (z - 1)), cy = (y / 2 + (i >> 1 & y & 1)) % l->n, cx = (x / 2 + (i & x & 1)) % l->n;
                    sum += l->u[AT(l, cz, cy, cx)];
                }
                fine->u[AT(fine, z, y, x)] += sum / 8;
            }
}

static void cycle(int at) {
    struct level *l = &levels[at];
    if (at == number - 1) {
        smooth(l, 4 * l->n * l->n);
        return;
    }
    smooth(l, 2);
    residual(l);
    restrict_to(l, l + 1);
    cycle(at + 1);
    interpolate(l + 1, l);
    smooth(l, 2);
}

static double norm(void) {
    const struct level *l = levels;
    residual(l);
    double sum = 0, all;
    for (size_t i = AT(l, 1, 0, 0); i < AT(l, l->own + 1, 0, 0); i++) sum += l->r[i] * l->r[i];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sqrt(all);
}

int main(int count, char **words) {
    char class = begin(&count, &words);
    int n = by_class(class, 32, 64, 128), i = 0;
    if (n % ranks) {
        if (rank == 0) fprintf(stderr, "mg: %d planes cannot be divided among %d ranks\n", n, ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int own = n / ranks; number < MOST_LEVELS; n /= 2, own /= 2) {
        size_t points = (size_t)(own + 2) * n * n;
        levels[number++] = (struct level){n, own, room(points, sizeof(double)), room(points, sizeof(double)), room(points, sizeof(double))};
        if (own % 2 || n <= 4) break;
    }
    uint64_t seed = 314159265;
    for (int charge = 0; charge < 2 * CHARGES; charge++) {
        struct level *l = levels;
        int z = (int)(next(&seed) * l->n), y = (int)(next(&seed) * l->n), x = (int)(next(&seed) * l->n);
        if (z / l->own == rank) l->f[AT(l, z % l->own + 1, y, x)] += charge % 2 ? 1 : -1;
    }
    double first = norm();
    name_state("u", levels->u, (size_t)(levels->own + 2) * levels->n * levels->n * sizeof(double)), name_state("i", &i, sizeof i);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (resumed(); i < CYCLES; i++) safe_point(), cycle(0);
    double last = norm(), seconds = MPI_Wtime() - began;

    char what[100];
    snprintf(what, sizeof what, "residual %.2e of the first, %d levels", last / first, number);
    return end("MG", class, seconds, last < 1e-7 * first, what);
}
