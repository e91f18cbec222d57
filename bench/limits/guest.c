// The guest of `bench limits`: uses one thing as fast as it may, for some time.
//   guest send PORT SECONDS PROCESSES SOCKETS     writes of 16 KiB to 127.0.0.1; prints how many it made
//   guest receive PORT SECONDS                    prints bytes a second, the first 2 s left out
//   guest disk MODE FILE SECONDS                  prints bytes a second, the first second left out
//   guest burn PROCESSES SECONDS                  prints processor time / wall time, in %
// MODE: wdirect wbuf rdirect rbuf rmmap. A file that is read is there, and is dropped from memory before each pass.
// Not here: who keeps it from using all.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  PIECE = 16384,   // as netperf wrote in paper 000
  BLOCK = 1 << 20, // of a disk
  MOST_WRITTEN = 256 << 20 // of a file that is written over and over
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void failed(const char *what) {
  perror(what);
  _exit(1);
}

static int connected(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (struct sockaddr *)&to, sizeof to))
    failed("connect");
  return fd;
}

static int port;
static double until;
static atomic_long writes;

static void *sending(void *nothing) {
  static char piece[PIECE];
  int fd = connected(port);
  while (now_s() < until) {
    if (write(fd, piece, sizeof piece) < 0)
      failed("write");
    writes++;
  }
  return nothing;
}

static int send_all(int processes, int sockets) {
  int told[2];
  if (pipe(told))
    failed("pipe");
  for (int p = 0; p < processes; p++) {
    if (fork())
      continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t threads[64];
    for (int s = 0; s < sockets; s++)
      pthread_create(&threads[s], NULL, sending, NULL);
    for (int s = 0; s < sockets; s++)
      pthread_join(threads[s], NULL);
    long made = writes;
    _exit(write(told[1], &made, sizeof made) != sizeof made);
  }
  close(told[1]);
  long all = 0, made;
  while (read(told[0], &made, sizeof made) == sizeof made)
    all += made;
  printf("%ld\n", all);
  return 0;
}

static int receive(double seconds) {
  static char piece[1 << 18];
  int fd = connected(port);
  double begun = now_s(), from = 0;
  long bytes = 0, count;
  while (now_s() < until && (count = read(fd, piece, sizeof piece)) > 0) {
    if (now_s() - begun < 2)
      continue;
    if (!from)
      from = now_s();
    else
      bytes += count;
  }
  printf("%.0f\n", bytes / (now_s() - from));
  return seconds < 3;
}

static int disk(const char *mode, const char *path, double seconds) {
  int writing = mode[0] == 'w', direct = !strcmp(mode + 1, "direct"), mapped = !strcmp(mode + 1, "mmap");
  int fd = open(path, (writing ? O_WRONLY | O_CREAT : O_RDONLY) | (direct ? O_DIRECT : 0), 0600);
  struct stat about;
  if (fd < 0 || fstat(fd, &about))
    failed(path);
  char *block = aligned_alloc(4096, BLOCK);
  memset(block, 7, BLOCK);
  long size = writing ? MOST_WRITTEN : about.st_size, at = size, bytes = 0;
  volatile char sum = 0;
  double begun = now_s(), from = 0;
  char *map = mapped ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
  while (now_s() < begun + seconds) {
    if (at >= size) {
      at = 0;
      if (mapped)
        madvise(map, size, MADV_DONTNEED);
      if (!writing)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    long count = BLOCK;
    if (mapped) {
      for (long i = 0; i < BLOCK; i += 4096)
        sum += map[at + i];
    } else
      count = writing ? pwrite(fd, block, BLOCK, at) : pread(fd, block, BLOCK, at);
    if (count <= 0)
      failed(path);
    at += count;
    if (now_s() - begun < 1)
      continue;
    if (!from)
      from = now_s();
    else
      bytes += count;
  }
  printf("%.0f\n", bytes / (now_s() - from));
  if (writing)
    unlink(path);
  return 0;
}

static int burn(int processes, double seconds) {
  double begun = now_s();
  for (int p = 0; p < processes; p++)
    if (!fork()) {
      while (now_s() < begun + seconds)
        ;
      _exit(0);
    }
  while (wait(NULL) > 0)
    ;
  double wall = now_s() - begun;
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  double cpu = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
  printf("%.3f\n", 100 * cpu / wall);
  return 0;
}

int main(int count, char **words) {
  signal(SIGPIPE, SIG_IGN);
  if (count == 6 && !strcmp(words[1], "send")) {
    port = atoi(words[2]);
    until = now_s() + atof(words[3]);
    return send_all(atoi(words[4]), atoi(words[5]));
  }
  if (count == 4 && !strcmp(words[1], "receive")) {
    port = atoi(words[2]);
    until = now_s() + atof(words[3]);
    return receive(atof(words[3]));
  }
  if (count == 5 && !strcmp(words[1], "disk"))
    return disk(words[2], words[3], atof(words[4]));
  if (count == 4 && !strcmp(words[1], "burn"))
    return burn(atoi(words[2]), atof(words[3]));
  return 2;
}
