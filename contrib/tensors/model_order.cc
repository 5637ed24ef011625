#include "nodewise/tensors/model_order.h"

#include <utility>

#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/channels_last.h"
#include "nodewise/tensors/found_again.h"

namespace nodewise {
namespace {

class ModelOrderSink : public TensorSink {
 public:
  explicit ModelOrderSink(TensorSink& sink) : sink_(sink) {}

  absl::Status Take(const TensorItem& item) override {
    if (!item.has_channels_last) return sink_.Take(item);
    TensorItem moved = item;
    moved.has_channels_last = false;
    moved.hash.reset();
    moved.stats = nullptr;
    if (item.tensor == nullptr) return sink_.Take(moved);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray kept, item.Keep());
    auto tensor = CopyToChannelsFirst(*kept);
    if (!tensor.ok()) return At(item.key.Name(), tensor.status());
    moved.lasting = *tensor;
    moved.tensor = tensor->tensor();
    return sink_.Take(moved);
  }

 private:
  TensorSink& sink_;
};

class ModelOrderSource : public TensorSource {
 public:
  explicit ModelOrderSource(std::unique_ptr<TensorSource> source)
      : source_(std::move(source)) {}

  const std::string& name() const override { return source_->name(); }
  absl::Status Visit(TensorSink& sink) override {
    ModelOrderSink moved(sink);
    return source_->Visit(moved);
  }
  absl::Status CheckComplete() override { return source_->CheckComplete(); }

 private:
  const std::unique_ptr<TensorSource> source_;
};

bool IsMoved(const GraphIndex& index, EntryId entry) {
  return HasChannelsLast(
      index.graph(), {Index(index.NodeOf(entry)), index.OutputOf(entry), 0});
}

}  // namespace

std::unique_ptr<TensorSource> InModelOrder(
    std::unique_ptr<TensorSource> source) {
  // Files say nothing of layouts, and what is found again there need not be
  // kept.
  if (IsFoundAgain(*source)) return source;
  return std::make_unique<ModelOrderSource>(std::move(source));
}

absl::StatusOr<NDArray> InModelOrder(const GraphIndex& index, EntryId entry,
                                     const NDArray& tensor) {
  if (!IsMoved(index, entry)) return tensor;
  return CopyToChannelsFirst(*tensor);
}

absl::StatusOr<NDArray> InStoredOrder(const GraphIndex& index, EntryId entry,
                                      const NDArray& tensor) {
  if (!IsMoved(index, entry)) return tensor;
  return CopyToChannelsLast(*tensor);
}

}  // namespace nodewise
