//! A program of C that changes files by every call that can, with good arguments and bad ones, and tells what each says
//! and what it leaves.

/// In `{dir}/work/w`, which it fills anew where a call has changed its names; told to `make`, that alone. Where it is told
/// that this is `read only`, it takes what is there.
pub const CHANGER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define COUNT(all) (int)(sizeof all / sizeof *all)
static int gone(const char *path, const struct stat *s, int what, struct FTW *f) { return remove(path); }
static void put(const char *path) { int fd = open(path, O_WRONLY | O_CREAT, 0600); write(fd, "1234567", 7); close(fd); }
static char told[99], begun[99];
static int read_only; /* nothing changes, and nothing is to be filled anew */
static void fresh(void) {
  if (*told && (read_only || !strcmp(told, begun))) return;
  if (read_only) { if (chdir("{dir}/work/w")) exit(9); return; }
  if (chdir("{dir}/work")) exit(9);
  nftw("w", gone, 9, FTW_DEPTH | FTW_PHYS);
  mkdir("w", 0700), chdir("w");
  put("file"), put("other"), mkdir("dir", 0700), put("dir/in"), mkdir("empty", 0700);
  symlink("file", "link"), symlink("empty", "way"), symlink("none", "nowhere"), symlink("round", "round"), mkfifo("pipe", 0600);
}
static void left(void) {
  const char *names[] = {"file", "other", "dir", "dir/in", "empty", "link", "way", "nowhere", "none", "round", "pipe", "new", "dir/new"};
  struct stat s;
  char *at = told;
  for (int i = 0; i < COUNT(names); i++)
    at += lstat(names[i], &s) ? sprintf(at, "-") : sprintf(at, "%c%ld", "?pc?d?b?f?l?s???"[s.st_mode >> 12], S_ISDIR(s.st_mode) ? 0 : (long)s.st_size % 10);
  if (!*begun) strcpy(begun, told);
  if (strcmp(told, begun)) printf(" %s", told);
}
static int said(long r) { int e = errno; r < 0 ? printf("%d", e) : printf("%s", r ? "+" : "0"); return r; }
/* What is refused has changed nothing; else what follows would differ. */
#define T(call) do { fresh(); errno = 0; printf("\n  " #call " = "); if (said(call) >= 0) left(); } while (0)
#define OPENED(call) do { fresh(); errno = 0; printf("\n  " #call " = "); int fd_ = (call); if (said(fd_ < 0 ? -1 : 0) >= 0) left(), close(fd_); } while (0)
static char long_name[400], value[70000];
static const char *never = (char *)8;
static void files(const char *p) {
  T(truncate(p, -1)); T(truncate(p, INT64_MIN)); T(truncate(p, 0)); T(truncate(p, 12)); T(truncate(p, INT64_MAX));
  T(mknod(p, S_IFDIR | 0600, 0)); T(mknod(p, 0170000, 0)); T(mknod(p, 0030000, 0)); T(mknod(p, S_IFREG | 0600, 0));
  T(mknod(p, 0600, 0)); T(mknod(p, S_IFCHR | 0600, 5)); T(mknod(p, S_IFLNK | 0600, 0)); T(mknod(p, S_IFSOCK | 0600, 0));
  T(mkdir(p, 0700)); T(mkdir(p, 0177700)); T(rmdir(p)); T(unlink(p)); T(symlink("x", p)); T(symlink("", p));
  T(unlinkat(AT_FDCWD, p, 0x400)); T(unlinkat(AT_FDCWD, p, AT_REMOVEDIR | 1)); T(unlinkat(-1, p, 1)); T(unlinkat(-1, p, 0));
}
static void opened(const char *p) {
  const int flags[] = {O_DIRECTORY | O_CREAT, O_DIRECTORY | O_CREAT | O_WRONLY, O_DIRECTORY | O_CREAT | O_EXCL, O_TMPFILE, O_TMPFILE | O_RDWR,
                       020000000 | O_RDWR, O_TMPFILE | O_RDWR | O_EXCL, O_TMPFILE | O_RDWR | O_CREAT, O_CREAT | O_EXCL | O_WRONLY, O_CREAT | O_WRONLY,
                       0x40000000 | O_WRONLY | O_CREAT, 0x40000000, O_PATH | O_CREAT | O_TRUNC | O_RDWR, O_PATH | O_DIRECTORY | O_CREAT, 3 | O_CREAT,
                       O_WRONLY | O_TRUNC | O_DIRECTORY, O_NOFOLLOW | O_CREAT | O_WRONLY, O_NOFOLLOW | O_RDWR | O_TRUNC, O_PATH | O_NOFOLLOW, O_EXCL,
                       O_APPEND | O_CREAT | O_RDWR, O_SYNC | O_CREAT | O_RDWR, O_DIRECT | O_DIRECTORY, O_ASYNC | O_CREAT | O_RDWR};
  for (int i = 0; i < COUNT(flags); i++) {
    printf("\n %x:", flags[i]);
    OPENED(open(p, flags[i] | O_NONBLOCK, 0600)); OPENED(open(p, flags[i] | O_NONBLOCK, 0177600)); OPENED(openat(-1, p, flags[i] | O_NONBLOCK, 0600));
  }
}
static void opened_how(const char *p) {
  struct { struct open_how how; long more; } hows[] = {
      {{0, 0600}}, {{O_CREAT | O_RDWR, 0170600}}, {{O_CREAT | O_RDWR, 0600}}, {{1ull << 40}}, {{1ull << 31}}, {{0x40000000}}, {{0, 0, 0x1000}},
      {{0, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT}}, {{O_PATH | O_RDWR}}, {{O_PATH | O_CREAT}}, {{O_DIRECTORY | O_CREAT}}, {{O_TMPFILE}},
      {{020000000 | O_RDWR}}, {{O_CREAT, 0600, RESOLVE_CACHED}}, {{O_RDWR | O_TRUNC, 0, RESOLVE_CACHED}}, {{O_RDWR, 1ull << 40}}, {{O_RDONLY}},
      {{O_RDONLY}, 7}, {{O_NOFOLLOW}}, {{O_CREAT | O_EXCL | O_RDWR, 0600}}, {{O_CREAT | O_RDWR, 0600, 0x1000}}};
  const int sizes[] = {24, 0, 16, 32, 4096, 5000};
  char page[5000];
  for (int i = 0; i < COUNT(hows); i++) {
    if (!(hows[i].how.flags & O_PATH)) hows[i].how.flags |= O_NONBLOCK;
    printf("\n %llx %llo %llx:", hows[i].how.flags, hows[i].how.mode, hows[i].how.resolve);
    for (int s = 0; s < (hows[i].how.resolve || hows[i].how.mode ? 1 : COUNT(sizes)); s++) {
      memset(page, 0, 5000), memcpy(page, &hows[i], sizeof hows[i]);
      OPENED(syscall(SYS_openat2, AT_FDCWD, p, page, sizes[s]));
    }
  }
  OPENED(syscall(SYS_openat2, AT_FDCWD, p, never, 24));
}
static void attributes(const char *p) {
  const char *names[] = {"user.a", "user.", "user", "", "none.a", long_name, "trusted.a", "security.a", "system.a", never};
  for (int i = 0; i < COUNT(names); i++) {
    const char *n = names[i];
    printf("\n %.40s:", n == never ? "never" : n);
    T(setxattr(p, n, "v", 1, 0)); T(setxattr(p, n, "v", 1, 7)); T(setxattr(p, n, "v", 1, XATTR_REPLACE)); T(setxattr(p, n, value, 65537, 0));
    T(setxattr(p, n, never, 1, 0)); T(setxattr(p, n, never, 0, 0)); T(setxattr(p, n, "v", -1, 8)); T(lsetxattr(p, n, "v", 1, 0));
    T(lsetxattr(p, n, "v", 1, 7)); T(removexattr(p, n)); T(lremovexattr(p, n)); T(getxattr(p, n, value, 9)); T(getxattr(p, n, value, 0));
    T(lgetxattr(p, n, value, 9)); T((setxattr(p, n, "long", 4, 0), getxattr(p, n, value, 1))); T((setxattr(p, n, "v", 1, 0), setxattr(p, n, "v", 1, XATTR_CREATE)));
    T((setxattr(p, n, "v", 1, 0), removexattr(p, n))); T((setxattr(p, n, "v", 1, 0), getxattr(p, n, value, 70000)));
  }
  T(listxattr(p, value, 70000)); T(listxattr(p, value, 0)); T(llistxattr(p, value, 9)); T((setxattr(p, "user.a", "v", 1, 0), listxattr(p, value, 1)));
  T((setxattr(p, "user.a", "v", 1, 0), llistxattr(p, value, 70000)));
}
static void watched(const char *p) {
  const unsigned masks[] = {0, IN_MODIFY, IN_MODIFY | IN_DONT_FOLLOW, IN_ONLYDIR | IN_CREATE, IN_ONLYDIR | IN_CREATE | IN_DONT_FOLLOW, IN_MASK_ADD | IN_MASK_CREATE | IN_MODIFY,
                            0x00100000, IN_MASK_ADD, IN_ONESHOT, IN_DONT_FOLLOW, IN_UNMOUNT, IN_MODIFY | 0x00100000};
  int watches = inotify_init1(IN_NONBLOCK), path = open(".", O_PATH), pipes[2];
  pipe(pipes);
  for (int i = 0; i < COUNT(masks); i++) {
    printf("\n %x:", masks[i]);
    T(inotify_add_watch(watches, p, masks[i])); T(inotify_add_watch(-1, p, masks[i])); T(inotify_add_watch(99, p, masks[i])); T(inotify_add_watch(pipes[0], p, masks[i]));
    T(inotify_add_watch(path, p, masks[i]));
  }
  T((inotify_add_watch(watches, p, IN_MODIFY), inotify_add_watch(watches, p, IN_MODIFY | IN_MASK_CREATE)));
  close(watches), close(path), close(pipes[0]), close(pipes[1]);
}
static void owned(const char *p) {
  T(chmod(p, 0740)); T(chmod(p, 0170740)); T(syscall(SYS_fchmodat2, AT_FDCWD, p, 0740, AT_SYMLINK_NOFOLLOW)); T(syscall(SYS_fchmodat2, AT_FDCWD, p, 0740, 1));
  T(chown(p, -1, -1)); T(lchown(p, -1, -1)); T(fchownat(AT_FDCWD, p, -1, -1, 1)); T(fchownat(AT_FDCWD, p, -1, -1, AT_SYMLINK_NOFOLLOW)); T(fchownat(-1, p, -1, -1, AT_EMPTY_PATH));
}
static void timed(const char *p) {
  const struct timespec times[][2] = {{{1, 2}, {3, 4}}, {{0, UTIME_OMIT}, {0, UTIME_OMIT}}, {{0, UTIME_OMIT}, {0, -1}}, {{0, 1000000000}, {0, 0}}, {{9, UTIME_NOW}, {9, UTIME_NOW}},
                                      {{9, UTIME_NOW}, {0, UTIME_OMIT}}, {{-1, 0}, {-1, 999999999}}};
  for (int i = 0; i < COUNT(times); i++) {
    printf("\n %d:", i);
    T(syscall(SYS_utimensat, AT_FDCWD, p, times[i], 0)); T(syscall(SYS_utimensat, AT_FDCWD, p, times[i], AT_SYMLINK_NOFOLLOW)); T(syscall(SYS_utimensat, AT_FDCWD, p, times[i], 1));
    T(syscall(SYS_utimensat, -1, p, times[i], 0)); T(syscall(SYS_utimensat, -1, p, times[i], AT_EMPTY_PATH)); T(syscall(SYS_utimensat, AT_FDCWD, p, times[i], AT_EMPTY_PATH));
  }
  T(syscall(SYS_utimensat, AT_FDCWD, p, 0, 0)); T(syscall(SYS_utimensat, AT_FDCWD, p, never, 0)); T(syscall(SYS_utimensat, AT_FDCWD, p, 0, 1));
  const struct timeval older[][2] = {{{1, 2}, {3, 4}}, {{1, 1000000}, {3, 4}}, {{1, 2}, {3, -1}}};
  for (int i = 0; i < COUNT(older); i++) T(syscall(SYS_utimes, p, older[i])); 
  for (int i = 0; i < COUNT(older); i++) T(syscall(SYS_futimesat, AT_FDCWD, p, older[i]));
  T(syscall(SYS_utimes, p, 0)); T(syscall(SYS_utime, p, 0)); T(syscall(SYS_utime, p, never)); T(syscall(SYS_utimes, p, never));
}
static void moved(const char *p) {
  const char *others[] = {"other", "new", "new/", "dir", "dir/", "dir/new", "empty", "empty/", "way", "way/", "link", "link/", "nowhere/", "file", ".", "none/x", "", "{dir}/written/file", "{dir}/written/new"};
  for (int i = 0; i < COUNT(others) - (read_only ? 0 : 2); i++) {
    const char *o = others[i];
    printf("\n %s:", o);
    T(rename(p, o)); T(rename(o, p)); T(renameat2(AT_FDCWD, p, AT_FDCWD, o, 1)); T(renameat2(AT_FDCWD, p, AT_FDCWD, o, 2)); T(renameat2(AT_FDCWD, p, AT_FDCWD, o, 3));
    T(renameat2(AT_FDCWD, p, AT_FDCWD, o, 6)); T(renameat2(AT_FDCWD, p, AT_FDCWD, o, 8)); T(renameat2(-1, p, AT_FDCWD, o, -1)); T(renameat2(AT_FDCWD, p, -1, o, 0));
    T(link(p, o)); T(linkat(AT_FDCWD, p, AT_FDCWD, o, AT_SYMLINK_FOLLOW)); T(linkat(AT_FDCWD, p, AT_FDCWD, o, 1)); T(linkat(-1, p, AT_FDCWD, o, AT_SYMLINK_NOFOLLOW));
  }
}
static void held(const char *p, int flags) {
  struct timespec times[][2] = {{{1, 2}, {3, 4}}, {{0, UTIME_OMIT}, {0, UTIME_OMIT}}, {{0, -1}, {0, 0}}};
  struct timeval older[2] = {{1, 2}, {3, 1000000}};
  fresh();
  int fd = p ? open(p, flags) : flags;
#undef T
#define T(call) do { errno = 0; printf("\n  " #call " = "); said(call); } while (0)
  T(fchmod(fd, 0600)); T(fchmod(fd, 0170600)); T(fchown(fd, -1, -1)); if (fd != AT_FDCWD) T(fsetxattr(fd, "user.a", "v", 1, 0)); /* some kernels take it for the directory */
  T(fsetxattr(fd, "user.a", "v", 1, 7)); T(fsetxattr(fd, "", "v", 1, 0));
  T(fsetxattr(fd, "user.a", value, 65537, 0)); T(fsetxattr(fd, "user.a", never, 1, 0)); T(fgetxattr(fd, "user.a", value, 9)); T(fremovexattr(fd, "user.a")); T(fremovexattr(fd, "user.a"));
  T(fremovexattr(fd, "")); T(fremovexattr(fd, never)); T(flistxattr(fd, value, 9)); T(ftruncate(fd, -1)); T(ftruncate(fd, 3));
  for (int i = 0; i < 3; i++) { T(syscall(SYS_utimensat, fd, 0, times[i], 0)); T(syscall(SYS_utimensat, fd, 0, times[i], AT_EMPTY_PATH)); T(syscall(SYS_utimensat, fd, "", times[i], AT_EMPTY_PATH)); }
  T(syscall(SYS_utimensat, fd, 0, 0, 0)); T(syscall(SYS_futimesat, fd, 0, 0)); T(syscall(SYS_futimesat, fd, 0, older)); T(fchownat(fd, "", -1, -1, AT_EMPTY_PATH)); T(fchownat(fd, "", -1, -1, 0));
  T(syscall(SYS_fchmodat2, fd, "", 0700, AT_EMPTY_PATH)); T(syscall(SYS_utimensat, fd, "in", 0, 0)); T(mkdirat(fd, "new", 0700)); T(unlinkat(fd, "new", AT_REMOVEDIR)); T(mknodat(fd, "new", 0170000, 0));
  if (p) close(fd);
}
int main(int c, char **v) {
  memset(long_name, 'a', 399);
  read_only = c > 1 && !strcmp(v[1], "read only");
  fresh(), left();
  if (c > 1 && !strcmp(v[1], "make")) return 0;
  memcpy(long_name, "user.", 5);
  const char *paths[] = {"file", "dir", "empty", "link", "way", "nowhere", "round", "none", "pipe", "file/", "dir/", "empty/", "link/", "way/", "nowhere/", "none/", "none/x", "file/x", "dir/in", ".",
                         "dir/.", "dir/..", "empty/.", "", long_name, "dir/../file", "way/new", "link/x", never};
  void (*groups[])(const char *) = {files, opened, opened_how, attributes, watched, owned, timed, moved};
  for (int i = 0; i < COUNT(paths); i++)
    for (int g = 0; g < COUNT(groups); g++)
      /* Opening one to write is no change of the tree, and not everywhere granted. */
      if (read_only && paths[i] != never && !strcmp(paths[i], "pipe") && (groups[g] == opened || groups[g] == opened_how)) continue;
      else printf("\n%d %.40s:", g, paths[i] == never ? "never" : paths[i]), groups[g](paths[i]);
  const char *names[] = {"file", "file", "dir", "dir", "pipe", "pipe", "link"};
  const int flags[] = {O_RDWR, O_PATH, O_RDONLY | O_DIRECTORY, O_PATH, O_RDWR, O_PATH, O_PATH | O_NOFOLLOW};
  for (int i = 0; i < COUNT(names); i++) if (!read_only || strcmp(names[i], "pipe")) printf("\nheld %s %x:", names[i], flags[i]), held(names[i], flags[i]);
  int pipes[2];
  pipe(pipes);
  const int others[] = {-1, 99, AT_FDCWD, -7, pipes[0]};
  for (int i = 0; i < COUNT(others); i++) printf("\nheld %d:", i), held(0, others[i]);
  printf("\n");
}
"#;
