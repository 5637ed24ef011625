#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/foreign/foreign_folder.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// What nodewise and another program that runs models say to each other, in
// files (docs/formats/foreign_runner.md).

// A tensor that is asked for, and what is known of it.
struct AskedTensor {
  std::string name;
  TensorType type;
};

struct ForeignRequest {
  std::string model;  // The path of the model.
  absl::Span<const NamedTensor> inputs;
  absl::Span<const AskedTensor> asked;
  uint64_t repeats = 1;
};

// Writes the request and its inputs, and returns the path of the request.
absl::StatusOr<std::string> WriteRequest(const ForeignRequest& request,
                                         const ForeignFolder& folder);

// What the answer says of a tensor that was asked for. Its type fits what was
// known; nothing is known yet of its file.
struct AnsweredTensor {
  std::string file;  // In the folder of outputs; empty: there is no tensor.
  std::string why_absent;
  DLDataType dtype{};
  std::vector<int64_t> shape;
  // How its type is not the one that was expected; empty if it is. And whether
  // only sides of 1 are more or fewer, or whole numbers of another type.
  std::string misfit;
  bool differs_in_form = false;
};

struct ForeignAnswer {
  std::string runtime;  // The name by which it calls itself; may be empty.
  // It can be asked to run several cases in one start.
  bool takes_cases = false;
  std::vector<AnsweredTensor> tensors;  // By what was asked for.
  std::vector<int64_t> durations_ns;    // By repeat, or empty.
};

// Reads and checks the answer. Fails with kDataLoss for one that is missing,
// garbled, or does not fit the request, and says where in it.
absl::StatusOr<ForeignAnswer> ReadAnswer(const ForeignFolder& folder,
                                         const ForeignRequest& request,
                                         uint64_t most_bytes);

// Writes one request for all these, each to be run once, as WriteRequest().
absl::StatusOr<std::string> WriteCases(absl::Span<const ForeignRequest> cases,
                                       const ForeignFolder& folder);

// What the answer says of a case: the tensors that were asked for, or why there
// are none. kUnavailable: the program refuses it; kDataLoss: what is said does
// not fit the case.
using AnsweredCase = absl::StatusOr<std::vector<AnsweredTensor>>;

// Reads and checks the answer, as ReadAnswer(). A fault in one case is reported
// for that case alone.
absl::StatusOr<std::vector<AnsweredCase>> ReadCases(
    const ForeignFolder& folder, absl::Span<const ForeignRequest> cases,
    uint64_t most_bytes);

}  // namespace nodewise
