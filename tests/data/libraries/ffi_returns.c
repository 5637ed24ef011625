/* What a function of TVM-FFI may return and be given. */
#include <string.h>

#include "ffi_kernels.h"

typedef struct {
  TVMFFIObject head;
  TVMFFIByteArray text;
} TextObject;

static int num_alive = 0;

static void Delete(void* self, int flags) {
  (void)self;
  if ((flags & 1) != 0) --num_alive;
}

int __tvm_ffi_returns_int(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  *result = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = 42};
  return 0;
}

int __tvm_ffi_returns_small_text(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  *result = (TVMFFIAny){
      .type_index = kTVMFFISmallStr, .small_len = 5, .v_bytes = "small"};
  return 0;
}

/* Takes tensors or nothing, so that a graph can call it too. */
int __tvm_ffi_returns_text(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  static TextObject text;
  text.head = (TVMFFIObject){(1ull << 32) + 1, kTVMFFIStr, 0, &Delete};
  text.text = (TVMFFIByteArray){"a longer text", 13};
  ++num_alive;
  result->type_index = kTVMFFIStr;
  result->v_ptr = &text;
  return 0;
}

int __tvm_ffi_texts_alive(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  *result = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = num_alive};
  return 0;
}

/* Its first argument's type index. */
int __tvm_ffi_type_index(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  *result =
      (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = args[0].type_index};
  return 0;
}

int __tvm_ffi_length_of_text(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  const int64_t length = (int64_t)strlen(args[0].v_c_str);
  *result = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = length};
  return 0;
}

/* An entry function of that name, not a wrapper. */
int __tvm_ffi_main(FFI_PARAMETERS) {
  return __tvm_ffi_returns_int(self, args, num_args, result);
}
