/* Makes one call of a program to the C library fail, as SQLite's tests do: the
   n-th that has to do with a file, or the n-th that asks for at least so much
   memory. It is preloaded, so that it sees the calls of every library, and
   costs the program itself nothing. tests/apps/failing_calls.py starts it.

   NODEWISE_FAIL        file or memory; other processes' calls are their own,
                        but those of forked children count
   NODEWISE_FAIL_AT     the number of the call, from 1 on; 0 only counts
   NODEWISE_FAIL_LEAST  the smallest block that counts, in bytes
   NODEWISE_FAIL_NAME   the program that it is for, as /proc/self/exe ends
   NODEWISE_FAIL_LOG    what is told: "failed CALL OBJECT" and, of every process
                        that ends by itself, "calls COUNT" and "open COUNT" */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kNone, kFile, kMemory };

static enum Kind wanted = kNone;
static long fail_at;
static size_t least_bytes;
static const char* log_path;
/* In memory that forked children share. */
static long* count;

/* Tells without a call that this file replaces. */
static void tell(const char* what, const char* call, const char* object) {
  char line[600];
  const int size = snprintf(line, sizeof(line), "%s %s %.500s\n", what, call,
                            object == NULL ? "" : object);
  if (log_path == NULL) return;
  const long file = syscall(SYS_openat, AT_FDCWD, log_path,
                            O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0) return;
  syscall(SYS_write, file, line, (size_t)size);
  syscall(SYS_close, file);
}

static void tell_number(const char* what, long number) {
  char text[32];
  snprintf(text, sizeof(text), "%ld", number);
  tell(what, text, "");
}

/* Whether this call is the one. */
static int fails(enum Kind kind, const char* call, const char* object,
                 int error) {
  if (kind != wanted || count == NULL) return 0;
  if (__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST) != fail_at) return 0;
  tell("failed", call, object);
  errno = error;
  return 1;
}

/* A pipe between our own processes cannot fail as a disk can. */
static int is_pipe(int descriptor) {
  struct stat status;
  return syscall(SYS_fstat, descriptor, &status) == 0 &&
         (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* Nor can what the kernel says of processes, once it is open. */
static int is_of_proc(int descriptor) {
  struct statfs system;
  return syscall(SYS_fstatfs, descriptor, &system) == 0 &&
         system.f_type == 0x9fa0; /* PROC_SUPER_MAGIC */
}

static int fails_at(const char* call, int descriptor, int error) {
  if (wanted != kFile || descriptor == STDERR_FILENO) return 0;
  /* The pipe that a test reads stands for a file. */
  if (descriptor != STDOUT_FILENO && is_pipe(descriptor)) return 0;
  if (is_of_proc(descriptor)) return 0;
  char text[64];
  snprintf(text, sizeof(text), "descriptor %d", descriptor);
  return fails(kFile, call, text, error);
}

/* Names the library that asks, since what that does about it is its own. */
static int fails_for(const char* call, size_t bytes, const void* caller) {
  if (wanted != kMemory || bytes < least_bytes) return 0;
  Dl_info asks = {0};
  const char* name = "";
  if (dladdr(caller, &asks) != 0 && asks.dli_fname != NULL) {
    name = strrchr(asks.dli_fname, '/');
    name = name == NULL ? asks.dli_fname : name + 1;
  }
  char text[128];
  snprintf(text, sizeof(text), "%zu bytes by %.80s", bytes, name);
  return fails(kMemory, call, text, ENOMEM);
}

static int is_the_program(void) {
  const char* const name = getenv("NODEWISE_FAIL_NAME");
  char path[4096];
  const long size =
      syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path));
  if (name == NULL || size < (long)strlen(name)) return 0;
  return memcmp(path + size - strlen(name), name, strlen(name)) == 0;
}

__attribute__((constructor)) static void begin(void) {
  const char* const kind = getenv("NODEWISE_FAIL");
  const char* const at = getenv("NODEWISE_FAIL_AT");
  const char* const least = getenv("NODEWISE_FAIL_LEAST");
  if (kind == NULL || at == NULL || !is_the_program()) return;
  log_path = getenv("NODEWISE_FAIL_LOG");
  fail_at = atol(at);
  least_bytes = least == NULL ? 1 : (size_t)atol(least);
  void* const shared = (void*)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return;
  count = shared;
  wanted = strcmp(kind, "file") == 0 ? kFile : kMemory;
}

/* A process that calls _exit is a child, or has no descriptors to close. */
__attribute__((destructor)) static void end(void) {
  if (count == NULL) return;
  wanted = kNone;
  tell_number("calls", *count);
  long open_files = 0;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    open_files += syscall(SYS_fcntl, descriptor, F_GETFD) >= 0;
  }
  tell_number("open", open_files);
}

/* ---- files ----------------------------------------------------------------- */

/* The library's own, found once; a race finds it twice. */
#define REAL(name)                                     \
  static __typeof__(&name) real = NULL;                \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define BY_PATH(type, bad, name, error, object, declared, passed) \
  type name declared {                                            \
    REAL(name);                                                   \
    if (fails(kFile, #name, object, error)) return bad;           \
    return real passed;                                           \
  }

#define BY_NUMBER(type, bad, name, error, number, declared, passed) \
  type name declared {                                              \
    REAL(name);                                                     \
    if (fails_at(#name, number, error)) return bad;                 \
    return real passed;                                             \
  }

#define OPEN(name)                                              \
  int name(const char* path, int flags, ...) {                  \
    REAL(name);                                                 \
    va_list rest;                                               \
    va_start(rest, flags);                                      \
    const mode_t mode = va_arg(rest, mode_t);                   \
    va_end(rest);                                               \
    if (fails(kFile, #name, path, EMFILE)) return -1;           \
    return real(path, flags, mode);                             \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                            \
  int name(int folder, const char* path, int flags, ...) {      \
    REAL(name);                                                 \
    va_list rest;                                               \
    va_start(rest, flags);                                      \
    const mode_t mode = va_arg(rest, mode_t);                   \
    va_end(rest);                                               \
    if (fails(kFile, #name, path, EMFILE)) return -1;           \
    return real(folder, path, flags, mode);                     \
  }
OPENAT(openat)
OPENAT(openat64)

/* What the headers declare with other types, or under FORTIFY alone. */
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
ssize_t __read_chk(int file, void* to, size_t bytes, size_t room);
ssize_t __pread_chk(int file, void* to, size_t bytes, off_t at, size_t room);
ssize_t __pread64_chk(int file, void* to, size_t bytes, off_t at, size_t room);
size_t __fread_chk(void* to, size_t room, size_t size, size_t n, FILE* file);
char* __realpath_chk(const char* path, char* to, size_t room);

BY_PATH(int, -1, __open_2, EMFILE, path, (const char* path, int flags),
        (path, flags))
BY_PATH(int, -1, __open64_2, EMFILE, path, (const char* path, int flags),
        (path, flags))
BY_PATH(FILE*, NULL, fopen, EMFILE, path, (const char* path, const char* mode),
        (path, mode))
BY_PATH(FILE*, NULL, fopen64, EMFILE, path,
        (const char* path, const char* mode), (path, mode))
BY_PATH(DIR*, NULL, opendir, EMFILE, path, (const char* path), (path))
BY_PATH(int, -1, mkdir, ENOSPC, path, (const char* path, mode_t mode),
        (path, mode))
BY_PATH(char*, NULL, mkdtemp, ENOSPC, path, (char* path), (path))
BY_PATH(int, -1, mkstemp, ENOSPC, path, (char* path), (path))
BY_PATH(int, -1, mkostemp, ENOSPC, path, (char* path, int flags), (path, flags))
BY_PATH(int, -1, rename, EIO, to, (const char* from, const char* to),
        (from, to))
BY_PATH(int, -1, unlink, EIO, path, (const char* path), (path))
BY_PATH(int, -1, rmdir, EIO, path, (const char* path), (path))
BY_PATH(int, -1, symlink, EIO, to, (const char* from, const char* to),
        (from, to))
BY_PATH(int, -1, link, EIO, to, (const char* from, const char* to), (from, to))
BY_PATH(int, -1, unlinkat, EIO, path, (int folder, const char* path, int flags),
        (folder, path, flags))
BY_PATH(int, -1, mkdirat, ENOSPC, path,
        (int folder, const char* path, mode_t mode), (folder, path, mode))
BY_PATH(int, -1, renameat, EIO, to,
        (int a, const char* from, int b, const char* to), (a, from, b, to))
BY_PATH(int, -1, renameat2, EIO, to,
        (int a, const char* from, int b, const char* to, unsigned flags),
        (a, from, b, to, flags))
BY_PATH(ssize_t, -1, readlink, EIO, path, (const char* path, char* to, size_t n),
        (path, to, n))
BY_PATH(char*, NULL, realpath, EIO, path, (const char* path, char* to),
        (path, to))
BY_PATH(char*, NULL, __realpath_chk, EIO, path,
        (const char* path, char* to, size_t room), (path, to, room))
BY_PATH(int, -1, stat, EIO, path, (const char* path, struct stat* to),
        (path, to))
BY_PATH(int, -1, lstat, EIO, path, (const char* path, struct stat* to),
        (path, to))
BY_PATH(int, -1, fstatat, EIO, path,
        (int folder, const char* path, struct stat* to, int flags),
        (folder, path, to, flags))
BY_PATH(int, -1, access, EIO, path, (const char* path, int mode), (path, mode))
BY_PATH(int, -1, memfd_create, EMFILE, name, (const char* name, unsigned flags),
        (name, flags))
BY_PATH(int, -1, statvfs, EIO, path, (const char* path, struct statvfs* to),
        (path, to))

BY_NUMBER(int, -1, fstat, EIO, file, (int file, struct stat* to), (file, to))
BY_NUMBER(ssize_t, -1, read, EIO, file, (int file, void* to, size_t n),
          (file, to, n))
BY_NUMBER(ssize_t, -1, __read_chk, EIO, file,
          (int file, void* to, size_t n, size_t room), (file, to, n, room))
BY_NUMBER(ssize_t, -1, pread, EIO, file,
          (int file, void* to, size_t n, off_t at), (file, to, n, at))
BY_NUMBER(ssize_t, -1, pread64, EIO, file,
          (int file, void* to, size_t n, off_t at), (file, to, n, at))
BY_NUMBER(ssize_t, -1, __pread_chk, EIO, file,
          (int file, void* to, size_t n, off_t at, size_t room),
          (file, to, n, at, room))
BY_NUMBER(ssize_t, -1, __pread64_chk, EIO, file,
          (int file, void* to, size_t n, off_t at, size_t room),
          (file, to, n, at, room))
BY_NUMBER(ssize_t, -1, readv, EIO, file,
          (int file, const struct iovec* to, int n), (file, to, n))
BY_NUMBER(ssize_t, -1, write, ENOSPC, file, (int file, const void* from, size_t n),
          (file, from, n))
BY_NUMBER(ssize_t, -1, pwrite, ENOSPC, file,
          (int file, const void* from, size_t n, off_t at), (file, from, n, at))
BY_NUMBER(ssize_t, -1, pwrite64, ENOSPC, file,
          (int file, const void* from, size_t n, off_t at), (file, from, n, at))
BY_NUMBER(ssize_t, -1, writev, ENOSPC, file,
          (int file, const struct iovec* from, int n), (file, from, n))
BY_NUMBER(int, -1, fsync, EIO, file, (int file), (file))
BY_NUMBER(int, -1, fdatasync, EIO, file, (int file), (file))
BY_NUMBER(int, -1, ftruncate, ENOSPC, file, (int file, off_t size),
          (file, size))
BY_NUMBER(int, -1, ftruncate64, ENOSPC, file, (int file, off_t size),
          (file, size))
BY_NUMBER(int, -1, fchmod, EIO, file, (int file, mode_t mode), (file, mode))
BY_NUMBER(off_t, -1, lseek, EIO, file, (int file, off_t to, int from),
          (file, to, from))
BY_NUMBER(off_t, -1, lseek64, EIO, file, (int file, off_t to, int from),
          (file, to, from))
BY_NUMBER(size_t, 0, fread, EIO, fileno(file),
          (void* to, size_t size, size_t n, FILE* file), (to, size, n, file))
BY_NUMBER(size_t, 0, __fread_chk, EIO, fileno(file),
          (void* to, size_t room, size_t size, size_t n, FILE* file),
          (to, room, size, n, file))
BY_NUMBER(size_t, 0, fwrite, ENOSPC, fileno(file),
          (const void* from, size_t size, size_t n, FILE* file),
          (from, size, n, file))
BY_NUMBER(int, EOF, fflush, ENOSPC, file == NULL ? STDERR_FILENO : fileno(file),
          (FILE * file), (file))
BY_NUMBER(struct dirent*, NULL, readdir, EIO, dirfd(folder), (DIR * folder),
          (folder))
BY_NUMBER(struct dirent64*, NULL, readdir64, EIO, dirfd(folder), (DIR * folder),
          (folder))

/* What fails to close is closed all the same, as Linux does it. */
int close(int file) {
  REAL(close);
  const int failed = fails_at("close", file, EIO);
  const int closed = real(file);
  if (!failed) return closed;
  errno = EIO;
  return -1;
}

int fclose(FILE* file) {
  REAL(fclose);
  const int failed = fails_at("fclose", fileno(file), EIO);
  const int closed = real(file);
  if (!failed) return closed;
  errno = EIO;
  return EOF;
}

/* Opens, maps and reads by itself, with an error text of its own. */
void* dlopen(const char* path, int flags) {
  REAL(dlopen);
  if (path != NULL && fails(kFile, "dlopen", path, EIO)) {
    return real("/a file that cannot be opened", flags);
  }
  return real(path, flags);
}

/* ---- memory ---------------------------------------------------------------- */

#define CALLER __builtin_return_address(0)

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  return fails_for("malloc", bytes, CALLER) ? NULL : __libc_malloc(bytes);
}

void* calloc(size_t n, size_t bytes) {
  size_t all;
  if (!__builtin_mul_overflow(n, bytes, &all) && fails_for("calloc", all, CALLER)) {
    return NULL;
  }
  return __libc_calloc(n, bytes);
}

void* realloc(void* block, size_t bytes) {
  return fails_for("realloc", bytes, CALLER) ? NULL : __libc_realloc(block, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails_for("aligned_alloc", bytes, CALLER) ? NULL
                                           : __libc_memalign(alignment, bytes);
}

int posix_memalign(void** to, size_t alignment, size_t bytes) {
  if (fails_for("posix_memalign", bytes, CALLER)) return ENOMEM;
  *to = __libc_memalign(alignment, bytes);
  return *to == NULL ? ENOMEM : 0;
}

#define MMAP(name)                                                          \
  void* name(void* place, size_t bytes, int access, int flags, int file,    \
             off_t at) {                                                    \
    const int failed = (flags & MAP_ANONYMOUS) != 0                         \
                           ? fails_for(#name, bytes, CALLER)                        \
                           : fails_at(#name, file, ENOMEM);                 \
    if (failed) return MAP_FAILED;                                          \
    const long got = syscall(SYS_mmap, place, bytes, access, flags, file, at); \
    return (void*)got;                                                      \
  }
MMAP(mmap)
MMAP(mmap64)
