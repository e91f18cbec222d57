/* Elimination with partial pivoting, and a product of matrices; rows lie side by side. Plain loops: a site that wants
 * speed offers lapack.idl. */

#include <math.h>

static void swap(double *a, double *b) {
    double kept = *a;
    *a = *b;
    *b = kept;
}

void linpack_dgesv(int n, double *a, int *ipiv, double *b, int *info) {
    *info = 0;
    for (int k = 0; k < n; k++) {
        int p = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[(long)i * n + k]) > fabs(a[(long)p * n + k])) p = i;
        ipiv[k] = p + 1;
        if (a[(long)p * n + k] == 0) {
            *info = k + 1;
            return;
        }
        if (p != k) {
            for (int j = 0; j < n; j++) swap(&a[(long)p * n + j], &a[(long)k * n + j]);
            swap(&b[p], &b[k]);
        }
        for (int i = k + 1; i < n; i++) {
            double factor = a[(long)i * n + k] / a[(long)k * n + k];
            a[(long)i * n + k] = factor;
            for (int j = k + 1; j < n; j++) a[(long)i * n + j] -= factor * a[(long)k * n + j];
            b[i] -= factor * b[k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++) b[i] -= a[(long)i * n + j] * b[j];
        b[i] /= a[(long)i * n + i];
    }
}

void linpack_dgemm(int m, int n, int k, double alpha, double *a, double *b, double beta, double *c) {
    for (int i = 0; i < m; i++) {
        double *row = c + (long)i * n;
        for (int j = 0; j < n; j++) row[j] *= beta;
        for (int l = 0; l < k; l++) {
            double factor = alpha * a[(long)i * k + l];
            for (int j = 0; j < n; j++) row[j] += factor * b[(long)l * n + j];
        }
    }
}

/* LINPACK's own pair, by columns that lie lda elements apart: factors by Gaussian elimination, and solutions with them. Pivots count
 * from 1, as there (Dongarra, Bunch, Moler, Stewart: LINPACK Users' Guide, 1979). */

/* y += t x, of elements from to to. */
static void add(int from, int to, double t, const double *x, double *y) {
    for (int i = from; i < to; i++) y[i] += t * x[i];
}

static double dot(int from, int to, const double *x, const double *y) {
    double sum = 0;
    for (int i = from; i < to; i++) sum += x[i] * y[i];
    return sum;
}

void linpack_dgefa(double *a, int lda, int n, int *ipvt, int *info) {
    *info = 0;
    for (int k = 0; k < n; k++) {
        double *column = a + (long)k * lda;
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(column[i]) > fabs(column[pivot])) pivot = i;
        ipvt[k] = pivot + 1;
        if (column[pivot] == 0) {
            *info = k + 1;
            continue;
        }
        swap(&column[pivot], &column[k]);
        for (int i = k + 1; i < n; i++) column[i] /= -column[k];
        for (int j = k + 1; j < n; j++) {
            double *other = a + (long)j * lda;
            swap(&other[pivot], &other[k]);
            add(k + 1, n, other[k], column, other);
        }
    }
}

/* job 0: a x = b; else with the transpose of a. */
void linpack_dgesl(double *a, int lda, int n, int *ipvt, double *b, int job) {
    for (int k = 0; k < n && job == 0; k++) {
        swap(&b[ipvt[k] - 1], &b[k]);
        add(k + 1, n, b[k], a + (long)k * lda, b);
    }
    for (int k = n - 1; k >= 0 && job == 0; k--) {
        double *column = a + (long)k * lda;
        b[k] /= column[k];
        add(0, k, -b[k], column, b);
    }
    for (int k = 0; k < n && job != 0; k++) {
        double *column = a + (long)k * lda;
        b[k] = (b[k] - dot(0, k, column, b)) / column[k];
    }
    for (int k = n - 1; k >= 0 && job != 0; k--) {
        b[k] += dot(k + 1, n, a + (long)k * lda, b);
        swap(&b[ipvt[k] - 1], &b[k]);
    }
}
