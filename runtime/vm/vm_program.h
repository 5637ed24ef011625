#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpack/dlpack.h"
#include "nodewise/func/prepared_call.h"

namespace nodewise {

// What a straight-line VM function does, once registers, tuples and shapes are
// resolved. Tensors, inputs and storages are referred to by number.

struct VmTensor {
  enum class Origin {
    kInput,     // source: an input
    kConstant,  // source: a constant of the executable
    kStorage,   // source: a storage
    kView,      // source: a tensor; the same memory under another shape
  };
  Origin origin = Origin::kStorage;
  uint32_t source = 0;
  // For an input, these are learnt from its checks.
  bool has_shape = false;
  bool has_dtype = false;
  std::vector<int64_t> shape;  // Below 0: known only at run time.
  DLDataType dtype{};
  uint64_t offset = 0;      // Its place in the storage.
  bool is_written = false;  // It has contents, initial or from a kernel.
  bool is_used = false;     // Whether a kernel reads it, or it is returned.
};

struct VmInput {
  std::string name;
  uint32_t tensor = 0;
  int64_t rank = -1;        // Below 0: not known.
  int64_t checked_at = -1;  // The instruction that checks it.
  uint32_t depth = 0;       // How many tuples it is in.
  bool is_tuple = false;
  std::map<int64_t, uint32_t> items;  // A tuple's items, which are inputs.
};

struct VmStorage {
  uint64_t bytes = 0;
};

// A kernel's call, or a change of shape where `function` is empty.
struct VmCall {
  std::string_view function;
  std::vector<uint32_t> inputs;  // Tensors.
  std::vector<uint32_t> outputs;
  std::vector<CallNumber> numbers;  // The numbers among its arguments.
};

struct VmProgram {
  std::vector<VmTensor> tensors;
  std::vector<VmInput> inputs;
  std::vector<uint32_t> parameters;  // The function's own inputs, in order.
  std::vector<VmStorage> storages;
  std::vector<VmCall> calls;
  std::vector<uint32_t> heads;  // Tensors.
};

}  // namespace nodewise
