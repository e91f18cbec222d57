/* Elimination with partial pivoting, and a product of matrices; rows lie side by side. Plain loops: a site that wants
 * speed links LAPACK in their place. */

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
