// The guests of `bench choice`: one kind of work, again and again.
//   load KIND TIMES
// Kinds: compute (TIMES million steps), open, look, make (a file is made and removed), fork, exec (/bin/true), thread,
// and with a number before them, such as 16open, that many processes at once share the work. Its own directory is the
// working directory. Not here: who stands between it and the kernel.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
  perror(what);
  _exit(1);
}

static void compute(long millions) {
  volatile uint64_t x = 88172645463325252ull;
  for (long i = 0; i < millions * 1000000; i++) {
    uint64_t y = x;
    y ^= y << 13;
    y ^= y >> 7;
    x = y ^ (y << 17);
  }
}

static void child(int program) {
  pid_t pid = fork();
  if (pid < 0)
    fail("fork");
  if (pid == 0) {
    if (program) {
      execl("/bin/true", "true", (char *)0);
      fail("/bin/true");
    }
    _exit(0);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || status)
    fail("child");
}

static void *nothing(void *argument) { return argument; }

static void work(const char *kind, long times) {
  struct stat about;
  char name[32];
  snprintf(name, sizeof name, "made-%d", (int)getpid());
  if (!strcmp(kind, "compute")) {
    compute(times);
    return;
  }
  for (long i = 0; i < times; i++) {
    if (!strcmp(kind, "open")) {
      int fd = open("/job/file", O_RDONLY);
      if (fd < 0)
        fail("/job/file");
      close(fd);
    } else if (!strcmp(kind, "look")) {
      if (stat("/job/file", &about))
        fail("/job/file");
    } else if (!strcmp(kind, "make")) {
      int fd = open(name, O_WRONLY | O_CREAT, 0600);
      if (fd < 0 || close(fd) || unlink(name))
        fail(name);
    } else if (!strcmp(kind, "fork")) {
      child(0);
    } else if (!strcmp(kind, "exec")) {
      child(1);
    } else if (!strcmp(kind, "thread")) {
      pthread_t thread;
      if (pthread_create(&thread, 0, nothing, 0) || pthread_join(thread, 0))
        fail("thread");
    } else {
      fail(kind);
    }
  }
}

int main(int count, char **words) {
  if (count != 3)
    return 2;
  char *kind;
  long processes = strtol(words[1], &kind, 10), times = atol(words[2]);
  if (processes < 2) {
    work(kind, times);
    return 0;
  }
  for (long p = 0; p < processes; p++) {
    pid_t pid = fork();
    if (pid < 0)
      fail("fork");
    if (pid == 0) {
      work(kind, times / processes);
      _exit(0);
    }
  }
  int status, failed = 0;
  while (wait(&status) > 0)
    failed |= status;
  return failed != 0;
}
