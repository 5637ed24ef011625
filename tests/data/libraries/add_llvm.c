/* Element by element addition of four floats, with the checks of its arguments
 * that the LLVM target writes. */
#include "kernels.h"
#include "llvm_shape.h"

USES_SET_LAST_ERROR;

#define NAME "tvmgen_default_fused_add"

static int Fail(const char* message) {
  __TVMAPISetLastError(message);
  return -1;
}

static int IsTensor(int code) {
  return code == kTVMOpaqueHandle || code == kTVMNullptr ||
         code == kTVMDLTensorHandle || code == kTVMNDArrayHandle;
}

static int CheckTensor(const DLTensor* tensor) {
  if (tensor->ndim != 1) {
    return Fail("Assert fail: 1 == ndim, " NAME ".ndim should be 1");
  }
  if (tensor->dtype.code != kDLFloat || tensor->dtype.bits != 32 ||
      tensor->dtype.lanes != 1) {
    return Fail("Assert fail: dtype, " NAME ".dtype should be float32");
  }
  if (tensor->shape[0] != 4) {
    return Fail("Assert fail: shape[0] == 4, " NAME ".shape[0] should be 4");
  }
  return 0;
}

int tvmgen_default_fused_add(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (num_args != 3) {
    return Fail("Assert fail: num_args == 3, " NAME ": num_args should be 3");
  }
  for (int i = 0; i < 3; ++i) {
    if (!IsTensor(codes[i])) {
      return Fail("Assert fail: " NAME ": Expect arg to be pointer");
    }
    if (CheckTensor(TensorAt(args, i)) != 0) return -1;
  }
  for (int i = 0; i < 4; ++i) {
    FloatsAt(args, 2)[i] = FloatsAt(args, 0)[i] + FloatsAt(args, 1)[i];
  }
  return 0;
}
