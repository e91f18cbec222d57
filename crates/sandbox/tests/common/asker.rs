//! A program of C that asks about files by every call that can. It opens some to write, makes and truncates them: with no
//! sandbox it is to be asked about its own directory alone.

/// Every way to ask about PATHS, from BASES too.
pub const ASKER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TOLD(what, call) do { errno = 0; long r = (call); printf(" %s %ld/%d", what, r > 0 ? 1 : r, r < 0 ? errno : 0); } while (0)
/* A room's own files are others in each. */
static const char *own[] = {"/", "/etc", "/tmp", "/dev", "/proc", "{dir}", "{dir}/..", "{dir}/shown/shut", "{dir}/shown/gone"};
static struct stat owned[9];
static void about(const char *what, int r, struct stat *s) {
  if (r) { printf(" %s %d", what, errno); return; }
  for (int i = 0; i < 9; i++) if (s->st_ino == owned[i].st_ino && s->st_dev == owned[i].st_dev) { printf(" %s own %d", what, i); return; }
  if (0) ;
  else printf(" %s %lu:%lu:%o:%ld", what, (long)s->st_dev, (long)s->st_ino, s->st_mode, (long)s->st_size);
}
static void ask(int at, const char *path) {
  char text[64] = {0};
  struct stat s;
  struct statx x;
  const int flags[] = {O_RDONLY, O_RDONLY | O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_PATH, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                       O_RDONLY | O_TRUNC, O_WRONLY, O_RDWR | O_CREAT};
  for (int i = 0; i < 9; i++) {
    int fd = openat(at, path, flags[i], 0600);
    printf(" open%d %d", i, fd < 0 ? errno : 0);
    if (fd < 0) continue;
    about("is", fstat(fd, &s), &s);
    printf(" %x", fcntl(fd, F_GETFD));
    if (i == 0 && S_ISREG(s.st_mode)) printf(" reads %ld", (long)read(fd, text, 63));
    close(fd);
  }
  about("stat", fstatat(at, path, &s, 0), &s);
  about("lstat", fstatat(at, path, &s, AT_SYMLINK_NOFOLLOW), &s);
  about("empty", fstatat(at, path, &s, AT_EMPTY_PATH), &s);
  TOLD("statx", statx(at, path, 0, STATX_BASIC_STATS, &x));
  TOLD("statx", statx(at, path, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_ALL, &x));
  TOLD("statx", statx(at, path, 0x40000, STATX_ALL, &x));
  for (int mode = 0; mode < 9; mode++) TOLD("access", faccessat(at, path, mode, mode & 1 ? AT_EACCESS : 0));
  memset(text, 0, 64);
  TOLD("link", readlinkat(at, path, text, 63));
  printf("=%s", text);
  TOLD("link", readlinkat(at, path, text, 0));
  if (at == AT_FDCWD) {
    about("stat", stat(path, &s), &s);
    about("lstat", lstat(path, &s), &s);
    TOLD("open", ({int fd = syscall(SYS_open, path, O_RDONLY); close(fd); fd < 0 ? -1 : 0;}));
    TOLD("access", access(path, R_OK));
    TOLD("link", readlink(path, text, 63));
  }
  printf("\n");
}
int main(void) {
  static char long_name[400], long_path[5000];
  for (int i = 0; i < 9; i++) stat(own[i], &owned[i]);
  memset(long_name, 'a', 399);
  const char *paths[] = {PATHS};
  strcpy(long_path, "{dir}/shown/file");
  int length = strlen(long_path);
  memset(long_path, '/', 3900 - length);
  strcpy(long_path + 3900 - length, "{dir}/shown/file");
  int count = sizeof paths / sizeof *paths;
  const char *bases[] = {BASES};
  for (int i = 0; i < count; i++) printf("%d %.70s:", i, paths[i]), ask(AT_FDCWD, paths[i]);
  for (int b = 0; b < sizeof bases / sizeof *bases; b++) {
    int fd = open(bases[b], O_RDONLY | O_DIRECTORY), path = open(bases[b], O_PATH);
    chdir(bases[b]);
    for (int i = 0; i < count; i++) {
      printf("%s %d %.70s:", bases[b], i, paths[i]), ask(fd, paths[i]);
      printf("path %s %d %.70s:", bases[b], i, paths[i]), ask(path, paths[i]);
      printf("cwd %s %d %.70s:", bases[b], i, paths[i]), ask(AT_FDCWD, paths[i]);
    }
    close(fd), close(path);
  }
  ask(-1, "file"), ask(99, "file"), ask(0, "");
  char cwd[4096];
  chdir("/job/sub");
  printf("%s\n", getcwd(cwd, 4096));
}
"#;
