#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// Takes tensors and remembers only which did not come.
struct AbsentSink : public TensorSink {
  absl::Status Consume(const TensorItem& item) override {
    if (item.tensor == nullptr) absent[item.key.node] = item.why_absent;
    return absl::OkStatus();
  }

  std::map<std::string, std::string> absent;  // By name, with the reasons.
};

// Looking at a value inside a foreign runtime may make a fault go away, since
// the runtime computes other operations together then. This finds out what can
// be looked at all the same.

struct ObservationSearch {
  std::vector<size_t> kept;     // What may be observed, in order.
  std::vector<size_t> dropped;  // What may not, or was not tried.
  size_t runs = 0;
  bool is_complete = true;  // False: `most_runs` ended the search.
};

// Returns as many of `count` values as can be observed together while
// `is_there`, which is asked for numbers of values, in order, says that the
// fault is still there; a value that is dropped makes it go away beside those
// that are kept before it. Asks about 2 log2(count) times for each of these,
// and no more than `most_runs` times; what could not be tried then is dropped.
// Fails as `is_there`. REQUIRES: with nothing observed the fault is there.
absl::StatusOr<ObservationSearch> SearchObservable(
    size_t count, size_t most_runs,
    absl::FunctionRef<absl::StatusOr<bool>(absl::Span<const size_t> values)>
        is_there);

}  // namespace nodewise
