#include "nodewise/tensors/tensor_collector.h"

#include <utility>

#include "contrib/tensors/sources.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Borrows what was kept. The item is lent for one call, and the collector keeps
// all that it points to.
TensorItem ItemOf(const TensorCollector::Kept& kept) {
  TensorItem item{.key = kept.key};
  if (kept.tensor.defined()) item.tensor = kept.tensor.tensor();
  item.lasting = kept.tensor;
  item.why_absent = kept.why_absent;
  item.hash = kept.hash;
  if (kept.stats) item.stats = &*kept.stats;
  item.time = kept.time;
  if (kept.origin) item.origin = &*kept.origin;
  item.is_network_input = kept.is_network_input;
  return item;
}

}  // namespace

absl::Status TensorCollector::Consume(const TensorItem& item) {
  Kept kept;
  kept.key = item.key;
  if (item.tensor != nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(kept.tensor, item.Keep());
  }
  kept.why_absent = item.why_absent;
  kept.hash = item.hash;
  if (item.stats != nullptr) kept.stats = *item.stats;
  kept.time = item.time;
  if (item.origin != nullptr) kept.origin = *item.origin;
  kept.is_network_input = item.is_network_input;
  kept_.push_back(std::move(kept));
  return absl::OkStatus();
}

absl::Status TensorCollector::Visit(TensorSink& sink) {
  for (const Kept& kept : kept_) {
    NODEWISE_RETURN_IF_ERROR(sink.Consume(ItemOf(kept)));
  }
  return absl::OkStatus();
}

absl::StatusOr<NDArray> TensorCollector::Find(const TensorKey& key) {
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    if (kept->key == key) return ItemOf(*kept).Keep();
  }
  std::vector<std::string> names;
  for (const Kept& kept : kept_) names.push_back(kept.key.Name());
  return TensorNotFound(name_, key, names);
}

}  // namespace nodewise
