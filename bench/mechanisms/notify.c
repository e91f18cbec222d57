// A bare seccomp listener: notify FROM=TO PROGRAM ... Opens mapped paths in the guest's place and hands the descriptor over
// (ADDFD with SEND), one thread for all (seccomp_unotify(2)). The waker's core is asked for (SYNC_WAKE_UP, Linux 6.6).
#include "bare.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

static struct msghdr with_fd(struct iovec *io, char *control, size_t bytes) {
  return (struct msghdr){.msg_iov = io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = bytes};
}

static void serve(int listener) {
  static char in[4096], out[4096];
  for (;;) {
    struct seccomp_notif asked = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) {
      struct pollfd over = {listener, POLLIN, 0};
      if (errno == EINTR || (errno == ENOENT && poll(&over, 1, 0) >= 0 && !(over.revents & POLLHUP))) continue;
      return;
    }
    int at = asked.data.nr == SYS_openat;
    struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    long length = mapped(asked.pid, asked.data.args[at], in, out);
    if (length > 0 && ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked.id) == 0) {
      int fd = open(out, asked.data.args[at + 1] | O_CLOEXEC, asked.data.args[at + 2]);
      if (fd >= 0) {
        struct seccomp_notif_addfd give = {
            .id = asked.id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = fd, .newfd_flags = asked.data.args[at + 1] & O_CLOEXEC};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give);
        close(fd);
        continue;
      }
      answer.flags = 0, answer.error = -errno;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

int main(int count, char **words) {
  if (count < 3) return 2;
  mapping(words[1]);
  int ends[2], listener;
  MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec io = {&byte, 1};
  pid_t guest = MUST(fork());
  if (!guest) {
    struct sock_fprog filter = on_opens(SECCOMP_RET_USER_NOTIF);
    listener = MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
    struct msghdr message = with_fd(&io, control, sizeof control);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &listener, sizeof listener);
    MUST(sendmsg(ends[1], &message, 0));
    close(listener);
    execvp(words[2], words + 2);
    _exit(127);
  }
  close(ends[1]);
  struct msghdr message = with_fd(&io, control, sizeof control);
  MUST(recvmsg(ends[0], &message, 0));
  memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof listener);
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, (unsigned long)SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
  serve(listener);
  int status;
  waitpid(guest, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
