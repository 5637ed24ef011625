#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nodewise/func/c_api.h"

namespace nodewise {

// One argument or result as C has it.
struct CValue {
  TVMValue value{};
  int code = kTVMNullptr;
};

inline CValue CInt(int64_t number) {
  CValue arg;
  arg.value.v_int64 = number;
  arg.code = kTVMArgInt;
  return arg;
}
inline CValue CText(const char* text) {
  CValue arg;
  arg.value.v_str = text;
  arg.code = kTVMStr;
  return arg;
}
inline CValue CHandle(void* handle, int code) {
  CValue arg;
  arg.value.v_handle = handle;
  arg.code = code;
  return arg;
}
inline CValue CTensor(const DLTensor* tensor) {
  return CHandle(const_cast<DLTensor*>(tensor), kTVMDLTensorHandle);
}
inline CValue CModule(TVMModuleHandle module) {
  return CHandle(module, kTVMModuleHandle);
}
inline CValue CDevice(DLDevice device) {
  CValue arg;
  arg.value.v_device = device;
  arg.code = kDLDevice;
  return arg;
}

// Calls a function; what TVMFuncCall returned is in `*rc`.
inline CValue CallC(TVMFunctionHandle function, const std::vector<CValue>& args,
                    int* rc) {
  std::vector<TVMValue> values;
  std::vector<int> codes;
  for (const CValue& arg : args) {
    values.push_back(arg.value);
    codes.push_back(arg.code);
  }
  CValue result;
  *rc = TVMFuncCall(function, values.data(), codes.data(),
                    static_cast<int>(args.size()), &result.value, &result.code);
  return result;
}

// Calls a registered function, which must succeed.
inline CValue CallGlobal(const char* name, const std::vector<CValue>& args) {
  TVMFunctionHandle function = nullptr;
  EXPECT_EQ(TVMFuncGetGlobal(name, &function), 0);
  EXPECT_NE(function, nullptr) << name;
  int rc = -1;
  const CValue result = CallC(function, args, &rc);
  EXPECT_EQ(rc, 0) << name << ": " << TVMGetLastError();
  EXPECT_EQ(TVMFuncFree(function), 0);
  return result;
}

// Calls a function of a module; `*rc` is what TVMFuncCall returned.
inline CValue TryMethod(TVMModuleHandle module, const char* name,
                        const std::vector<CValue>& args, int* rc) {
  TVMFunctionHandle function = nullptr;
  EXPECT_EQ(TVMModGetFunction(module, name, 1, &function), 0)
      << TVMGetLastError();
  EXPECT_NE(function, nullptr) << name;
  const CValue result = CallC(function, args, rc);
  EXPECT_EQ(TVMFuncFree(function), 0);
  return result;
}

// Calls a function of a module, which must succeed.
inline CValue CallMethod(TVMModuleHandle module, const char* name,
                         const std::vector<CValue>& args) {
  int rc = -1;
  const CValue result = TryMethod(module, name, args, &rc);
  EXPECT_EQ(rc, 0) << name << ": " << TVMGetLastError();
  return result;
}

// The error of a call that must fail.
inline std::string MethodError(TVMModuleHandle module, const char* name,
                               const std::vector<CValue>& args) {
  int rc = 0;
  TryMethod(module, name, args, &rc);
  EXPECT_EQ(rc, -1) << name;
  return TVMGetLastError();
}

}  // namespace nodewise
