#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Makes the network of `nodewise demo`: 60 operations on an image of 3 x 32 x
// 32 numbers, "image", that give the probabilities of 10 classes. In it are
// what real networks are made of: residual convolution blocks with batch
// normalisation, pooling, self-attention with four heads, layer norm, a Gelu
// that is made of five operations, a classifier. The weights are random, scaled
// so that values neither vanish nor grow; one seed always gives the same ones.
//
// REQUIRES: `ops` has the operators of ONNX (AllOperators()); it may be dropped
// afterwards.
absl::StatusOr<Network> MakeDemoNetwork(const OpSet& ops, uint64_t seed);

// A fault as compilers make them.
struct DemoExchange {
  std::string_view operation;  // Its name.
  std::string_view made;       // The kind that it becomes.
  std::string_view meant;      // The kind that it is.
};
absl::Span<const DemoExchange> DemoExchanges();
// Makes the network with one of these operations exchanged and the same
// weights.
absl::StatusOr<Network> MakeExchangedDemo(const OpSet& ops, uint64_t seed,
                                          const DemoExchange& exchange);

}  // namespace nodewise
