/* beats MIB: has so much memory, writes to a page of it and tells the time (ns) in the file `beat`, each millisecond. Links nothing. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    size_t bytes = (count > 1 ? strtoul(words[1], 0, 10) : 1) << 20;
    char *memory = malloc(bytes);
    int beat = open("beat", O_CREAT | O_WRONLY, 0600);
    if (!memory || beat < 0)
        return 1;
    for (size_t at = 0; at < bytes; at++)
        memory[at] = at * 2654435761u >> 24;
    struct timespec pause = {0, 1000000};
    for (size_t at = 0;; at = (at + 4096) % bytes) {
        struct timespec now;
        memory[at]++;
        clock_gettime(CLOCK_REALTIME, &now);
        long long ns = now.tv_sec * 1000000000ll + now.tv_nsec;
        if (pwrite(beat, &ns, sizeof ns, 0) != sizeof ns)
            return 2;
        nanosleep(&pause, 0);
    }
}
