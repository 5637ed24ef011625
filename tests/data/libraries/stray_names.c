/* Classic functions beside variables whose names are those of TVM-FFI. */
#include "kernels.h"

const char __tvm_ffi_marker[] = "not a function";
int __tvm_ffi__library_bin_size = 3;
int TVMFFIVersion = 21;
void* __tvm_ffi__library_ctx = NULL;
void* __tvm_ffi_library_ctx = NULL;
void* __TVMFFIFunctionCall = NULL;

int tvmgen_default_fused_add(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  for (int64_t i = 0; i < CountAt(args, 2); ++i) {
    FloatsAt(args, 2)[i] = FloatsAt(args, 0)[i] + FloatsAt(args, 1)[i];
  }
  return 0;
}
