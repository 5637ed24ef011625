#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/passes/quantized_tensor.h"
#include "nodewise/ir/network.h"
#include "nodewise/passes/quantization.h"

namespace nodewise {

// A Conv or MatMul of two quantised tensors with a quantised result, in either
// form.
struct QuantizedProduct {
  bool is_conv = false;
  QuantizedTensor x;
  QuantizedTensor w;
  QuantizedTensor y;
  ScaleFacts x_facts;
  ScaleFacts w_facts;
  ScaleFacts y_facts;
  // The bias in steps of x_scale * w_scale; empty if there is none.
  std::vector<double> bias;
};

// How reasons call x, w and y: as the operator's inputs are called.
struct ProductRoles {
  std::string_view x;
  std::string_view w;
  std::string_view y = "y";
};
ProductRoles RolesOf(bool is_conv);

// Sets the facts. Fails if one of the tensors, or the axis of its scales, is
// not what QLinearConv or QLinearMatMul takes.
absl::Status FindFacts(const Network& network, QuantizedProduct* product);

// Returns how near the two forms are to each other; see Agreement. Fails if
// constants say that they may be further apart than kOneStep says, or that a
// sum of integers may not fit into 32 bits; also if it is not known of how many
// terms a sum is.
absl::StatusOr<Agreement> AgreementOf(const Network& network,
                                      const QuantizedProduct& product);

// A bias as QLinearConv takes it: in steps of x_scale * w_scale.
struct IntegerBias {
  ValueId value = kNoValue;  // Where the network has it as int32.
  NDArray data;              // Otherwise.
  std::vector<double> numbers;
};
// Fails if the bias is not the product of an int32 and x_scale * w_scale.
// REQUIRES: the facts are set.
absl::StatusOr<IntegerBias> IntegerBiasOf(const Network& network,
                                          const QuantizedProduct& product,
                                          ValueId bias);

}  // namespace nodewise
