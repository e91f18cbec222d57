/* LU, symmetric successive over-relaxation: a lower and an upper triangular sweep over a cube of points with five unknowns
 * each, as the kernel of that name in the NAS Parallel Benchmarks (RNR-94-007, section 3.2): ranks divide x and y, and each
 * plane of a sweep waits for the columns of the ranks before it, so that many small messages make a wave through all ranks.
 * Simplified: the five unknowns are coupled by one constant matrix at each point (and by -1 to the same unknown of six
 * neighbours) instead of the Navier-Stokes equations' Jacobians. The sweeps are those of one rank, whatever their number.
 * Right means: the known solution that the right side was made of is found to 1e-9.
 * Usage: lu [S|W|A]: 12, 33 or 64 points a side, 60 or 150 iterations. */
#include "kernel.h"

#define FIVE 5

typedef double five[FIVE];

static int n, nx, ny, first_x, first_y;
static int west, east, south, north;
static MPI_Comm grid;
static five *u, *f;
static double inverse[FIVE][FIVE], matrix[FIVE][FIVE];

/* Own points are 1 to nx, ny, n; around them are the neighbours', or zeros. */
#define AT(z, y, x) (((size_t)(z) * (ny + 2) + (y)) * (nx + 2) + (x))

static double known(int z, int y, int x, int m) {
    return sin(0.3 * (z + 1) * (m + 1)) + cos(0.2 * (y + 2) + m) * (x + 1) / n;
}

/* One column of a plane, along y at `x`, or one row, along x at `y`: to or from a neighbour. */
static void send(int to, int z, int fixed, int along_y) {
    int count = along_y ? ny : nx;
    five edge[64];
    for (int i = 0; i < count; i++) memcpy(edge[i], u[along_y ? AT(z, i + 1, fixed) : AT(z, fixed, i + 1)], sizeof(five));
    MPI_Send(edge, count * FIVE, MPI_DOUBLE, to, along_y, grid);
}

static void receive(int from, int z, int fixed, int along_y) {
    int count = along_y ? ny : nx;
    five edge[64];
    if (from == MPI_PROC_NULL) return;
    MPI_Recv(edge, count * FIVE, MPI_DOUBLE, from, along_y, grid, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) memcpy(u[along_y ? AT(z, i + 1, fixed) : AT(z, fixed, i + 1)], edge[i], sizeof(five));
}

static void point(int z, int y, int x) {
    five right;
    size_t at = AT(z, y, x);
    for (int m = 0; m < FIVE; m++)
        right[m] = f[at][m] + u[AT(z - 1, y, x)][m] + u[AT(z + 1, y, x)][m] + u[AT(z, y - 1, x)][m] + u[AT(z, y + 1, x)][m]
            + u[at - 1][m] + u[at + 1][m];
    for (int m = 0; m < FIVE; m++) {
        double sum = 0;
        for (int k = 0; k < FIVE; k++) sum += inverse[m][k] * right[k];
        u[at][m] += 1.2 * (sum - u[at][m]);
    }
}

/* What a sweep needs of the ranks behind it is as the sweep before left it: they send it first, all planes at once. */
static void before_lower(void) {
    for (int z = 1; z <= n; z++) send(west, z, 1, 1), send(south, z, 1, 0), receive(east, z, nx + 1, 1), receive(north, z, ny + 1, 0);
}

static void before_upper(void) {
    for (int z = n; z >= 1; z--) send(east, z, nx, 1), send(north, z, ny, 0), receive(west, z, 0, 1), receive(south, z, 0, 0);
}

static void lower(void) {
    for (int z = 1; z <= n; z++) {
        receive(west, z, 0, 1), receive(south, z, 0, 0);
        for (int y = 1; y <= ny; y++)
            for (int x = 1; x <= nx; x++) point(z, y, x);
        send(east, z, nx, 1), send(north, z, ny, 0);
    }
}

static void upper(void) {
    for (int z = n; z >= 1; z--) {
        receive(east, z, nx + 1, 1), receive(north, z, ny + 1, 0);
        for (int y = ny; y >= 1; y--)
            for (int x = nx; x >= 1; x--) point(z, y, x);
        send(west, z, 1, 1), send(south, z, 1, 0);
    }
}

/* Gauss-Jordan; the matrix outweighs itself on the diagonal. */
static void invert(void) {
    double a[FIVE][2 * FIVE] = {{0}};
    for (int i = 0; i < FIVE; i++)
        for (int k = 0; k < FIVE; k++) a[i][k] = matrix[i][k] = i == k ? 8 : 0.2 * ((i + 2 * k) % 3 - 1);
    for (int i = 0; i < FIVE; i++) a[i][FIVE + i] = 1;
    for (int i = 0; i < FIVE; i++) {
        double pivot = a[i][i];
        for (int k = 0; k < 2 * FIVE; k++) a[i][k] /= pivot;
        for (int j = 0; j < FIVE; j++) {
            double factor = a[j][i];
            for (int k = 0; j != i && k < 2 * FIVE; k++) a[j][k] -= factor * a[i][k];
        }
    }
    for (int i = 0; i < FIVE; i++) memcpy(inverse[i], a[i] + FIVE, sizeof(five));
}

static int inside(int z, int y, int x) { return z >= 0 && z < n && y >= 0 && y < n && x >= 0 && x < n; }

int main(int count, char **words) {
    char class = begin(&count, &words);
    int sides[2] = {0, 0}, around[2] = {0, 0}, place[2], iterations = by_class(class, 60, 150, 150), i = 0;
    n = by_class(class, 12, 33, 64);
    MPI_Dims_create(ranks, 2, sides);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sides, around, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, place);
    MPI_Cart_shift(grid, 0, 1, &west, &east);
    MPI_Cart_shift(grid, 1, 1, &south, &north);
    first_x = (int)part_of(n, place[0], sides[0]), nx = (int)part_of(n, place[0] + 1, sides[0]) - first_x;
    first_y = (int)part_of(n, place[1], sides[1]), ny = (int)part_of(n, place[1] + 1, sides[1]) - first_y;
    if (sides[0] > n || sides[1] > n) {
        if (rank == 0) fprintf(stderr, "lu: %d points a side cannot be divided among %d ranks\n", n, ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    invert();
    u = room((size_t)(n + 2) * (ny + 2) * (nx + 2), sizeof *u), f = room((size_t)(n + 2) * (ny + 2) * (nx + 2), sizeof *f);
    const int steps[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    for (int z = 0; z < n; z++)
        for (int y = first_y; y < first_y + ny; y++)
            for (int x = first_x; x < first_x + nx; x++)
                for (int m = 0; m < FIVE; m++) {
                    double sum = 0;
                    for (int k = 0; k < FIVE; k++) sum += matrix[m][k] * known(z, y, x, k);
                    for (int s = 0; s < 6; s++)
                        if (inside(z + steps[s][0], y + steps[s][1], x + steps[s][2]))
                            sum -= known(z + steps[s][0], y + steps[s][1], x + steps[s][2], m);
                    f[AT(z + 1, y - first_y + 1, x - first_x + 1)][m] = sum;
                }

    name_state("u", u, (size_t)(n + 2) * (ny + 2) * (nx + 2) * sizeof *u), name_state("i", &i, sizeof i);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (resumed(); i < iterations; i++) safe_point(), before_lower(), lower(), before_upper(), upper();
    double seconds = MPI_Wtime() - began, most = 0;

    long long wrong = 0, all;
    for (int z = 1; z <= n; z++)
        for (int y = 1; y <= ny; y++)
            for (int x = 1; x <= nx; x++)
                for (int m = 0; m < FIVE; m++) {
                    double off = fabs(u[AT(z, y, x)][m] - known(z - 1, first_y + y - 1, first_x + x - 1, m));
                    wrong += !(off < 1e-9), most = fmax(off, most);
                }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    char what[100];
    snprintf(what, sizeof what, "off by %.2e at rank 0, %d by %d ranks", most, sides[0], sides[1]);
    return end("LU", class, seconds, all == 0, what);
}
