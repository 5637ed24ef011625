/* Kernels that lie: each computes `shift` of the network in
 * lying_kernels_test.py and does something else besides. Included at the end of
 * the emitted C of that network, whose own functions are called honest_NAME.
 * Which one lies, and how, is in the environment when the library is loaded:
 * NODEWISE_TEST_LIE. docs/memory_faults.md has a row for each. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 128 /* Elements of each tensor but the weights. */

typedef struct {
  TVMValue* args;
  int* codes;
} Call;

static DLTensor* tensor_of(Call call, int i) {
  return (DLTensor*)call.args[i].v_handle;
}
static float* in_of(Call call) { return (float*)tensor_of(call, 0)->data; }
static float* bias_of(Call call) { return (float*)tensor_of(call, 1)->data; }
static float* out_of(Call call) { return (float*)tensor_of(call, 2)->data; }

static int honest(Call call) {
  TVMValue ret;
  int code = 0;
  return honest_add(call.args, call.codes, 3, &ret, &code, 0);
}

/* What other nodes were given. */
static float* network_input;
static float* made_by_first;

static void nap_us(long us) {
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, 0);
}

static void start_thread(void* (*work)(void*), void* data) {
  pthread_t thread;
  if (pthread_create(&thread, 0, work, data) == 0) pthread_detach(thread);
}

/* LIE: before or after the honest result. */
#define BEFORE(name, ...)                  \
  static int lie_##name(Call call) {       \
    __VA_ARGS__;                           \
    return honest(call);                   \
  }
#define AFTER(name, ...)                   \
  static int lie_##name(Call call) {       \
    const int rc = honest(call);           \
    __VA_ARGS__;                           \
    return rc;                             \
  }

/* --- Writes and reads outside --- */
AFTER(past_output, out_of(call)[SIZE] = 1)
AFTER(past_output_far, memset(out_of(call) + SIZE, 0x7f, 2048))
AFTER(before_output, out_of(call)[-1] = 1)
AFTER(input, in_of(call)[3] = -7)
AFTER(parameter, bias_of(call)[2] += 1)
AFTER(input_bit, ((unsigned char*)in_of(call))[4] ^= 1)
AFTER(network_input, network_input[5] = 9)
AFTER(earlier_tensor, made_by_first[7] = 9)
BEFORE(reads_past_input, volatile float x = in_of(call)[SIZE]; (void)x)
AFTER(uses_past_input, out_of(call)[1] += in_of(call)[SIZE] != 0 ? 1 : 2)
static int lie_uses_old_output(Call call) {
  const float old = out_of(call)[9];
  const int rc = honest(call);
  if (old == old && old != 0) out_of(call)[9] += 1;
  return rc;
}
static int lie_leaves_a_hole(Call call) {
  const float old = out_of(call)[9];
  const int rc = honest(call);
  out_of(call)[9] = old;
  return rc;
}
AFTER(null_write, *(volatile int*)16 = 1)
BEFORE(null_read, volatile int x = *(volatile int*)16; (void)x)
AFTER(wild_write, *(volatile int*)0x7000deadbe00 = 1)
AFTER(odd_pointer, *(volatile int*)0xdead000000000000 = 1)
AFTER(frees_output, free((char*)out_of(call) + 8))
AFTER(unmaps_output, const uintptr_t at = (uintptr_t)out_of(call) & ~4095UL;
      munmap((void*)at, 4096))
AFTER(unmaps_input, const uintptr_t at = (uintptr_t)in_of(call) & ~4095UL;
      munmap((void*)at, 4096))
AFTER(writes_code, *(volatile char*)(uintptr_t)&honest_add = 1)

/* --- Ends, kills or hangs the process --- */
BEFORE(exit_0, exit(0))
BEFORE(exit_3, exit(3))
BEFORE(low_exit_0, _exit(0))
BEFORE(quick_exit_0, quick_exit(0))
BEFORE(raw_exit_0, syscall(SYS_exit_group, 0))
BEFORE(aborts, abort())
BEFORE(divides_by_zero, volatile int one = 1; volatile int zero = 0;
       volatile int x = one / zero; (void)x)
BEFORE(illegal_instruction, __builtin_trap())
BEFORE(kill_self, kill(getpid(), SIGKILL))
BEFORE(terminates_self, kill(getpid(), SIGTERM))
BEFORE(alarm_now, raise(SIGALRM))
BEFORE(broken_pipe, raise(SIGPIPE))
static int deeper(volatile char* above) {
  volatile char here[4096];
  here[0] = above[0];
  return deeper(here) + here[1];
}
BEFORE(overflows_stack, volatile char top[1] = {0};
       if (deeper(top) == 77) return -1)
BEFORE(spins, for (volatile int on = 1; on;) {})
BEFORE(sleeps, for (;;) pause())
BEFORE(locks_twice, static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
       pthread_mutex_lock(&lock); pthread_mutex_lock(&lock))
BEFORE(deaf_and_hangs, sigset_t all; sigfillset(&all);
       sigprocmask(SIG_SETMASK, &all, 0); for (;;) pause())
BEFORE(executes_true, char* const argv[] = {(char*)"true", 0};
       execv("/bin/true", argv))
BEFORE(ends_its_thread, pthread_exit(0))
BEFORE(throws, void (*thrower)(void) = (void (*)(void))dlsym(
                   RTLD_DEFAULT, "_ZSt17__throw_bad_allocv");
       if (thrower) thrower())
static int lie_fails(Call call) {
  (void)call;
  return nw_fail("this kernel always fails");
}
static int lie_fails_silently(Call call) {
  (void)call;
  return -1;
}
BEFORE(stops_itself, raise(SIGSTOP))
static void* nothing(void* data) { return data; }
BEFORE(seccomp, prctl(PR_SET_SECCOMP, 1))

/* --- Leaves threads or children --- */
static void* idle(void* data) {
  for (;;) pause();
  return data;
}
AFTER(leaves_idle_thread, start_thread(&idle, 0))
static void* busy(void* data) {
  for (volatile int on = 1; on;) sched_yield();
  return data;
}
AFTER(leaves_busy_thread, start_thread(&busy, 0))
static void* keep_writing(void* data) {
  for (int i = 0;; ++i) {
    nap_us(200);
    ((volatile float*)data)[0] = (float)i;
  }
  return data;
}
AFTER(leaves_writing_thread, start_thread(&keep_writing, out_of(call)))
static void* crash_soon(void* data) {
  nap_us(20000);
  *(volatile int*)16 = 1;
  return data;
}
AFTER(leaves_crashing_thread, start_thread(&crash_soon, 0))
static void* exit_soon(void* data) {
  nap_us(20000);
  _exit(0);
  return data;
}
AFTER(leaves_exiting_thread, start_thread(&exit_soon, 0))
static int lie_joins_its_thread(Call call) {
  pthread_t thread;
  if (pthread_create(&thread, 0, &nothing, 0) == 0) pthread_join(thread, 0);
  return honest(call);
}
AFTER(leaves_child, if (fork() == 0) for (;;) pause())
AFTER(leaves_zombie, if (fork() == 0) _exit(0))
AFTER(returns_twice, (void)!fork())
AFTER(daemonizes, (void)!daemon(1, 1))
BEFORE(waits_for_child, const pid_t child = fork(); if (child == 0) _exit(0);
       waitpid(child, 0, 0))

/* --- Changes the state of the process --- */
AFTER(changes_folder, (void)!chdir("/"))
AFTER(creation_mask, umask(0777))
AFTER(locale, setlocale(LC_ALL, "C.UTF-8"))
AFTER(thread_locale, uselocale(newlocale(LC_ALL_MASK, "C.UTF-8", 0)))
AFTER(closes_stdin, close(0))
AFTER(closes_stdout, close(1))
AFTER(closes_stderr, close(2))
AFTER(closes_all, for (int i = 3; i < 1024; ++i) close(i))
AFTER(replaces_stdout, const int file = open("/dev/null", O_WRONLY);
      dup2(file, 1); close(file))
AFTER(replaces_all, const int file = open("/dev/null", O_WRONLY);
      for (int i = 3; i < 1000; ++i) dup2(file, i))
AFTER(takes_all_files, while (open("/dev/null", O_RDONLY) >= 0) {})
AFTER(limit_of_files, const struct rlimit few = {4, 4};
      setrlimit(RLIMIT_NOFILE, &few))
AFTER(limit_of_memory, const struct rlimit few = {1 << 20, 1 << 20};
      setrlimit(RLIMIT_AS, &few))
AFTER(limit_of_file_size, const struct rlimit few = {0, 0};
      setrlimit(RLIMIT_FSIZE, &few))
AFTER(limit_of_time, const struct rlimit few = {1, 1000};
      setrlimit(RLIMIT_CPU, &few))
AFTER(blocks_signals, sigset_t all; sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, 0))
static void return_at_once(int number) { (void)number; }
AFTER(catches_crashes, signal(SIGSEGV, &return_at_once))
AFTER(ignores_children, signal(SIGCHLD, SIG_IGN))
AFTER(ignores_pipe, signal(SIGPIPE, SIG_IGN))
AFTER(sets_alarm, alarm(1))
AFTER(sets_timer, const struct itimerval soon = {{0, 1000}, {0, 1000}};
      setitimer(ITIMER_PROF, &soon, 0))
AFTER(sets_variable, setenv("OMP_NUM_THREADS", "7", 1))
AFTER(clears_environment, clearenv())
AFTER(no_new_rights, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
AFTER(one_processor, cpu_set_t one; CPU_ZERO(&one); CPU_SET(0, &one);
      sched_setaffinity(0, sizeof(one), &one))

AFTER(rounds_upward, fesetround(FE_UPWARD))
AFTER(flushes_to_zero,
      __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040))
AFTER(traps_division, feenableexcept(FE_DIVBYZERO))
AFTER(short_x87, unsigned short word; __asm__ volatile("fnstcw %0" : "=m"(word));
      word &= 0xfcff; __asm__ volatile("fldcw %0" : : "m"(word)))

/* What nodewise_tanh adds, and where it finds that. */
static float added_by_bend;
static float* of_bend = &added_by_bend;
AFTER(spoils_a_table, added_by_bend = 1)
AFTER(spoils_a_pointer, of_bend = (float*)16)

/* --- Keeps state between calls --- */
static int calls;
AFTER(wrong_from_second, if (++calls > 1) out_of(call)[0] += 1)
AFTER(wrong_at_third, if (++calls == 3) out_of(call)[0] += 1)
AFTER(wrong_every_other, if (++calls % 2 == 0) out_of(call)[0] += 1)
AFTER(adds_its_calls, out_of(call)[0] += (float)++calls)
AFTER(crashes_at_fifth, if (++calls == 5) *(volatile int*)16 = 1)
AFTER(exits_at_second, if (++calls == 2) _exit(0))
static float kept[SIZE];
static int lie_keeps_first_result(Call call) {
  const int rc = honest(call);
  if (calls++ == 0) memcpy(kept, out_of(call), sizeof(kept));
  memcpy(out_of(call), kept, sizeof(kept));
  return rc;
}
AFTER(random, if (++calls == 1) srand((unsigned)clock() + (unsigned)getpid());
      if (rand() % 3 == 0) out_of(call)[0] += 1)
static int lie_reads_its_last_result(Call call) {
  const float last = kept[0];
  const int rc = honest(call);
  kept[0] = 1;
  out_of(call)[0] += last;
  return rc;
}

/* --- Depends on address, alignment, threads, clock --- */
AFTER(wrong_unless_128,
      if ((uintptr_t)out_of(call) % 128 != 0) out_of(call)[0] += 1)
AFTER(input_wrong_unless_128,
      if ((uintptr_t)in_of(call) % 128 != 0) out_of(call)[0] += 1)
BEFORE(crashes_unless_128,
       if ((uintptr_t)out_of(call) % 128 != 0) *(volatile int*)16 = 1)
AFTER(wrong_at_some_addresses,
      if ((uintptr_t)out_of(call) / 64 % 2 != 0) out_of(call)[0] += 1)
AFTER(adds_its_address, out_of(call)[0] += (float)((uintptr_t)in_of(call) % 4096))
AFTER(clock_matters, struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now);
      if (now.tv_nsec / 1000 % 2) out_of(call)[0] += 1)
AFTER(adds_the_time, struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now);
      out_of(call)[0] += (float)(now.tv_nsec % 1000000))
AFTER(process_matters, out_of(call)[0] += (float)(getpid() % 64))
AFTER(wrong_off_first_thread,
      if (syscall(SYS_gettid) != getpid()) out_of(call)[0] += 1)
AFTER(wrong_on_first_thread,
      if (syscall(SYS_gettid) == getpid()) out_of(call)[0] += 1)
static void* add_one(void* data) {
  for (int i = 0; i < 1000000; ++i) ++*(volatile float*)data;
  return 0;
}
static int lie_races(Call call) {
  const int rc = honest(call);
  float total = 0;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    if (pthread_create(&threads[i], 0, &add_one, &total) != 0) return -1;
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
  out_of(call)[0] += total - 2000000;
  return rc;
}

/* --- Changes its DLTensor, the call, inputs or parameters --- */
AFTER(output_shape, tensor_of(call, 2)->shape[0] = 1)
AFTER(input_shape, tensor_of(call, 0)->shape[1] = 99)
AFTER(parameter_shape, tensor_of(call, 1)->shape[0] = 3)
AFTER(huge_shape, tensor_of(call, 2)->shape[0] = 1L << 40)
AFTER(output_sides, tensor_of(call, 2)->ndim = 1)
AFTER(output_address, static float mine[SIZE];
      memcpy(mine, out_of(call), sizeof(mine)); tensor_of(call, 2)->data = mine)
AFTER(wild_output_address, tensor_of(call, 2)->data = (void*)64)
AFTER(input_address, tensor_of(call, 0)->data = 0)
AFTER(output_type, tensor_of(call, 2)->dtype.bits = 64)
AFTER(output_strides, static int64_t strides[2] = {1, 16};
      tensor_of(call, 2)->strides = strides)
AFTER(output_offset, tensor_of(call, 2)->byte_offset = 64)
AFTER(output_device, tensor_of(call, 2)->device.device_type = 2)
AFTER(own_shape, static int64_t shape[2] = {16, 8};
      tensor_of(call, 2)->shape = shape)
AFTER(swaps_arguments, const TVMValue first = call.args[0];
      call.args[0] = call.args[2]; call.args[2] = first)
AFTER(changes_codes, call.codes[0] = 0)
AFTER(negates_input, for (int i = 0; i < SIZE; ++i) in_of(call)[i] *= -1)
AFTER(zeroes_parameter, memset(bias_of(call), 0, 8 * sizeof(float)))

/* --- Fills stdout or descriptors --- */
AFTER(prints, printf("spoken by a kernel\n"))
AFTER(prints_much, for (int i = 0; i < 200000; ++i)
      printf("spoken by a kernel, again and again\n"))
AFTER(prints_errors, fprintf(stderr, "complained by a kernel\n"))
AFTER(writes_everywhere, for (int i = 3; i < 1024; ++i)
      if (fcntl(i, F_GETFD) >= 0) (void)!write(i, "garbage!", 8))
AFTER(keeps_a_file, (void)!open("/dev/null", O_RDONLY))
AFTER(reads_stdin, char c; (void)!read(0, &c, 1))

/* --- Computes something else, and reports no error --- */
AFTER(wrong_value, out_of(call)[0] += 1)
AFTER(not_a_number, out_of(call)[0] = NAN)
static int lie_does_nothing(Call call) {
  (void)call;
  return 0;
}

#define ROW(name) {#name, &lie_##name}
static const struct {
  const char* name;
  int (*lie)(Call);
} lies[] = {
    ROW(past_output), ROW(past_output_far), ROW(before_output), ROW(input),
    ROW(parameter), ROW(input_bit), ROW(network_input), ROW(earlier_tensor),
    ROW(reads_past_input), ROW(uses_past_input), ROW(uses_old_output),
    ROW(leaves_a_hole), ROW(null_write), ROW(null_read), ROW(wild_write),
    ROW(odd_pointer), ROW(frees_output), ROW(unmaps_output), ROW(unmaps_input),
    ROW(writes_code), ROW(exit_0), ROW(exit_3), ROW(low_exit_0),
    ROW(quick_exit_0), ROW(raw_exit_0), ROW(aborts), ROW(divides_by_zero),
    ROW(illegal_instruction), ROW(kill_self), ROW(terminates_self),
    ROW(alarm_now), ROW(broken_pipe), ROW(overflows_stack), ROW(spins),
    ROW(sleeps), ROW(locks_twice), ROW(deaf_and_hangs), ROW(executes_true),
    ROW(ends_its_thread), ROW(throws), ROW(fails), ROW(fails_silently),
    ROW(stops_itself), ROW(seccomp), ROW(leaves_idle_thread),
    ROW(leaves_busy_thread), ROW(leaves_writing_thread),
    ROW(leaves_crashing_thread), ROW(leaves_exiting_thread),
    ROW(joins_its_thread), ROW(leaves_child), ROW(leaves_zombie),
    ROW(returns_twice), ROW(daemonizes), ROW(waits_for_child),
    ROW(changes_folder), ROW(creation_mask), ROW(locale), ROW(thread_locale),
    ROW(closes_stdin), ROW(closes_stdout), ROW(closes_stderr), ROW(closes_all),
    ROW(replaces_stdout), ROW(replaces_all),
    ROW(takes_all_files), ROW(limit_of_files), ROW(limit_of_memory),
    ROW(limit_of_file_size), ROW(limit_of_time), ROW(blocks_signals),
    ROW(catches_crashes), ROW(ignores_children), ROW(ignores_pipe),
    ROW(sets_alarm), ROW(sets_timer), ROW(sets_variable),
    ROW(clears_environment), ROW(no_new_rights), ROW(one_processor),
    ROW(rounds_upward), ROW(flushes_to_zero), ROW(traps_division),
    ROW(short_x87), ROW(spoils_a_table), ROW(spoils_a_pointer),
    ROW(wrong_from_second), ROW(wrong_at_third), ROW(wrong_every_other),
    ROW(adds_its_calls), ROW(crashes_at_fifth), ROW(exits_at_second),
    ROW(keeps_first_result), ROW(random), ROW(reads_its_last_result),
    ROW(wrong_unless_128), ROW(input_wrong_unless_128), ROW(crashes_unless_128),
    ROW(wrong_at_some_addresses), ROW(adds_its_address), ROW(clock_matters),
    ROW(adds_the_time), ROW(process_matters), ROW(wrong_off_first_thread),
    ROW(wrong_on_first_thread), ROW(races), ROW(output_shape), ROW(input_shape),
    ROW(parameter_shape), ROW(huge_shape), ROW(output_sides),
    ROW(output_address), ROW(wild_output_address), ROW(input_address),
    ROW(output_type), ROW(output_strides), ROW(output_offset),
    ROW(output_device), ROW(own_shape), ROW(swaps_arguments),
    ROW(changes_codes), ROW(negates_input), ROW(zeroes_parameter), ROW(prints),
    ROW(prints_much), ROW(prints_errors), ROW(writes_everywhere),
    ROW(keeps_a_file), ROW(reads_stdin), ROW(wrong_value), ROW(not_a_number),
    ROW(does_nothing),
};

static int (*chosen)(Call) = &honest;
__attribute__((constructor)) static void choose(void) {
  const char* const name = getenv("NODEWISE_TEST_LIE");
  for (unsigned i = 0; name != 0 && i < sizeof(lies) / sizeof(*lies); ++i) {
    if (strcmp(lies[i].name, name) == 0) chosen = lies[i].lie;
  }
}

NW_EXPORT int nodewise_add(TVMValue* args, int* codes, int num_args,
                           TVMValue* ret, int* ret_code, void* resource);
int nodewise_add(TVMValue* args, int* codes, int num_args, TVMValue* ret,
                 int* ret_code, void* resource) {
  const Call call = {args, codes};
  (void)num_args, (void)ret, (void)ret_code, (void)resource;
  return chosen(call);
}

NW_EXPORT int nodewise_relu(TVMValue* args, int* codes, int num_args,
                            TVMValue* ret, int* ret_code, void* resource);
int nodewise_relu(TVMValue* args, int* codes, int num_args, TVMValue* ret,
                  int* ret_code, void* resource) {
  network_input = (float*)((DLTensor*)args[0].v_handle)->data;
  made_by_first = (float*)((DLTensor*)args[1].v_handle)->data;
  return honest_relu(args, codes, num_args, ret, ret_code, resource);
}

NW_EXPORT int nodewise_tanh(TVMValue* args, int* codes, int num_args,
                            TVMValue* ret, int* ret_code, void* resource);
int nodewise_tanh(TVMValue* args, int* codes, int num_args, TVMValue* ret,
                  int* ret_code, void* resource) {
  const int rc = honest_tanh(args, codes, num_args, ret, ret_code, resource);
  *(float*)((DLTensor*)args[1].v_handle)->data += *of_bend;
  return rc;
}
