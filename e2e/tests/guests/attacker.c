/* A guest that tries all it can think of against its runner, the site and the host. It reads numbers of processes (as
 * the host has them) and paths of the site from stdin, a line each, and prints a line that begins with BREACH for all
 * that it was let do; then "tried N". */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int tried;

static void refused(int let, const char *what, const char *on) {
  tried++;
  if (let) printf("BREACH %s %s\n", what, on);
}

static void open_refused(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC);
  char byte;
  /* Some files of proc(5) open for everybody and give nothing. */
  int let = fd >= 0 && (flags != O_RDONLY || (flags & O_DIRECTORY) || read(fd, &byte, 1) > 0);
  refused(let, flags == O_RDONLY ? "read" : "opened to write", path);
  if (fd >= 0) close(fd);
}

static void process(pid_t pid) {
  char name[32], path[128], buffer[8];
  snprintf(name, sizeof name, "process %d", (int)pid);
  /* Process 1 of the room is seen, and can be limited: that harms nobody but the guest. */
  refused(pid != 1 && kill(pid, 0) == 0, "found", name);
  refused(kill(pid, SIGKILL) == 0 && pid != 1, "killed", name);
  refused(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0, "seized", name);
  refused(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0, "attached to", name);
  struct iovec here = {buffer, sizeof buffer}, there = {(void *)0x400000, sizeof buffer};
  refused(process_vm_readv(pid, &here, 1, &there, 1, 0) > 0 || errno == EFAULT, "read memory of", name);
  refused(process_vm_writev(pid, &here, 1, &there, 1, 0) > 0 || errno == EFAULT, "wrote memory of", name);
  refused(setpriority(PRIO_PROCESS, pid, 19) == 0, "slowed", name);
  struct rlimit limit = {0, 0};
  refused(pid != 1 && prlimit(pid, RLIMIT_CPU, &limit, NULL) == 0, "limited", name);
  int fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) {
    refused(pid != 1, "holds a descriptor of", name);
    for (int theirs = 0; theirs < 64; theirs++)
      refused(syscall(SYS_pidfd_getfd, fd, theirs, 0) >= 0, "took a descriptor of", name);
    refused(setns(fd, CLONE_NEWNS) == 0, "entered", name);
    close(fd);
  }
  const char *files[] = {"mem", "environ", "maps", "stack", "syscall", "fdinfo/0", "fd/0", "fd/1", "fd/3"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
    open_refused(path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)pid, files[i]);
    open_refused(path, O_RDONLY);
  }
  const char *folders[] = {"root", "cwd", "fd", "map_files", "ns"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, folders[i]);
    open_refused(path, O_RDONLY | O_DIRECTORY);
  }
}

/* A path of the site: to be seen by no name. */
static void place(const char *path) {
  struct stat stat;
  refused(lstat(path, &stat) == 0, "sees", path);
  char other[4096];
  const char *ways[] = {"/proc/self/root%s", "/proc/1/root%s", "/.old/root%s", "/job/../..%s", "/proc/self/cwd/../..%s"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    snprintf(other, sizeof other, ways[i], path);
    refused(lstat(other, &stat) == 0, "sees", other);
  }
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) < sizeof address.sun_path) {
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    refused(connect(fd, (void *)&address, sizeof address) == 0, "connected to", path);
    memmove(address.sun_path + 1, path, strlen(path));
    address.sun_path[0] = 0;
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path);
    refused(connect(fd, (void *)&address, length) == 0, "connected to abstract", path);
    close(fd);
  }
}

static void view(void) {
  refused(unshare(CLONE_NEWUSER) == 0, "made", "a user namespace");
  refused(unshare(CLONE_NEWNS) == 0, "made", "a mount namespace");
  refused(unshare(0x80) == 0, "made", "a time namespace");
  int child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  refused(child > 0, "cloned", "a user namespace");
  uint64_t arguments[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
  child = syscall(SYS_clone3, arguments, sizeof arguments);
  if (child == 0) _exit(0);
  refused(child > 0, "cloned by clone3", "a user namespace");
  refused(mount("none", "/tmp", "tmpfs", 0, NULL) == 0, "mounted", "tmpfs");
  refused(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) == 0, "remounted", "/usr");
  refused(umount2("/etc/hosts", MNT_DETACH) == 0, "unmounted", "/etc/hosts");
  refused(chroot("/tmp") == 0, "changed", "root");
  refused(syscall(SYS_pivot_root, "/tmp", "/tmp") == 0, "pivoted", "root");
  refused(syscall(SYS_open_tree, AT_FDCWD, "/", 1) >= 0, "copied", "the tree");
  refused(syscall(SYS_fsopen, "tmpfs", 0) >= 0, "opened", "a filesystem");
  refused(syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0) >= 0 || errno != EPERM, "opened", "a handle");
  const char *spaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/1/ns/%s", spaces[i]);
    open_refused(path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[i]);
    int fd = open(path, O_RDONLY);
    refused(setns(fd, 0) == 0, "joined", path);
    /* NS_GET_PARENT, NS_GET_USERNS (ioctl_nsfs(2)) */
    refused(ioctl(fd, 0xb702) >= 0, "got the parent of", path);
  }
  open_refused("/.old", O_RDONLY | O_DIRECTORY);
  refused(chmod("/.old", 0700) == 0, "opened", "/.old");
  refused(rename("/.old", "/tmp/old") == 0, "moved", "/.old");
  const char *written[] = {"/etc/passwd", "/etc/hosts", "/usr/bin/env", "/proc/sysrq-trigger",
                           "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/sys/devices/system/cpu/cpu1/online"};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) open_refused(written[i], O_WRONLY);
  open_refused("/etc/shadow", O_RDONLY);
  open_refused("/proc/kcore", O_RDONLY);
  open_refused("/root", O_RDONLY | O_DIRECTORY);
  open_refused("/home", O_RDONLY | O_DIRECTORY);
  open_refused("/run", O_RDONLY | O_DIRECTORY);
  open_refused("/var", O_RDONLY | O_DIRECTORY);
}

static void devices(void) {
  const char *there[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
  for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
    struct stat stat_;
    if (stat(there[i], &stat_)) continue;
    /* To what it is: a breach must not break the host of this test. */
    refused(chmod(there[i], stat_.st_mode & 07777) == 0, "changed the mode of", there[i]);
    refused(chown(there[i], stat_.st_uid, stat_.st_gid) == 0, "changed the owner of", there[i]);
    refused(unlink(there[i]) == 0, "removed", there[i]);
  }
  for (int fd = 0; fd < 3; fd++) {
    struct stat stat_;
    if (fstat(fd, &stat_) == 0 && S_ISCHR(stat_.st_mode) && major(stat_.st_rdev) == 1)
      refused(fchmod(fd, stat_.st_mode & 07777) == 0, "changed the mode of a device of the host by", "descriptor");
  }
  const char *absent[] = {"/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/console", "/dev/loop-control"};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    open_refused(absent[i], O_RDWR);
  }
  const char *places[] = {"/job/device", "/tmp/device", "/dev/shm/device"};
  for (size_t i = 0; i < 3; i++) {
    refused(mknod(places[i], S_IFCHR | 0666, makedev(1, 1)) == 0, "made device mem at", places[i]);
    refused(mknod(places[i], S_IFBLK | 0666, makedev(8, 0)) == 0, "made a block device at", places[i]);
  }
  int tty = open("/dev/tty", O_RDWR);
  refused(tty >= 0 && ioctl(tty, TIOCSTI, "x") == 0, "typed into", "the terminal");
  refused(ioctl(0, TIOCSTI, "x") == 0, "typed into", "stdin");
  /* The upper half of the request is not looked at by the kernel. */
  refused(syscall(SYS_ioctl, 0, 0xffffffff00005412ull, "x") == 0, "typed by a long request into", "stdin");
}

static void calls(void) {
  refused(syscall(SYS_keyctl, 0, -3, 1) >= 0, "got", "a keyring");
  refused(syscall(SYS_add_key, "user", "kumiko", "x", 1, -4) >= 0, "added", "a key");
  refused(syscall(SYS_bpf, 0, NULL, 0) >= 0 || errno != EPERM, "reached", "bpf");
  refused(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) >= 0 || errno != EPERM, "reached", "perf_event_open");
  refused(syscall(SYS_userfaultfd, 0) >= 0, "made", "a userfaultfd");
  refused(syscall(SYS_io_uring_setup, 8, NULL) >= 0 || errno != ENOSYS, "reached", "io_uring");
  refused(syscall(SYS_init_module, NULL, 0, "") >= 0 || errno != EPERM, "reached", "init_module");
  refused(syscall(SYS_syslog, 3, NULL, 0) >= 0, "read", "the kernel's log");
  refused(socket(AF_PACKET, SOCK_RAW, 0) >= 0, "made", "a packet socket");
  refused(socket(40 /* AF_VSOCK */, SOCK_STREAM, 0) >= 0, "made", "a vsock");
  refused(socket(AF_INET, SOCK_RAW, 1) >= 0, "made", "a raw socket");
  refused(socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0) >= 0, "made", "an AF_ALG socket");
  refused(sethostname("x", 1) == 0, "named", "the host");
  refused(prctl(PR_CAPBSET_READ, 21) == 1, "may yet get", "CAP_SYS_ADMIN");
  refused(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0, "took back", "no_new_privs");
  refused(setuid(geteuid() + 1) == 0, "became", "another account");
  gid_t group = 0;
  refused(setgroups(1, &group) == 0, "joined", "a group");
#if defined __x86_64__
  long answer;
  __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L /* getpid */) : "memory", "r8", "r9", "r10", "r11");
  refused(answer != -ENOSYS, "called through", "the 32-bit interface");
  refused(syscall(0x40000000 | SYS_getpid) >= 0, "called through", "the x32 interface");
#endif
}

/* A program of another account with the setuid bit gains nothing. */
static void setuid_programs(void) {
  const char *programs[] = {"/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/sudo"};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    struct stat stat_;
    if (stat(programs[i], &stat_)) continue;
    int child = fork();
    if (child == 0) {
      int null = open("/dev/null", O_RDWR);
      dup2(null, 0), dup2(null, 1), dup2(null, 2);
      execl(programs[i], programs[i], "--version", NULL);
      _exit(0);
    }
    refused(stat_.st_uid != getuid() && child > 0 && waitpid(child, NULL, 0) < 0, "lost sight of", programs[i]);
  }
  refused(geteuid() != getuid(), "became", "another account");
}

static void descriptors(void) {
  DIR *directory = opendir("/proc/self/fd");
  struct dirent *entry;
  while (directory && (entry = readdir(directory))) {
    int number = atoi(entry->d_name);
    refused(number > 2 && number != dirfd(directory), "inherited descriptor", entry->d_name);
  }
  for (int fd = 0; fd < 3; fd++) {
    refused(openat(fd, "..", O_RDONLY) >= 0, "went up from", "a standard descriptor");
    refused(openat(fd, ".", O_RDONLY | O_DIRECTORY) >= 0, "listed", "a standard descriptor");
  }
}

int main(void) {
  static char line[4096];
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGTERM, SIG_IGN);
  descriptors();
  view();
  devices();
  calls();
  setuid_programs();
  process(1);
  refused(getppid() != 0, "knows", "its runner");
  /* All that can be reached at once: itself and process 1 are spared by the kernel. */
  kill(-1, SIGTERM);
  kill(-1, SIGKILL);
  puts("ready");
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (*line == '/') place(line);
    else process(atoi(line));
  }
  printf("tried %d\n", tried);
  return 0;
}
