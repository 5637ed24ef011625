#ifndef NODEWISE_TESTS_HOSTS_CPP_HOST_H_
#define NODEWISE_TESTS_HOSTS_CPP_HOST_H_

// What the checks of the C++ program share; see cpp_host.cc.

#include <tvm/runtime/logging.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace host {

using namespace tvm::runtime;  // NOLINT: as TVM's own examples do.

struct Check {
  const char* name;
  void (*function)();
};

// The checks of executors, modules and devices, and of values.
std::vector<Check> ExecutorChecks();
std::vector<Check> ValueChecks();

// The libraries that the program was given.
extern std::string factory_path, closure_path;

const DLDevice kCpu{kDLCPU, 0};
const DLDataType kFloat{kDLFloat, 32, 1};
const std::vector<float> kX = {1, 2, 3, 4};
const std::vector<float> kSum = {11, 22, 33, 44};

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      throw std::logic_error(std::string("line ") + std::to_string(__LINE__) + \
                             ": expected " #condition);                        \
    }                                                                          \
  } while (false)

inline NDArray Floats(const std::vector<float>& values) {
  NDArray array =
      NDArray::Empty({static_cast<int64_t>(values.size())}, kFloat, kCpu);
  array.CopyFromBytes(values.data(), values.size() * sizeof(float));
  return array;
}

inline std::vector<float> ValuesOf(const NDArray& array) {
  std::vector<float> values(GetDataSize(*array.operator->()) / sizeof(float));
  array.CopyToBytes(values.data(), values.size() * sizeof(float));
  return values;
}

// The message of what `function` throws, which must be TVM's error.
inline std::string ErrorOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  throw std::logic_error("nothing was thrown");
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline const PackedFunc& Global(const char* name) {
  const PackedFunc* function = Registry::Get(name);
  EXPECT(function != nullptr);
  return *function;
}

}  // namespace host

#endif  // NODEWISE_TESTS_HOSTS_CPP_HOST_H_
