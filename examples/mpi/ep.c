/* EP, embarrassingly parallel: pairs of Gaussian deviates by the polar method, counted by square annuli, as the kernel
 * of that name in the NAS Parallel Benchmarks (RNR-94-007, section 2.1). Ranks talk only at the end, by reductions.
 * Simplified: nothing but its blocks; the sums are those that the specification gives, to 8 digits.
 * Usage: ep [S|W|A]: 2^24, 2^25 or 2^28 pairs. */
#include "kernel.h"

#define ANNULI 10
/* Pairs between safe points. */
#define STRETCH (1 << 16)

int main(int count, char **words) {
    char class = begin(&count, &words);
    long long pairs = 1LL << by_class(class, 24, 25, 28);
    long long from = part_of(pairs, rank, ranks), to = part_of(pairs, rank + 1, ranks);
    uint64_t seed = ahead(271828183, 2 * (uint64_t)from);
    double sums[2] = {0, 0}, all[2];
    long long counts[ANNULI] = {0}, counted[ANNULI], in_all = 0;

    long long pair = from;
    name_state("pair", &pair, sizeof pair), name_state("seed", &seed, sizeof seed);
    name_state("sums", sums, sizeof sums), name_state("counts", counts, sizeof counts);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (resumed(); pair < to;) {
        safe_point();
        /* What is named stays in memory; the stretch has it in registers. */
        long long end_of = pair + STRETCH < to ? pair + STRETCH : to;
        uint64_t state = seed;
        double sum[2] = {sums[0], sums[1]};
        for (long long i = pair; i < end_of; i++) {
            double x = 2 * next(&state) - 1, y = 2 * next(&state) - 1, t = x * x + y * y;
            if (t > 1) continue;
            double factor = sqrt(-2 * log(t) / t);
            x *= factor, y *= factor;
            sum[0] += x, sum[1] += y;
            int annulus = (int)fmax(fabs(x), fabs(y));
            if (annulus < ANNULI) counts[annulus]++;
        }
        pair = end_of, seed = state, sums[0] = sum[0], sums[1] = sum[1];
    }
    MPI_Allreduce(sums, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(counts, counted, ANNULI, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - began;

    double xs[] = {-3.247834652034740e3, -2.863319731645753e3, -4.295875165629892e3};
    double ys[] = {-6.958407078382297e3, -6.320053679109499e3, -1.580732573678431e4};
    double x = xs[by_class(class, 0, 1, 2)], y = ys[by_class(class, 0, 1, 2)];
    for (int annulus = 0; annulus < ANNULI; annulus++) in_all += counted[annulus];
    int good = fabs((all[0] - x) / x) < 1e-8 && fabs((all[1] - y) / y) < 1e-8;
    char what[100];
    snprintf(what, sizeof what, "sums %.6f %.6f of %lld pairs", all[0], all[1], in_all);
    return end("EP", class, seconds, good, what);
}
