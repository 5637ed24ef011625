#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace nodewise {

// What an operator takes in one version, by ONNX's own schemas, whether it is
// known here or not.
struct OperatorSignature {
  enum class Kind { kSingle, kOptional, kVariadic };
  struct Param {
    std::string_view type;  // "T"
    Kind kind = Kind::kSingle;
    bool is_homogeneous = true;  // All of a variadic one are of one type.
    uint64_t elements = 0;       // Bit N: ONNX's element type N; 0: no tensor.
  };
  struct Attribute {
    std::string_view name;
    int type = 0;  // ONNX's number.
    bool is_required = false;
  };

  int since = 0;
  bool is_deprecated = false;
  bool takes_more_attributes = false;     // With any names.
  int least_inputs = 0, most_inputs = 0;  // INT_MAX: any number.
  int least_outputs = 0, most_outputs = 0;
  std::vector<Param> inputs, outputs;
  std::vector<Attribute> attributes;
};

// Returns the operator of that domain ("": ONNX's own) in that version of it,
// or null if there is none. It stays as long as the program runs. May be called
// from any thread.
const OperatorSignature* FindSignature(std::string_view domain,
                                       std::string_view name, int version);

}  // namespace nodewise
