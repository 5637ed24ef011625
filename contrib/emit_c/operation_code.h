#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "contrib/emit_c/c_text.h"
#include "contrib/emit_c/code_writer.h"
#include "contrib/emit_c/loops.h"
#include "nodewise/ir/network.h"

namespace nodewise::emit_c {

// A compact tensor as the code has it: a pointer with a name.
struct CTensor {
  std::string name;
  DLDataType dtype{};
  Sizes sizes;

  int64_t count() const { return CountIn(sizes); }
  std::string_view type() const { return CTypeOf(dtype); }
};

// What no memory holds.
inline constexpr int64_t kMostElements = int64_t{1} << 44;

// kUnimplemented: why there is no C for an operation.
absl::Status Refuse(const std::string& why);

// What a region's code has beside its tensors.
struct RegionStore {
  // A variable that is defined in front of all code.
  struct Definition {
    std::string name;
    std::string line;
  };

  CodeWriter* code = nullptr;
  std::vector<Definition> definitions;
  size_t num_tables = 0;
  size_t num_scratch = 0;
  int64_t scratch_bytes = 0;
  bool keeps_sizes = false;  // Row::keeps_sizes of some operation.

  // Returns the name of memory for the region's own use, which is declared. If
  // that becomes more than there can be, `scratch_bytes` stays at kTooMuch.
  static constexpr int64_t kTooMuch = kMostElements * 8;
  std::string Scratch(std::string_view type, int64_t count);
  // Returns the name of a table of these numbers.
  std::string Table(absl::Span<const int64_t> numbers);
  std::string Table(absl::Span<const double> numbers);
  std::string Table(const NDArray& tensor);
};

// One operation whose code is to be written.
class OperationCode {
 public:
  OperationCode(const Network& network, const Operation& operation,
                std::vector<CTensor> inputs, std::vector<CTensor> outputs,
                RegionStore* store)
      : network_(network),
        operation_(operation),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        store_(store) {}

  // Returns the attributes, or null if the operation is of another class.
  template <typename Class>
  const Class* As() const {
    return operation_.attrs.As<Class>();
  }
  size_t num_inputs() const { return operation_.inputs.size(); }
  bool has(size_t i) const;
  // REQUIRES: has(i).
  const CTensor& in(size_t i) const { return inputs_[i]; }
  size_t num_outputs() const { return operation_.outputs.size(); }
  bool wants(size_t i) const;
  // REQUIRES: wants(i).
  const CTensor& out(size_t i = 0) const { return outputs_[i]; }

  // The type that the network has for an input, which the code may compute in
  // another one. REQUIRES: has(i).
  DLDataType StoredType(size_t i) const;

  // The integers that an input always has; none if they are not known.
  std::optional<Sizes> Ints(size_t i) const;
  // What a constant of the region holds; null if the input is none.
  const NDArray* Constant(size_t i) const;

  CodeWriter& code() const { return *store_->code; }
  RegionStore& store() const { return *store_; }

 private:
  const Network& network_;
  const Operation& operation_;
  std::vector<CTensor> inputs_;   // Those not given have no name.
  std::vector<CTensor> outputs_;  // Those not wanted have no name.
  RegionStore* store_;
};

// Declares a variable: an element of some indices along a side of this size,
// counted from the front. The code fails where it is outside.
void WriteIndex(CodeWriter* code, std::string_view operation,
                const std::string& variable, const std::string& element,
                int64_t size);
// Writes a loop that sets each place of `to` to an element of `from`.
void CopyCode(CodeWriter* code, const Sizes& sizes, const std::string& from,
              const View& from_view, const std::string& to,
              const View& to_view);

}  // namespace nodewise::emit_c
