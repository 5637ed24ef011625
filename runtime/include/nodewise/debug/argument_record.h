#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// What a node's function is told of its tensors. It may only read that: later
// nodes are told by the same structs.
class ArgumentRecord {
 public:
  // Both must outlive it.
  ArgumentRecord(absl::Span<const DLTensor* const> inputs,
                 absl::Span<const DLTensor* const> outputs);

  // Returns what is another now, "changed the shape of its input 0 from (2, 3)
  // to (6, 3)"; empty if nothing is.
  std::string FindChange() const;
  // Makes all as it was.
  void Restore() const;

 private:
  struct Argument {
    const DLTensor* tensor;
    DLTensor before;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    std::string name;  // "its input 0"
  };

  void Add(const DLTensor* tensor, std::string name);

  std::vector<Argument> arguments_;
};

}  // namespace nodewise
