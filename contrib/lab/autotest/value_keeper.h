#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// Keeps what a runner of a network hands out, by the names of values.
class ValueKeeper : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(values_[std::string(item.key.node)], item.Keep());
    return absl::OkStatus();
  }
  const std::map<std::string, NDArray>& values() const { return values_; }

 private:
  std::map<std::string, NDArray> values_;
};

}  // namespace nodewise
