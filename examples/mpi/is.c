/* IS, integer sort: ranks of keys by buckets, ten times, as the kernel of that name in the NAS Parallel Benchmarks
 * (RNR-94-007, section 2.6): a reduction of the buckets' sizes, then all keys go to their bucket's rank by one exchange
 * of all with all. Simplified: a bucket for each 2^5 values; at the end keys are in order within and between ranks, none is
 * lost (their number and their sum), and each is in its rank's range.
 * Usage: is [S|W|A [ROUNDS]]: 2^16 keys below 2^11, 2^22 below 2^16, or 2^26 below 2^19; ten rounds if not said, 1 to 10,000. */
#include "kernel.h"

#define SHIFT 5

static void first_places(const int *sizes, int *places, int count) {
    for (int i = 0, place = 0; i < count; place += sizes[i++]) places[i] = place;
}

int main(int count, char **words) {
    char class = begin(&count, &words);
    int rounds = count > 2 ? atoi(words[2]) : 10;
    if (rounds < 1 || rounds > 10000) {
        if (rank == 0) fprintf(stderr, "%s: %s: 1 to 10000 rounds\n", words[0], words[2]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    long long all = 1LL << by_class(class, 16, 22, 26);
    int highest = 1 << by_class(class, 11, 16, 19), buckets = highest >> SHIFT;
    long long from = part_of(all, rank, ranks), to = part_of(all, rank + 1, ranks);
    int mine = (int)(to - from);
    int *keys = room(mine, sizeof *keys), *sorted = room(mine, sizeof *sorted);
    int *sizes = room(buckets, sizeof *sizes), *totals = room(buckets, sizeof *totals), *places = room(buckets, sizeof *places);
    int *owner = room(buckets, sizeof *owner);
    int *out = room(ranks, sizeof *out), *out_at = room(ranks, sizeof *out_at);
    int *in = room(ranks, sizeof *in), *in_at = room(ranks, sizeof *in_at);
    int *got = room(all, sizeof *got), *frequency = room(highest, sizeof *frequency);
    uint64_t seed = ahead(314159265, 4 * (uint64_t)from);
    long long number = 0;
    for (int i = 0; i < mine; i++)
        keys[i] = (int)(highest / 4 * (next(&seed) + next(&seed) + next(&seed) + next(&seed)));

    int round = 1;
    name_state("keys", keys, mine * sizeof *keys), name_state("round", &round, sizeof round);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (resumed(); round <= rounds; round++) {
        safe_point();
        /* Keys change between rounds, so that none can be saved. */
        if (mine > round) keys[round] = round, keys[mine - round] = highest - round;
        memset(sizes, 0, buckets * sizeof *sizes);
        for (int i = 0; i < mine; i++) sizes[keys[i] >> SHIFT]++;
        MPI_Allreduce(sizes, totals, buckets, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        long long before = 0;
        memset(out, 0, ranks * sizeof *out);
        for (int bucket = 0; bucket < buckets; before += totals[bucket++]) {
            owner[bucket] = (int)(before * ranks / all);
            out[owner[bucket]] += sizes[bucket];
        }
        first_places(sizes, places, buckets);
        for (int i = 0; i < mine; i++) sorted[places[keys[i] >> SHIFT]++] = keys[i];
        MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
        first_places(out, out_at, ranks);
        first_places(in, in_at, ranks);
        MPI_Alltoallv(sorted, out, out_at, MPI_INT, got, in, in_at, MPI_INT, MPI_COMM_WORLD);
        number = in_at[ranks - 1] + in[ranks - 1];
        memset(frequency, 0, highest * sizeof *frequency);
        for (long long i = 0; i < number; i++) frequency[got[i]]++;
    }
    double seconds = MPI_Wtime() - began;

    /* The keys in order, from their frequencies. */
    long long at = 0;
    int ordered = 1;
    for (int key = 0; key < highest; key++) {
        ordered &= frequency[key] == 0 || owner[key >> SHIFT] == rank;
        for (int i = 0; i < frequency[key]; i++) got[at++] = key;
    }
    int last = at ? got[at - 1] : -1, before = -1;
    MPI_Exscan(&last, &before, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank > 0 && at) ordered &= before <= got[0];
    long long sums[4] = {mine, number, 0, 0}, totals_of[4];
    for (int i = 0; i < mine; i++) sums[2] += keys[i];
    for (long long i = 0; i < at; i++) sums[3] += got[i];
    MPI_Allreduce(sums, totals_of, 4, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    int all_ordered;
    MPI_Allreduce(&ordered, &all_ordered, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    int good = all_ordered && totals_of[0] == all && totals_of[1] == all && totals_of[2] == totals_of[3];
    char what[100];
    snprintf(what, sizeof what, "%lld keys with sum %lld", totals_of[1], totals_of[3]);
    return end("IS", class, seconds, good, what);
}
