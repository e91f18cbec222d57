// The guest of `bench mechanisms`: opens and closes a file, or asks for its parent's number, again and again.
//   opens open|getppid PATH CALLS PROCESSES
// Prints two figures in nanoseconds: the median over short stretches of one process's calls, which other processes' time
// slices do not move, and wall time a call and core: wall time of all x cores in use / all calls. Not here: who stands
// between it and the kernel.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STRETCH = 16 }; // calls timed together: some 100 us where they are answered, far below a time slice

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void one(int opens, const char *path) {
  if (!opens) {
    getppid();
    return;
  }
  int fd = open(path, O_RDONLY);
  if (fd < 0) {
    perror(path);
    _exit(1);
  }
  close(fd);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

// The median stretch, ns a call.
static double run(int opens, const char *path, long calls) {
  long stretches = calls / STRETCH;
  uint64_t *took = malloc(stretches * sizeof *took);
  for (long s = 0; s < stretches; s++) {
    uint64_t begun = now_ns();
    for (int i = 0; i < STRETCH; i++)
      one(opens, path);
    took[s] = now_ns() - begun;
  }
  qsort(took, stretches, sizeof *took, by_value);
  return (double)took[stretches / 2] / STRETCH;
}

int main(int count, char **words) {
  if (count != 5)
    return 2;
  int opens = !strcmp(words[1], "open");
  const char *path = words[2];
  long calls = atol(words[3]), processes = atol(words[4]);
  if (calls < STRETCH || processes < 1)
    return 2;
  for (int i = 0; i < STRETCH; i++)
    one(opens, path); // warm
  uint64_t begun = now_ns();
  double median = 0;
  if (processes == 1) {
    median = run(opens, path, calls);
  } else {
    int gate[2];
    if (pipe(gate))
      return 1;
    for (long p = 0; p < processes; p++) {
      pid_t pid = fork();
      if (pid < 0)
        return 1;
      if (pid == 0) {
        char byte;
        close(gate[1]);
        if (read(gate[0], &byte, 1) < 0)
          _exit(1);
        run(opens, path, calls / processes);
        _exit(0);
      }
    }
    begun = now_ns();
    close(gate[1]); // all of them begin
    int status, failed = 0;
    while (wait(&status) > 0)
      failed |= status;
    if (failed)
      return 1;
  }
  uint64_t wall = now_ns() - begun;
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  long cores = CPU_COUNT(&set) < processes ? CPU_COUNT(&set) : processes;
  printf("%.1f %.1f\n", median, (double)wall * cores / (calls / processes * processes));
  return 0;
}
