/* SP: implicit steps whose systems are scalar and pentadiagonal (adi.h has what is common with BT, and what is simplified):
 * each unknown by itself, second differences with some of the fourth to damp them.
 * Right means: the known solution is found to 1e-8.
 * Usage: sp [S|W|A]: 12, 32 or 64 points a side, 100 steps. */
#define KEEP 10
#include "adi.h"

#define DAMPING 0.05

static void apply(const five *u, ptrdiff_t stride, double *sum) {
    for (int m = 0; m < FIVE; m++) {
        double near = u[-stride][m] + u[stride][m], far = u[-2 * stride][m] + u[2 * stride][m];
        sum[m] += (2 + SHIFT) * u[0][m] - near + DAMPING * (6 * u[0][m] - 4 * near + far);
    }
}

/* x(k) = z - a x(k + 1) - b x(k + 2): of the last point and of the one before, for each unknown. */
static void up(five *r, ptrdiff_t stride, int count, double (*keep)[KEEP], double *state) {
    const double far = DT * DAMPING, near = DT * (-1 - 4 * DAMPING), middle = 1 + DT * (2 + SHIFT + 6 * DAMPING);
    for (int k = 0; k < count; k++)
        for (int m = 0; m < FIVE; m++) {
            double *before = state + 6 * m, *point = r[k * stride];
            double low = near - far * before[4], pivot = middle - far * before[5] - low * before[1];
            double a = (near - low * before[2]) / pivot, b = far / pivot;
            point[m] = (point[m] - far * before[3] - low * before[0]) / pivot;
            keep[k][m] = a, keep[k][FIVE + m] = b;
            memmove(before + 3, before, 3 * sizeof *before);
            before[0] = point[m], before[1] = a, before[2] = b;
        }
}

static void down(five *r, ptrdiff_t stride, int count, double (*keep)[KEEP], double *next) {
    for (int k = count - 1; k >= 0; k--)
        for (int m = 0; m < FIVE; m++) {
            double *point = r[k * stride];
            point[m] -= keep[k][m] * next[m] + keep[k][FIVE + m] * next[FIVE + m];
            next[FIVE + m] = next[m], next[m] = point[m];
        }
}

int main(int count, char **words) {
    char class = begin(&count, &words);
    return solve("SP", class, by_class(class, 12, 32, 64), 100);
}
