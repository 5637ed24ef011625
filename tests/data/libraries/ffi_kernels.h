/* What the functions of libraries by TVM-FFI share. FFI_ERA is the minor number
 * of the TVM 0.N whose way they go; 27 if it is not given. */
#ifndef NODEWISE_TESTS_DATA_LIBRARIES_FFI_KERNELS_H_
#define NODEWISE_TESTS_DATA_LIBRARIES_FFI_KERNELS_H_

#include "nodewise/func/ffi_abi.h"
#include "nodewise/func/packed_abi.h"

#ifndef FFI_ERA
#define FFI_ERA 27
#endif

#define WEAK __attribute__((weak))

#define FFI_PARAMETERS \
  void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result
#define UNUSED_PARAMETERS ((void)self, (void)args, (void)num_args, (void)result)

/* The symbol of a function. */
#if FFI_ERA == 21
#define FFI_NAME(name) name
#else
#define FFI_NAME(name) __tvm_ffi_##name
#endif

/* Raises an error of two parts, with a null between them. */
#if FFI_ERA >= 24
#define USES_RAISE struct unused_raise_struct
#define RAISE(kind, first, second)                     \
  do {                                                 \
    const char* parts[] = {first, NULL, second};       \
    TVMFFIErrorSetRaisedFromCStrParts(kind, parts, 3); \
  } while (0)
#else
#define USES_RAISE \
  WEAK void (*__TVMFFIErrorSetRaisedFromCStr)(const char*, const char*) = NULL
#define RAISE(kind, first, second) \
  __TVMFFIErrorSetRaisedFromCStr(kind, first second)
#endif

static inline DLTensor* TensorAt(const TVMFFIAny* args, int index) {
  return (DLTensor*)args[index].v_ptr;
}

static inline float* FloatsAt(const TVMFFIAny* args, int index) {
  return (float*)TensorAt(args, index)->data;
}

#endif /* NODEWISE_TESTS_DATA_LIBRARIES_FFI_KERNELS_H_ */
