// The limiter of paper 000, section 4.2, by each of its three ways to reach calls: what was written within the last
// moment is summed up, and whoever wrote sleeps for sum / limit - moment.
//   paper ptrace|notify BYTES_A_SECOND PROGRAM ARGUMENT...    stands by the program
//   LD_PRELOAD=paper.so PAPER_RATE=BYTES_A_SECOND PROGRAM     the same inside (compiled with -DINSIDE -shared -fPIC)
// ptrace stops every call twice, as it did in 2003; notify, a seccomp listener, stops writes alone, as mod_janus did, and
// sleeps before them instead of after. Every write to a descriptor above 2 counts. Not here: reading, disks, paths.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REMEMBERED = 1 << 16 }; // writes within a moment: 100 ms of 16 KiB at 85 Gbit/s
static const double MOMENT_S = 0.1;

static double limit; // bytes a second
static struct {
  double at;
  long bytes;
} history[REMEMBERED];
static unsigned oldest, next;
static double sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void wrote(long bytes) {
  pthread_mutex_lock(&lock);
  double now = now_s();
  history[next % REMEMBERED].at = now;
  history[next++ % REMEMBERED].bytes = bytes;
  sum += bytes;
  while (now - history[oldest % REMEMBERED].at >= MOMENT_S || next - oldest > REMEMBERED)
    sum -= history[oldest++ % REMEMBERED].bytes;
  double rest = sum / limit - MOMENT_S;
  pthread_mutex_unlock(&lock);
  if (rest <= 0)
    return;
  struct timespec t = {rest, (rest - (long)rest) * 1e9};
  while (nanosleep(&t, &t) && errno == EINTR)
    ;
}

#ifdef INSIDE

__attribute__((constructor)) static void begin(void) {
  const char *rate = getenv("PAPER_RATE");
  limit = rate ? atof(rate) : 1e18;
}

ssize_t write(int fd, const void *from, size_t count) {
  ssize_t done = syscall(SYS_write, fd, from, count);
  if (fd > 2 && done > 0)
    wrote(done);
  return done;
}

#else

static void failed(const char *what) {
  perror(what);
  exit(1);
}

static int by_ptrace(char **program) {
  pid_t first = fork();
  if (!first) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    execvp(program[0], program);
    _exit(127);
  }
  int status, of_first = 1;
  waitpid(first, &status, 0);
  long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  ptrace(PTRACE_SETOPTIONS, first, 0, options);
  ptrace(PTRACE_SYSCALL, first, 0, 0);
  for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (pid == first)
        of_first = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      continue;
    }
    int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      struct user_regs_struct registers;
      // A result of -ENOSYS stands at the entry.
      if (!ptrace(PTRACE_GETREGS, pid, 0, &registers) && registers.orig_rax == SYS_write && registers.rdi > 2 &&
          (long)registers.rax > 0)
        wrote(registers.rax);
      signal = 0;
    } else if (signal == SIGTRAP || signal == SIGSTOP)
      signal = 0;
    ptrace(PTRACE_SYSCALL, pid, 0, signal);
  }
  return of_first;
}

static int listener_of_writes(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

static int by_notify(char **program) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
    failed("socketpair");
  pid_t first = fork();
  if (!first) {
    int listener = listener_of_writes();
    char place[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = place, .msg_controllen = sizeof place};
    struct cmsghdr *files = CMSG_FIRSTHDR(&message);
    files->cmsg_level = SOL_SOCKET, files->cmsg_type = SCM_RIGHTS, files->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(files), &listener, sizeof listener);
    if (listener < 0 || sendmsg(pair[1], &message, 0) < 0)
      _exit(126);
    close(listener);
    execvp(program[0], program);
    _exit(127);
  }
  close(pair[1]);
  char place[CMSG_SPACE(sizeof(int))], byte;
  struct iovec one = {&byte, 1};
  struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = place, .msg_controllen = sizeof place};
  int listener;
  if (recvmsg(pair[0], &message, 0) <= 0 || !CMSG_FIRSTHDR(&message))
    failed("the listener");
  memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof listener);
  for (;;) {
    struct seccomp_notif asked = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) {
      if (errno == EINTR)
        continue;
      break; // ENOENT: nobody is left
    }
    wrote(asked.data.args[2]);
    struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
  int status;
  waitpid(first, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int count, char **words) {
  if (count < 4 || (limit = atof(words[2])) <= 0)
    return 2;
  return strcmp(words[1], "ptrace") ? by_notify(words + 3) : by_ptrace(words + 3);
}

#endif
