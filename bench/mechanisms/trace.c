// A bare tracer: trace FROM=TO PROGRAM ... The filter stops opens alone (SECCOMP_RET_TRACE); a mapped path is written below
// the guest's stack and the register that pointed at its own is restored at the end of the call (ptrace(2)). x86_64.
#include "bare.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum { MOST = 1 << 15 }; // kernel.pid_max as it usually is
static unsigned long before[MOST]; // the register of a guest under way, by its number; 0: none
enum { RED_ZONE = 128 };

static unsigned long long *path_register(struct user_regs_struct *r) { return r->orig_rax == SYS_open ? &r->rdi : &r->rsi; }

// Is the end of the call to be waited for?
static int begins(pid_t pid) {
  static char in[4096], out[4096];
  struct user_regs_struct r;
  MUST(ptrace(PTRACE_GETREGS, pid, 0, &r));
  long length = mapped(pid, *path_register(&r), in, out);
  if (length <= 0) return 0;
  unsigned long at = (r.rsp - RED_ZONE - (length + 1)) & ~63ul;
  struct iovec here = {out, length + 1}, there = {(void *)at, length + 1};
  MUST(process_vm_writev(pid, &here, 1, &there, 1, 0));
  before[pid] = *path_register(&r);
  *path_register(&r) = at;
  MUST(ptrace(PTRACE_SETREGS, pid, 0, &r));
  return 1;
}

static void ends(pid_t pid) {
  struct user_regs_struct r;
  MUST(ptrace(PTRACE_GETREGS, pid, 0, &r));
  *path_register(&r) = before[pid];
  before[pid] = 0;
  MUST(ptrace(PTRACE_SETREGS, pid, 0, &r));
}

int main(int count, char **words) {
  if (count < 3) return 2;
  mapping(words[1]);
  pid_t guest = MUST(fork());
  if (!guest) {
    MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
    raise(SIGSTOP);
    struct sock_fprog filter = on_opens(SECCOMP_RET_TRACE);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    execvp(words[2], words + 2);
    _exit(127);
  }
  int status, ended = 0;
  MUST(waitpid(guest, &status, __WALL));
  MUST(ptrace(PTRACE_SETOPTIONS, guest, 0,
              PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                  PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL));
  MUST(ptrace(PTRACE_CONT, guest, 0, 0));
  for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) {
      if (pid == guest) ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      continue;
    }
    int signal = WSTOPSIG(status), event = status >> 16, go = PTRACE_CONT, deliver = 0;
    if (event == PTRACE_EVENT_SECCOMP)
      go = begins(pid) ? PTRACE_SYSCALL : PTRACE_CONT;
    else if (signal == (SIGTRAP | 0x80))
      ends(pid);
    else if (event == 0 && signal != SIGTRAP && signal != SIGSTOP) // a new process begins with SIGSTOP
      deliver = signal;
    ptrace(go, pid, 0, deliver);
  }
  return ended;
}
