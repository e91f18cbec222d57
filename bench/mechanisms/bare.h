// What the two bare supervisors share: one mapping of a prefix, and a string read from the guest. They are floors to hold
// the product against, no sandboxes: nothing is resolved, nothing refused, nobody stopped from changing its words.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what) ({ long r_ = (long)(what); if (r_ == -1) { perror(#what); _exit(111); } r_; })

static const char *from, *to;
static size_t from_bytes, to_bytes;

// FROM=TO as the first word.
static void mapping(char *word) {
  char *sign = strchr(word, '=');
  if (!sign) _exit(2);
  *sign = 0;
  from = word, to = sign + 1;
  from_bytes = strlen(from), to_bytes = strlen(to);
}

// A path of the guest as mapped, and its length; 0: it is not of the mapping. -1: it cannot be read.
static long mapped(pid_t pid, unsigned long at, char *in, char *out) {
  size_t got = 0;
  while (got < 4096) {
    size_t count = 4096 - (at & 4095);
    if (!got && count > 256) count = 256;
    if (count > 4096 - got) count = 4096 - got;
    struct iovec here = {in + got, count}, there = {(void *)at, count};
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)count) return -1;
    if (memchr(in + got, 0, count)) break;
    got += count, at += count;
  }
  if (got >= 4096) return -1;
  size_t length = strlen(in);
  if (length < from_bytes || memcmp(in, from, from_bytes) || length + to_bytes >= 4096) return 0;
  memcpy(out, to, to_bytes);
  memcpy(out + to_bytes, in + from_bytes, length - from_bytes + 1);
  return length - from_bytes + to_bytes;
}

static struct sock_fprog on_opens(unsigned answer) {
  static struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, 0),
  };
  code[4].k = answer;
  MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  return (struct sock_fprog){sizeof code / sizeof *code, code};
}
