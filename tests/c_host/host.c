/* Runs an artefact from C99, as a deployed program would: load, create, set the
 * input, run, read the output. usage: nodewise_c_host LIBRARY.so */
#include <stdio.h>

#include "nodewise/func/c_api.h"

static int Fail(const char* step) {
  fprintf(stderr, "%s: %s\n", step, TVMGetLastError());
  return 0;
}

/* Calls `name` of a module; 1 for success. */
static int CallMethod(TVMModuleHandle module, const char* name, TVMValue* args,
                      int* codes, int count, TVMValue* ret) {
  TVMFunctionHandle function = NULL;
  int ret_code = kTVMNullptr;
  int rc;
  if (TVMModGetFunction(module, name, 0, &function) != 0) return Fail(name);
  if (function == NULL) {
    fprintf(stderr, "%s: no such function\n", name);
    return 0;
  }
  rc = TVMFuncCall(function, args, codes, count, ret, &ret_code);
  TVMFuncFree(function);
  return rc == 0 ? 1 : Fail(name);
}

static int SetInput(TVMModuleHandle executor, DLTensor* tensor) {
  TVMValue args[2];
  int codes[2] = {kTVMStr, kTVMDLTensorHandle};
  TVMValue ret;
  args[0].v_str = "x";
  args[1].v_handle = tensor;
  return CallMethod(executor, "set_input", args, codes, 2, &ret);
}

static int GetOutput(TVMModuleHandle executor, DLTensor* tensor) {
  TVMValue args[2];
  int codes[2] = {kTVMArgInt, kTVMDLTensorHandle};
  TVMValue ret;
  args[0].v_int64 = 0;
  args[1].v_handle = tensor;
  return CallMethod(executor, "get_output", args, codes, 2, &ret);
}

static DLTensor TensorOf(float* data, int64_t* shape) {
  DLTensor tensor = {0};
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 1;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static int RunOnce(TVMModuleHandle executor) {
  float input[4] = {1, 2, 3, 4};
  float output[4] = {0, 0, 0, 0};
  int64_t shape[1] = {4};
  DLTensor in = TensorOf(input, shape);
  DLTensor out = TensorOf(output, shape);
  TVMValue ret;
  int i;
  if (!SetInput(executor, &in)) return 0;
  if (!CallMethod(executor, "run", NULL, NULL, 0, &ret)) return 0;
  if (!GetOutput(executor, &out)) return 0;
  for (i = 0; i < 4; ++i) {
    const float expected = input[i] + 10 * (float)(i + 1);
    if (output[i] == expected) continue;
    fprintf(stderr, "output %d is %g, expected %g\n", i, output[i], expected);
    return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  TVMModuleHandle module = NULL;
  TVMValue device;
  TVMValue executor;
  int device_code = kDLDevice;
  int ok;
  if (argc != 2) {
    fprintf(stderr, "usage: nodewise_c_host LIBRARY.so\n");
    return 2;
  }
  if (TVMModLoadFromFile(argv[1], "so", &module) != 0) {
    Fail("load");
    return 1;
  }
  device.v_device.device_type = kDLCPU;
  device.v_device.device_id = 0;
  ok = CallMethod(module, "default", &device, &device_code, 1, &executor);
  if (ok) {
    ok = RunOnce(executor.v_handle);
    TVMModFree(executor.v_handle);
  }
  TVMModFree(module);
  return ok ? 0 : 1;
}
