#include "contrib/locate/dump_survey.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

RunHashes::Hash ComparableHash(const std::optional<TensorHash>& hash) {
  if (!hash.has_value() || hash->kind != HashKind::kXxh3) return std::nullopt;
  return hash->value;
}

}  // namespace

DumpSurvey::DumpSurvey(const GraphIndex& index)
    : index_(index),
      graph_(index.graph()),
      has_(graph_),
      why_absent_(graph_, "was not recorded") {
  hashes_.made = ByEntry<RunHashes::Hash>(graph_);
  hashes_.read = ByNode<std::vector<RunHashes::Hash>>(graph_);
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    nodes_.emplace(index.KeyOf(NodeId{n}), NodeId{n});
    hashes_.read[NodeId{n}].resize(graph_.nodes[n].inputs.size());
  }
}

absl::Status DumpSurvey::Take(const TensorItem& item) {
  const auto found = nodes_.find(item.key.node);
  const bool is_input = item.key.role == TensorRole::kInput;
  const size_t slots = found == nodes_.end() ? 0
                       : is_input ? graph_.node(found->second).inputs.size()
                                  : graph_.OutputsOf(found->second);
  if (item.key.slot >= slots) {
    return absl::DataLossError(fmt::format(
        "{}: tensor {} is of no node of {}, expected the dump of a run of that "
        "graph",
        item.key.source, Printable(item.key.Name()), graph_.text.name));
  }
  if (!is_input) {
    return TakeMade(item, graph_.EntryOf(found->second, item.key.slot));
  }
  RunHashes::Hash& read = hashes_.read[found->second][item.key.slot];
  read = ComparableHash(item.hash);
  has_read_hashes_ |= read.has_value();
  return absl::OkStatus();
}

absl::Status DumpSurvey::TakeMade(const TensorItem& item, EntryId entry) {
  const RunHashes::Hash hash = ComparableHash(item.hash);
  hashes_.made[entry] = hash;
  has_[entry] = item.tensor != nullptr;
  why_absent_[entry] = item.why_absent;
  if (item.tensor == nullptr) return absl::OkStatus();
  const absl::Status status = CheckType(item, entry);
  if (!status.ok()) return status;
  const NDArray tensor = NDArray::Borrow(*item.tensor, nullptr);
  if (!hash.has_value() || HashBytes(tensor.data(), tensor.bytes()) == *hash) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("{}: tensor {} is not what the run made (its hash is another "
                  "one): the file has been changed",
                  item.key.source, Printable(item.key.Name())));
}

absl::Status DumpSurvey::CheckType(const TensorItem& item,
                                   EntryId entry) const {
  const GraphEntry& expected = graph_.entry(entry);
  const absl::Span<const int64_t> shape = ShapeOf(*item.tensor);
  const DLDataType dtype = item.tensor->dtype;
  // Files have TVM's older codes of some types.
  const bool fits = shape == absl::MakeConstSpan(expected.shape) &&
                    dtype.bits == expected.dtype.bits &&
                    dtype.lanes == expected.dtype.lanes;
  if (fits) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "{}: tensor {} is {}, expected {} as in {}", item.key.source,
      Printable(item.key.Name()), TypeToString(shape, dtype),
      TypeToString(expected.shape, expected.dtype), graph_.text.name));
}

bool DumpSurvey::HasReadHashesOf(NodeId node) const {
  const std::vector<RunHashes::Hash>& read = hashes_.read[node];
  return std::all_of(read.begin(), read.end(), [](const RunHashes::Hash& hash) {
    return hash.has_value();
  });
}

bool DumpSurvey::HasAll() const {
  return std::all_of(has_.begin(), has_.end(), [](bool one) { return one; });
}

std::string DumpSurvey::WhyNot(NodeId node) const {
  const auto why = [this](const char* role, size_t slot, EntryId entry) {
    return fmt::format("{} {} ({}): {}", role, slot, index_.KeyOf(entry),
                       why_absent_[entry]);
  };
  const std::vector<EntryRef>& refs = graph_.node(node).inputs;
  for (size_t slot = 0; slot < refs.size(); ++slot) {
    const EntryId entry = graph_.EntryOf(refs[slot]);
    if (!has_[entry]) return why("its input", slot, entry);
  }
  for (uint32_t slot = 0; slot < graph_.OutputsOf(node); ++slot) {
    const EntryId entry = graph_.EntryOf(node, slot);
    if (!has_[entry]) return why("its output", slot, entry);
  }
  return "";
}

}  // namespace nodewise
