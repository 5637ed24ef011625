/* A library of TVM's --system-lib: constructors register every symbol, none is
 * found by the loader. PREFIX is empty or that of --system-lib-prefix. */
#include <stdint.h>

#include "kernels.h"
#include "nodewise/func/c_api.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* The blob that make_blob.py wrote for it. */
extern const unsigned char JOIN(PREFIX, __tvm_dev_mblob)[];
/* The C target's code has its context under the prefixed name too. */
static void* module_context = NULL;

static int answer(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_int64 = ANSWER;
  *ret_code = kTVMArgInt;
  return 0;
}

static int calls_twice(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  TVMFunctionHandle twice = NULL;
  if (TVMBackendGetFuncFromEnv(module_context, "test.twice", &twice) != 0) {
    return -1;
  }
  return TVMFuncCall(twice, args, codes, num_args, ret, ret_code);
}

static int tvmgen_default_fused_add(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  for (int i = 0; i < 4; ++i) {
    FloatsAt(args, 2)[i] = FloatsAt(args, 0)[i] + FloatsAt(args, 1)[i];
  }
  return 0;
}

static void Register(const char* name, void* address) {
  TVMBackendRegisterSystemLibSymbol(name, address);
}

__attribute__((constructor)) static void Startup(void) {
  Register(TEXT(PREFIX) "system_answer", (void*)(intptr_t)&answer);
  Register(TEXT(PREFIX) "calls_twice", (void*)(intptr_t)&calls_twice);
  Register("tvmgen_default_fused_add",
           (void*)(intptr_t)&tvmgen_default_fused_add);
  Register(TEXT(PREFIX) "__tvm_module_ctx", &module_context);
  Register(TEXT(PREFIX) "__tvm_dev_mblob",
           (void*)JOIN(PREFIX, __tvm_dev_mblob));
}
