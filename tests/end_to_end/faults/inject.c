/* Makes calls that change files fail, in programs that were not built for it.
 *
 * Preloaded into the programs that $TRAIND_FAULTS_PROGRAMS names, and handed on to those that they start, it counts
 * the calls that change something below $TRAIND_FAULTS_ROOT, over all processes, in the file $TRAIND_FAULTS. Calls
 * number `first` to `last` fail with `error`; a write does half of its work before that, as disks may.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* As the test has it too. */
struct control {
  long count, first, last, error;
  long failed;     /* how many calls did */
  char call[4096]; /* the first of them */
};

static struct control *control;
static const char *root;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("TRAIND_FAULTS"), *programs = getenv("TRAIND_FAULTS_PROGRAMS");
  char own[PATH_MAX], wanted[PATH_MAX + 2];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  root = getenv("TRAIND_FAULTS_ROOT");
  if (!path || !root || !programs || length < 0) return;
  own[length] = 0;
  snprintf(wanted, sizeof wanted, ":%s:", strrchr(own, '/') + 1);
  if (!strstr(programs, wanted)) return;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void *memory = mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) control = memory;
}

/* Whether this call is to fail. */
static int fails(const char *call, const char *path) {
  if (!control || strncmp(path, root, strlen(root))) return 0;
  long number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
  if (number < control->first || number > control->last) return 0;
  if (__atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST) == 1)
    snprintf(control->call, sizeof control->call, "%s %s", call, path + strlen(root));
  errno = control->error;
  return 1;
}

/* The same for a call on an open file; sockets and pipes are no files. */
static int fails_open(const char *call, int file) {
  struct stat status;
  char link[64], path[PATH_MAX];
  if (!control || fstat(file, &status) || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails(call, path);
}

static int fails_at(const char *call, int folder, const char *name) {
  char link[64], path[PATH_MAX], whole[2 * PATH_MAX];
  if (!control) return 0;
  if (name[0] == '/') return fails(call, name);
  if (folder == AT_FDCWD) {
    if (!getcwd(path, sizeof path)) return 0;
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
  }
  snprintf(whole, sizeof whole, "%s/%s", path, name);
  return fails(call, whole);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Opening for reading changes nothing. */
#define OPEN(name)                                                   \
  int name(const char *path, int flags, ...) {                       \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    mode_t mode = va_arg(rest, mode_t);                              \
    va_end(rest);                                                    \
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT; \
    if (writes && fails_at(#name, AT_FDCWD, path)) return -1;        \
    return NEXT(name)(path, flags, mode);                            \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                 \
  int name(int folder, const char *path, int flags, ...) {           \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    mode_t mode = va_arg(rest, mode_t);                              \
    va_end(rest);                                                    \
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT; \
    if (writes && fails_at(#name, folder, path)) return -1;          \
    return NEXT(name)(folder, path, flags, mode);                    \
  }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *bytes, size_t count) {
  if (!fails_open("write", file)) return NEXT(write)(file, bytes, count);
  if (NEXT(write)(file, bytes, count / 2) >= 0) errno = control->error;
  return -1;
}

#define PWRITE(name, offset_type)                                                \
  ssize_t name(int file, const void *bytes, size_t count, offset_type offset) {  \
    if (!fails_open(#name, file)) return NEXT(name)(file, bytes, count, offset); \
    if (NEXT(name)(file, bytes, count / 2, offset) >= 0) errno = control->error; \
    return -1;                                                                   \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count) {
  if (!fails_open("writev", file)) return NEXT(writev)(file, parts, count);
  if (NEXT(writev)(file, parts, count / 2) >= 0) errno = control->error;
  return -1;
}

#define ON_FILE(name, declaration, ...) \
  int name declaration { return fails_open(#name, file) ? -1 : NEXT(name)(__VA_ARGS__); }
ON_FILE(fsync, (int file), file)
ON_FILE(fdatasync, (int file), file)
ON_FILE(ftruncate, (int file, off_t length), file, length)
ON_FILE(ftruncate64, (int file, off64_t length), file, length)
ON_FILE(fchmod, (int file, mode_t mode), file, mode)

ssize_t copy_file_range(int from, off64_t *at, int file, off64_t *to, size_t count, unsigned flags) {
  if (fails_open("copy_file_range", file)) return -1;
  return NEXT(copy_file_range)(from, at, file, to, count, flags);
}

#define ON_PATH(name, declaration, folder, path, ...) \
  int name declaration { return fails_at(#name, folder, path) ? -1 : NEXT(name)(__VA_ARGS__); }
ON_PATH(rename, (const char *from, const char *to), AT_FDCWD, to, from, to)
ON_PATH(link, (const char *from, const char *to), AT_FDCWD, to, from, to)
ON_PATH(linkat, (int in, const char *from, int folder, const char *to, int flags), folder, to, in, from, folder, to,
        flags)
ON_PATH(unlink, (const char *path), AT_FDCWD, path, path)
ON_PATH(unlinkat, (int folder, const char *path, int flags), folder, path, folder, path, flags)
ON_PATH(rmdir, (const char *path), AT_FDCWD, path, path)
ON_PATH(mkdir, (const char *path, mode_t mode), AT_FDCWD, path, path, mode)

/* The daemon gives its runners an environment of their own: this library is added to it. */
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
  static const char *const names[] = {"LD_PRELOAD", "TRAIND_FAULTS", "TRAIND_FAULTS_ROOT", "TRAIND_FAULTS_PROGRAMS"};
  char *more[256], assignments[4][PATH_MAX];
  int count = 0;
  while (environment && environment[count] && count < 200) more[count] = environment[count], count++;
  for (int i = 0; i < 4; i++) {
    const char *value = getenv(names[i]);
    if (!value) continue;
    snprintf(assignments[i], sizeof assignments[i], "%s=%s", names[i], value);
    more[count++] = assignments[i];
  }
  more[count] = 0;
  return NEXT(posix_spawnp)(pid, file, actions, attributes, arguments, more);
}
