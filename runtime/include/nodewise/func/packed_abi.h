#ifndef NODEWISE_RUNTIME_PACKED_ABI_H_
#define NODEWISE_RUNTIME_PACKED_ABI_H_

/*
 * The C structs that TVM 0.6 to 0.19 passes between host programs, the runtime
 * and compiled functions. The names are TVM's, so that a C program written
 * against TVM's header compiles against this one.
 */

#include <stddef.h>
#include <stdint.h>

#include "dlpack/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a TVMValue holds. Integers of every width travel as int64, floats of
 * every width as double. */
typedef enum {
  kTVMArgInt = 0,
  kTVMArgFloat = 2,
  kTVMOpaqueHandle = 3,
  kTVMNullptr = 4, /* also: the function returned nothing */
  kTVMDataType = 5,
  kDLDevice = 6,
  kTVMDLTensorHandle = 7, /* DLTensor*, borrowed */
  kTVMObjectHandle = 8,
  kTVMModuleHandle = 9,
  kTVMPackedFuncHandle = 10,
  kTVMStr = 11,           /* const char* */
  kTVMBytes = 12,         /* TVMByteArray* */
  kTVMNDArrayHandle = 13, /* DLTensor* at the head of an owned array */
  kTVMObjectRValueRefArg = 14,
  kTVMArgBool = 15 /* TVM 0.18 and later */
} TVMArgTypeCode;

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

typedef struct {
  const char* data;
  size_t size;
} TVMByteArray;

typedef void* TVMModuleHandle;
typedef void* TVMFunctionHandle;
typedef void* TVMRetValueHandle;
typedef void* TVMStreamHandle;
typedef void* TVMObjectHandle;
typedef DLTensor* TVMArrayHandle;

/* A compiled function. 0 is success; -1 means that TVMAPISetLastError was
 * called. `ret_code` comes in as kTVMNullptr. Functions of TVM 0.6 take the
 * first three parameters only and do not notice the others. */
typedef int (*TVMBackendPackedCFunc)(TVMValue* args, int* type_codes,
                                     int num_args, TVMValue* ret, int* ret_code,
                                     void* resource_handle);

/* A host's callback, made into a function by TVMFuncCreateFromCFunc. */
typedef int (*TVMPackedCFunc)(TVMValue* args, int* type_codes, int num_args,
                              TVMRetValueHandle ret, void* resource_handle);
typedef void (*TVMPackedCFuncFinalizer)(void* resource_handle);

/* A part of a parallel loop and what it is told about the launch. */
typedef struct {
  void* sync_handle;
  int32_t num_task;
} TVMParallelGroupEnv;
typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* env,
                                  void* cdata);

#ifdef __cplusplus
}
#endif

#endif /* NODEWISE_RUNTIME_PACKED_ABI_H_ */
