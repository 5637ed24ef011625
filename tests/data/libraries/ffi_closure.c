/* Calls functions by name: until 0.25 the environment is asked, since 0.26 the
 * imports; the handle is looked up once and kept for ever. FFI_DIRECT is the C
 * target, which calls its runtime by name. */
#include <string.h>

#include "ffi_kernels.h"

typedef int (*InitFunction)(void** result);

#ifdef FFI_DIRECT
int TVMBackendGetFuncFromEnv(void* context, const char* name, void** out);
#define CALL TVMFFIFunctionCall
#define GET_FROM_ENV TVMBackendGetFuncFromEnv
#else
WEAK int (*__TVMFFIFunctionCall)(void*, TVMFFIAny*, int32_t, TVMFFIAny*) = NULL;
#define CALL __TVMFFIFunctionCall
#define GET_FROM_ENV __TVMBackendGetFuncFromEnv
#if FFI_ERA <= 25
WEAK int (*__TVMBackendGetFuncFromEnv)(void*, const char*, void**) = NULL;
#else
WEAK int (*__TVMFFIEnvModLookupFromImports)(void*, const char*, void**) = NULL;
WEAK int (*__TVMFFIHandleInitOnce)(void**, InitFunction) = NULL;
#endif
#endif

#if FFI_ERA == 21
void* __tvm_ffi_library_ctx = NULL;
#define CONTEXT __tvm_ffi_library_ctx
#else
void* __tvm_ffi__library_ctx = NULL;
#define CONTEXT __tvm_ffi__library_ctx
#endif

#if FFI_ERA <= 25
#define LOOKED_UP(variable, name)                  \
  static void* variable = NULL;                    \
  static int Get_##variable(void) {                \
    if (variable != NULL) return 0;                \
    return GET_FROM_ENV(CONTEXT, name, &variable); \
  }
#else
#define LOOKED_UP(variable, name)                               \
  static void* variable = NULL;                                 \
  static int Init_##variable(void** out) {                      \
    return __TVMFFIEnvModLookupFromImports(CONTEXT, name, out); \
  }                                                             \
  static int Get_##variable(void) {                             \
    return __TVMFFIHandleInitOnce(&variable, &Init_##variable); \
  }
#endif

LOOKED_UP(twice, "test.twice")
LOOKED_UP(topk, "tvm.contrib.sort.topk")
LOOKED_UP(describe, "test.describe")

int FFI_NAME(calls_twice)(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (Get_twice() != 0) return -1;
  TVMFFIAny call_args[1] = {args[0]};
  return CALL(twice, call_args, 1, result);
}

/* (data, values, indices): the two greatest of each row. */
int FFI_NAME(two_greatest)(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (Get_topk() != 0) return -1;
  TVMFFIAny call_args[7] = {args[0], args[1], args[2]};
  call_args[3] = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = 2};
  call_args[4] = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = -1};
  call_args[5] = (TVMFFIAny){.type_index = kTVMFFIRawStr, .v_c_str = "both"};
  call_args[6] = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = 0};
  return CALL(topk, call_args, 7, result);
}

typedef struct {
  TVMFFIObject head;
  TVMFFIByteArray text;
} TextObject;

/* Passes one value of each kind that a kernel can make. */
int FFI_NAME(passes_all_kinds)(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (Get_describe() != 0) return -1;
  TextObject text = {{1, kTVMFFIStr, 0, NULL}, {"a text object", 13}};
  TVMFFIByteArray bytes = {"b\0c", 3};
  TVMFFIAny values[] = {
      {.type_index = kTVMFFINone},
      {.type_index = kTVMFFIInt, .v_int64 = -3},
      {.type_index = kTVMFFIBool, .v_int64 = 1},
      {.type_index = kTVMFFIFloat, .v_float64 = 2.5},
      {.type_index = kTVMFFIOpaquePtr, .v_ptr = &text},
      {.type_index = kTVMFFIDataType, .v_dtype = {kDLFloat, 16, 1}},
      {.type_index = kTVMFFIDevice, .v_device = {kDLCPU, 3}},
      {.type_index = kTVMFFIRawStr, .v_c_str = "raw"},
      {.type_index = kTVMFFIByteArrayPtr, .v_ptr = &bytes},
      {.type_index = kTVMFFISmallStr, .small_len = 7, .v_bytes = "smaller"},
      {.type_index = kTVMFFIStr, .v_ptr = &text},
      args[0],
  };
  return CALL(describe, values, sizeof values / sizeof *values, result);
}

int FFI_NAME(passes_an_array)(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (Get_describe() != 0) return -1;
  TVMFFIObject array = {1, kTVMFFIArray, 0, NULL};
  TVMFFIAny values[] = {{.type_index = kTVMFFINone},
                        {.type_index = kTVMFFIArray, .v_ptr = &array}};
  return CALL(describe, values, 2, result);
}
