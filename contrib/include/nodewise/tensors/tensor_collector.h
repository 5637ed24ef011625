#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Keeps everything it takes in memory, and is a source of it. Tensors that last
// are shared, others copied to host memory.
class TensorCollector : public TensorSink, public TensorSource {
 public:
  // A copy of what a TensorItem says.
  struct Kept {
    TensorKey key;
    NDArray tensor;  // Undefined if there was none.
    std::string why_absent;
    std::optional<TensorHash> hash;
    std::optional<TensorStats> stats;
    NodeTime time;
    std::optional<TensorKey> origin;
    bool is_network_input = false;
  };

  explicit TensorCollector(std::string name = "memory")
      : name_(std::move(name)) {}

  absl::Status Consume(const TensorItem& item) override;

  const std::string& name() const override { return name_; }
  absl::Status Visit(TensorSink& sink) override;
  absl::StatusOr<NDArray> Find(const TensorKey& key) override;

  // Valid until the next Consume().
  const std::vector<Kept>& kept() const { return kept_; }

 private:
  std::string name_;
  std::vector<Kept> kept_;
};

}  // namespace nodewise
