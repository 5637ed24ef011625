#ifndef NODEWISE_RUNTIME_FFI_ABI_H_
#define NODEWISE_RUNTIME_FFI_ABI_H_

/*
 * The C structs of TVM-FFI, by which libraries of TVM 0.21 and later call and
 * are called, and the functions that their code expects of its runtime. The
 * names are TVM's. Values and calls are the same in 0.21 to 0.27; the heap
 * objects are those of 0.22 and later.
 */

#include <stddef.h>
#include <stdint.h>

#include "dlpack/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a TVMFFIAny holds. From kTVMFFIStaticObjectBegin on it is a pointer to a
 * counted object, which begins with a TVMFFIObject. */
typedef enum {
  kTVMFFINone = 0,
  kTVMFFIInt = 1,
  kTVMFFIBool = 2,
  kTVMFFIFloat = 3,
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  kTVMFFIDLTensorPtr = 7,      /* DLTensor*, borrowed */
  kTVMFFIRawStr = 8,           /* const char*, borrowed */
  kTVMFFIByteArrayPtr = 9,     /* TVMFFIByteArray*, borrowed */
  kTVMFFIObjectRValueRef = 10, /* TVMFFIObject** that the callee may empty */
  kTVMFFISmallStr = 11,        /* up to 7 bytes in the value itself */
  kTVMFFISmallBytes = 12,
  kTVMFFIStaticObjectBegin = 64,
  kTVMFFIStr = 65,      /* TVMFFIObject, TVMFFIByteArray */
  kTVMFFIBytes = 66,    /* TVMFFIObject, TVMFFIByteArray */
  kTVMFFIError = 67,    /* TVMFFIObject, TVMFFIErrorCell */
  kTVMFFIFunction = 68, /* TVMFFIObject, TVMFFIFunctionCell */
  kTVMFFIShape = 69,
  kTVMFFITensor = 70, /* TVMFFIObject, DLTensor */
  kTVMFFIArray = 71,
  kTVMFFIMap = 72,
  kTVMFFIModule = 73
} TVMFFITypeIndex;

typedef struct {
  int32_t type_index;
  uint32_t small_len; /* A small string's length; else 0. */
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
    const char* v_c_str;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
  };
} TVMFFIAny;

typedef struct {
  const char* data;
  size_t size;
} TVMFFIByteArray;

/* The head of a counted object. */
typedef struct {
  uint64_t counts; /* Strong ones in the low 32 bits, weak ones above. */
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void* self, int flags); /* 1: destroy it; 2: free it. */
} TVMFFIObject;

/* A compiled function, or any other. 0 is success; else an error was raised.
 * The caller sets result->type_index to kTVMFFINone; an object that comes back
 * is the caller's. Compiled functions take no notice of `self`. */
typedef int (*TVMFFISafeCallType)(void* self, const TVMFFIAny* args,
                                  int32_t num_args, TVMFFIAny* result);

typedef struct {
  TVMFFISafeCallType safe_call;
  void* cpp_call; /* Null if it was not made in C++. */
} TVMFFIFunctionCell;

/* The beginning of what an error holds. */
typedef struct {
  TVMFFIByteArray kind; /* "ValueError" */
  TVMFFIByteArray message;
} TVMFFIErrorCell;

/* Called by compiled code. `parts` may hold nulls. */
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts,
                                       int32_t num_parts);
int TVMFFIFunctionCall(void* function, TVMFFIAny* args, int32_t num_args,
                       TVMFFIAny* result);
/* Finds what the code calls by name; `library_ctx` is what the loader wrote
 * into the library. */
int TVMFFIEnvModLookupFromImports(void* library_ctx, const char* name,
                                  void** out);
/* Runs `init` unless `*handle` is set, and sets it to what that gave. */
int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result));

#ifdef __cplusplus
}

static_assert(sizeof(TVMFFIAny) == 16 && offsetof(TVMFFIAny, v_ptr) == 8);
static_assert(sizeof(TVMFFIObject) == 24 &&
              offsetof(TVMFFIObject, type_index) == 8 &&
              offsetof(TVMFFIObject, deleter) == 16);
#endif

#endif /* NODEWISE_RUNTIME_FFI_ABI_H_ */
