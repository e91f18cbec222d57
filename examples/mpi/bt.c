/* BT: implicit steps whose systems are tridiagonal in blocks of five by five (adi.h has what is common with SP, and what is
 * simplified): second differences, and a matrix that couples the unknowns of a point.
 * Right means: the known solution is found to 1e-8.
 * Usage: bt [S|W|A]: 12, 24 or 48 points a side, 100 steps. */
#define KEEP 25
#include "adi.h"

static double coupling(int i, int k) { return i == k ? 2 + SHIFT : 0.05 * ((i + 2 * k) % 3 - 1); }

static void apply(const five *u, ptrdiff_t stride, double *sum) {
    for (int m = 0; m < FIVE; m++) {
        for (int k = 0; k < FIVE; k++) sum[m] += coupling(m, k) * u[0][k];
        sum[m] -= u[-stride][m] + u[stride][m];
    }
}

/* x(k) = q - P x(k + 1), of the last point: first P, then q. */
static void up(five *r, ptrdiff_t stride, int count, double (*keep)[KEEP], double *state) {
    for (int k = 0; k < count; k++) {
        double *p = state, *q = state + KEEP, *point = r[k * stride], a[FIVE][2 * FIVE + 1];
        for (int i = 0; i < FIVE; i++) {
            for (int j = 0; j < FIVE; j++) {
                a[i][j] = (i == j) + DT * coupling(i, j) + DT * p[i * FIVE + j];
                a[i][FIVE + j] = i == j ? -DT : 0;
            }
            a[i][2 * FIVE] = point[i] + DT * q[i];
        }
        /* Gauss-Jordan; the diagonal outweighs the rest. */
        for (int i = 0; i < FIVE; i++) {
            double pivot = 1 / a[i][i];
            for (int j = i; j <= 2 * FIVE; j++) a[i][j] *= pivot;
            for (int l = 0; l < FIVE; l++) {
                double factor = a[l][i];
                for (int j = i; l != i && j <= 2 * FIVE; j++) a[l][j] -= factor * a[i][j];
            }
        }
        for (int i = 0; i < FIVE; i++) {
            for (int j = 0; j < FIVE; j++) keep[k][i * FIVE + j] = p[i * FIVE + j] = a[i][FIVE + j];
            point[i] = q[i] = a[i][2 * FIVE];
        }
    }
}

static void down(five *r, ptrdiff_t stride, int count, double (*keep)[KEEP], double *next) {
    for (int k = count - 1; k >= 0; k--) {
        double *point = r[k * stride];
        for (int i = 0; i < FIVE; i++)
            for (int j = 0; j < FIVE; j++) point[i] -= keep[k][i * FIVE + j] * next[j];
        memcpy(next, point, sizeof(five));
    }
}

int main(int count, char **words) {
    char class = begin(&count, &words);
    return solve("BT", class, by_class(class, 12, 24, 48), 100);
}
