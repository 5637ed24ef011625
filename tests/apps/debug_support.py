"""What the tests of the debugger share: kernels that misbehave, chains of
calls, and a reader of .params files."""

import struct

import support
from support import DTYPES, Graph, Tensor

KERNELS = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static size_t copy_floats(TVMValue* args) {
  const size_t n = count(tensor(args, 1));
  memcpy(tensor(args, 1)->data, tensor(args, 0)->data, n * sizeof(float));
  return n;
}

/* As the start of a library that was linked with -ffast-math does. */
KERNEL(flush_denormals) {
  copy_floats(args);
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
  return 0;
}

KERNEL(crash) {
  *(volatile int*)0x40 = 1;
  return 0;
}

/* Works on every thread but a process's first. */
KERNEL(crash_on_first_thread) {
  copy_floats(args);
  if (syscall(SYS_gettid) == getpid()) *(volatile int*)0x40 = 1;
  return 0;
}

KERNEL(hang) {
  while (1) pause();
}

KERNEL(leave) {
  _exit(3);
}

KERNEL(quit) {
  exit(0);
}

KERNEL(speak) {
  copy_floats(args);
  printf("spoken by a kernel\n");
  return 0;
}

/* Writes one element past its output. */
KERNEL(overrun) {
  const size_t n = copy_floats(args);
  ((float*)tensor(args, 1)->data)[n] = 1;
  return 0;
}

/* Spoils what the heap keeps behind its output, so that a plain run ends the
 * process. */
KERNEL(overrun_far) {
  const size_t n = copy_floats(args);
  memset((float*)tensor(args, 1)->data + n, 0x7f, 2048);
  return 0;
}

KERNEL(write_input) {
  float* in = tensor(args, 0)->data;
  copy_floats(args);
  in[1] = -in[1] - 1;
  return 0;
}

/* The same to every page of it. */
KERNEL(write_input_pages) {
  float* in = tensor(args, 0)->data;
  const size_t n = copy_floats(args);
  for (size_t i = 0; i < n; i += 1024) in[i] = -in[i] - 1;
  return 0;
}

/* Never makes the same twice in a process. */
KERNEL(unsteady) {
  static int calls;
  copy_floats(args);
  ((float*)tensor(args, 1)->data)[0] += ++calls;
  return 0;
}

KERNEL(square_root) {
  const size_t n = copy_floats(args);
  float* out = tensor(args, 1)->data;
  for (size_t i = 0; i < n; ++i) out[i] = sqrtf(out[i]);
  return 0;
}

/* out = in, -in */
KERNEL(split) {
  const size_t n = copy_floats(args);
  const float* in = tensor(args, 0)->data;
  float* negative = tensor(args, 2)->data;
  for (size_t i = 0; i < n; ++i) negative[i] = -in[i];
  return 0;
}

/* Filled in by the runtime. */
__attribute__((weak)) int (*__TVMBackendParallelLaunch)(
    int (*)(int, void*, void*), void*, int);

static int copy_quarter(int task, void* env, void* data) {
  (void)env;
  TVMValue* args = data;
  const size_t n = count(tensor(args, 1));
  const float* in = tensor(args, 0)->data;
  float* out = tensor(args, 1)->data;
  for (size_t i = task; i < n; i += 4) out[i] = in[i];
  return 0;
}

KERNEL(four_tasks) {
  return __TVMBackendParallelLaunch(&copy_quarter, args, 4);
}

/* Is busy for a millisecond. */
KERNEL(busy) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  copy_floats(args);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec -
               start.tv_nsec < 1000000);
  return 0;
}

KERNEL(nap) {
  const struct timespec tenth = {0, 100000000};
  copy_floats(args);
  nanosleep(&tenth, NULL);
  return 0;
}

/* Adds a byte to the file that NODEWISE_TEST_CALLS names. */
KERNEL(counted) {
  FILE* file = fopen(getenv("NODEWISE_TEST_CALLS"), "ab");
  copy_floats(args);
  if (file == NULL) return -1;
  fputc('x', file);
  fclose(file);
  return 0;
}

/* Fails when it is called for the NODEWISE_TEST_FAILS-th time. */
KERNEL(fail_once) {
  static int calls;
  copy_floats(args);
  if (++calls != atoi(getenv("NODEWISE_TEST_FAILS"))) return 0;
  __TVMAPISetLastError("this call fails");
  return -1;
}

/* Writes 0 over the last value of the file that NODEWISE_TEST_INPUTS names. */
KERNEL(spoil_inputs) {
  const float zero = 0;
  FILE* file = fopen(getenv("NODEWISE_TEST_INPUTS"), "r+b");
  copy_floats(args);
  if (file == NULL) return -1;
  fseek(file, -(long)sizeof(zero), SEEK_END);
  fwrite(&zero, sizeof(zero), 1, file);
  fclose(file);
  return 0;
}
"""


class DebugLibrary(support.Library):
    """The kernels of support.py and those above."""

    SOURCE = support.KERNELS + KERNELS


def chain(*functions):
    """float32 (2, 3) through the functions, whose nodes are `FUNCTION_0`,
    `FUNCTION_1` and so on."""
    graph = Graph()
    node = graph.input("data", "float32", (2, 3))
    for i, function in enumerate(functions):
        node = graph.call(function, [node], "float32", (2, 3),
                          f"{function}_{i}")
    return graph.output(node)


def sum_graph():
    """data + bias, copied twice: nodes data, bias, sum, copied, last."""
    graph = Graph()
    data = graph.input("data", "float32", (2, 3))
    bias = graph.input("bias", "float32", (3,))
    node = graph.call("add_bias", [data, bias], "float32", (2, 3), "sum")
    for name in ("copied", "last"):
        node = graph.call("copy", [node], "float32", (2, 3), name)
    return graph.output(node)


def split_graph():
    """data split in two, the second half copied: data, halves, last."""
    tree = chain("split", "copy").tree()
    tree["nodes"][1]["name"] = "halves"
    tree["nodes"][1]["attrs"]["num_outputs"] = "2"
    tree["nodes"][2].update(name="last", inputs=[[1, 1, 0]])
    tree["node_row_ptr"] = [0, 1, 3, 4]
    tree["attrs"] = {
        "dltype": ["list_str", ["float32"] * 4],
        "shape": ["list_shape", [[2, 3]] * 4],
        "storage_id": ["list_int", [0, 1, 2, 3]],
    }
    return tree


def read_params(path):
    """The tensors of a .params file by their names; `values` are numbers
    where Python has the type, else bytes."""
    data = memoryview(path.read_bytes())
    at = 0

    def take(form):
        nonlocal at
        at += struct.calcsize(form)
        return struct.unpack_from(form, data, at - struct.calcsize(form))

    assert take("<QQ") == (0xF7E58D4F05049CB7, 0), path
    (num_names,) = take("<Q")
    names = [bytes(take(f"<{take('<Q')[0]}s")[0]).decode()
             for _ in range(num_names)]
    assert take("<Q") == (num_names,), path
    tensors = {name: take_tensor(take) for name in names}
    assert len(tensors) == num_names, f"{path}: a name twice"
    assert at == len(data), f"{path}: bytes after the last tensor"
    return tensors


def take_tensor(take):
    assert take("<QQ") == (0xDD5E40F096B4A13F, 0)
    _, _, ndim, code, bits, lanes = take("<iiiBBH")
    assert lanes == 1
    shape = take(f"<{ndim}q")
    (size,) = take("<Q")
    for dtype, (known_code, known_bits, element) in DTYPES.items():
        if (code, bits) == (known_code, known_bits):
            width = struct.calcsize(f"<{element}")
            return Tensor(dtype, shape, take(f"<{size // width}{element}"))
    return Tensor(f"type {code} of {bits} bits", shape, take(f"<{size}s")[0])
