// Dumps as sources: tensors, statistics and hashes joined by node and output.

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "contrib/tensors/dump_keys.h"
#include "contrib/tensors/sources.h"
#include "contrib/tensors/tensor_names.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Kind = NodeRecord::Kind;

constexpr size_t kMostNames = 8;

constexpr char kOnlyStats[] = "only its statistics were recorded";
constexpr char kOnlyHash[] = "only its hash was recorded";
constexpr char kCutOff[] = "the dump ends before it";

// A tensor that the file has, or should have.
struct FileTensor {
  TensorKey key;
  std::optional<uint32_t> node;  // Its number, if known.
  const NDArray* tensor = nullptr;
  bool is_joined = false;  // With a record.

  auto Place() const { return std::pair(*node, key.slot); }
};

// The parts of a tensor item that is handed out, without the pointers to other
// items. Many items have the name of one node, which may be long, so that they
// share it.
struct Item {
  const std::string* node = nullptr;
  uint32_t slot = 0;
  TensorRole role = TensorRole::kOutput;
  const NDArray* tensor = nullptr;
  const char* why_absent = "";
  const NodeRecord* record = nullptr;
  NodeTime time = {};
  std::optional<size_t> origin = {};  // The number of an item.
  bool is_network_input = false;
  bool has_channels_last = false;
};

// The items and the names that they point to.
struct Joined {
  std::vector<Item> items;
  std::map<uint32_t, std::string> keys;  // By node.
  std::list<std::string> names;          // Names that are in the file alone.
};

// What the files beside the tensors say of the graph.
struct DumpedGraph {
  std::vector<DumpNode> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> channels_last;  // Node, output.
};

// Puts the parts of a dump together.
class DumpJoiner {
 public:
  // Both must outlive it.
  DumpJoiner(const Dump& dump, const DumpedGraph& graph)
      : dump_(dump),
        nodes_(graph.nodes),
        keys_(NamesOf(dump, graph.nodes)),
        channels_last_(graph.channels_last.begin(), graph.channels_last.end()) {
  }

  Joined Join() {
    for (const NamedTensor& entry : dump_.tensors.tensors) {
      AddFileTensor(entry.name, &entry.tensor);
    }
    for (const std::string& name : dump_.missing) AddFileTensor(name, nullptr);
    for (size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].node.has_value()) by_place_[files_[i].Place()] = i;
    }
    for (const NodeRecord& record : dump_.records) {
      if (record.kind == Kind::kTime) times_[Index(record.node)] = record.time;
    }
    for (const NodeRecord& record : dump_.records) {
      if (record.kind == Kind::kInput) AddRead(record);
      if (record.kind == Kind::kOutput) AddMade(record);
    }
    AddUnrecorded();
    return std::move(joined_);
  }

 private:
  // The names in the tensors' file are as the graph has them; those in the JSON
  // text have lost bytes that are not UTF-8.
  static std::map<uint32_t, std::string> NamesOf(
      const Dump& dump, const std::vector<DumpNode>& nodes) {
    std::map<uint32_t, std::string> names;
    const auto add = [&names](const std::string& name) {
      const auto key = ParseDumpKey(name);
      if (key.ok() && key->has_topo_index) {
        names.emplace(key->topo_index, key->node);
      }
    };
    for (const NamedTensor& entry : dump.tensors.tensors) add(entry.name);
    for (const std::string& name : dump.missing) add(name);
    for (uint32_t i = 0; i < nodes.size(); ++i) names.emplace(i, nodes[i].name);
    return names;
  }

  void AddFileTensor(const std::string& name, const NDArray* tensor) {
    FileTensor file;
    file.key = {.node = name, .source = dump_.folder};
    file.tensor = tensor;
    const auto parts = ParseDumpKey(name);
    if (parts.ok()) {
      file.key.slot = parts->output;
      file.node =
          parts->has_topo_index ? parts->topo_index : keys_.Find(parts->node);
      if (file.node.has_value() &&
          keys_.IsCalledOtherwise(*file.node, parts->node)) {
        file.node.reset();
      }
      file.key.node =
          file.node.has_value() ? keys_.KeyOf(*file.node) : parts->node;
    }
    files_.push_back(std::move(file));
  }

  // A node that runs has a time; a graph's inputs do not, unless the run was
  // cut.
  bool IsNetworkInput(uint32_t node) const {
    if (node < nodes_.size()) return nodes_[node].is_input;
    return !dump_.records.empty() && !times_.contains(node);
  }

  Item ItemOf(const NodeRecord& record, TensorRole role) {
    const uint32_t node = Index(record.node);
    auto key = joined_.keys.find(node);
    if (key == joined_.keys.end()) {
      key = joined_.keys.emplace(node, keys_.KeyOf(node)).first;
    }
    return {.node = &key->second, .slot = record.slot, .role = role};
  }

  void AddRead(const NodeRecord& record) {
    Item item = ItemOf(record, TensorRole::kInput);
    item.why_absent = kOnlyHash;
    item.record = &record;
    item.time = TimeOf(Index(record.node));
    const auto made = made_.find(record.entry);
    if (made != made_.end()) {
      item.origin = made->second;
      item.has_channels_last = joined_.items[made->second].has_channels_last;
    }
    joined_.items.push_back(item);
  }

  void AddMade(const NodeRecord& record) {
    Item item = ItemOf(record, TensorRole::kOutput);
    item.record = &record;
    item.why_absent = record.has_stats ? kOnlyStats : kOnlyHash;
    const auto place =
        by_place_.find(std::pair(Index(record.node), record.slot));
    if (place != by_place_.end() && !files_[place->second].is_joined) {
      FileTensor& file = files_[place->second];
      file.is_joined = true;
      item.tensor = file.tensor;
      item.why_absent = file.tensor == nullptr ? kCutOff : "";
    }
    item.time = TimeOf(Index(record.node));
    item.is_network_input = IsNetworkInput(Index(record.node));
    item.has_channels_last =
        channels_last_.contains(std::pair(Index(record.node), record.slot));
    made_[record.entry] = joined_.items.size();
    joined_.items.push_back(item);
  }

  NodeTime TimeOf(uint32_t node) const {
    const auto found = times_.find(node);
    return found == times_.end() ? NodeTime() : found->second;
  }

  // TVM writes no records, and its tensors in no particular order: a run comes
  // to the inputs first and then to the nodes by their numbers.
  void AddUnrecorded() {
    std::stable_sort(files_.begin(), files_.end(),
                     [this](const FileTensor& a, const FileTensor& b) {
                       return OrderOf(a) < OrderOf(b);
                     });
    for (const FileTensor& file : files_) {
      if (file.is_joined) continue;
      Item item{.node = &joined_.names.emplace_back(file.key.node),
                .slot = file.key.slot};
      item.tensor = file.tensor;
      item.why_absent = file.tensor == nullptr ? kCutOff : "";
      if (file.node.has_value()) {
        item.time = TimeOf(*file.node);
        item.is_network_input = IsNetworkInput(*file.node);
        item.has_channels_last = channels_last_.contains(file.Place());
      }
      joined_.items.push_back(item);
    }
  }

  std::tuple<bool, bool, uint32_t, uint32_t> OrderOf(
      const FileTensor& file) const {
    if (!file.node.has_value()) return {true, false, 0, 0};
    return {false, !IsNetworkInput(*file.node), *file.node, file.key.slot};
  }

  const Dump& dump_;
  const std::vector<DumpNode>& nodes_;
  const DumpNodeKeys keys_;
  const std::set<std::pair<uint32_t, uint32_t>> channels_last_;
  std::vector<FileTensor> files_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> by_place_;  // Node, output.
  std::map<uint32_t, NodeTime> times_;                        // By node.
  std::map<EntryId, size_t> made_;                            // The item.
  Joined joined_;
};

class DumpSource final : public TensorSource {
 public:
  DumpSource(Dump dump, absl::Status names_status, const DumpedGraph& graph)
      : dump_(std::move(dump)),
        names_status_(std::move(names_status)),
        joined_(DumpJoiner(dump_, graph).Join()) {}
  // The items point into the dump.
  DumpSource(const DumpSource&) = delete;

  const std::string& name() const override { return dump_.folder; }
  absl::Status Visit(TensorSink& sink) override {
    if (joined_.items.empty()) return CheckComplete();
    for (const Item& item : joined_.items) {
      const TensorKey key = KeyOf(item);
      TensorItem view = View(item, key);
      std::optional<TensorKey> origin;
      if (item.origin.has_value()) {
        view.origin = &origin.emplace(KeyOf(joined_.items[*item.origin]));
      }
      NODEWISE_RETURN_IF_ERROR(sink.Take(view));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override;
  absl::Status CheckComplete() override;

 private:
  TensorKey KeyOf(const Item& item) const {
    return {*item.node, item.slot, item.role, dump_.folder};
  }
  // Returns all but the origin. `key` is the item's and must outlive the
  // result.
  static TensorItem View(const Item& item, const TensorKey& key);

  const Dump dump_;
  const absl::Status names_status_;
  const Joined joined_;
};

TensorItem DumpSource::View(const Item& item, const TensorKey& key) {
  TensorItem view{.key = key, .why_absent = item.why_absent};
  if (item.tensor != nullptr) {
    view.tensor = item.tensor->tensor();
    view.lasting = *item.tensor;
  }
  if (item.record != nullptr) {
    view.hash = item.record->hash();
    if (item.record->has_stats) view.stats = &item.record->stats;
  }
  view.time = item.time;
  view.is_network_input = item.is_network_input;
  view.has_channels_last = item.has_channels_last;
  return view;
}

absl::StatusOr<NDArray> DumpSource::Find(const TensorKey& key) {
  const std::vector<Item>& items = joined_.items;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    const TensorKey found = KeyOf(*item);
    if (found == key) return View(*item, found).Keep();
  }
  std::vector<std::string> names;
  for (const Item& item : items) {
    if (item.tensor == nullptr) continue;
    const TensorKey found = KeyOf(item);
    if (IsNameOf(key.Name(), found)) return View(item, found).Keep();
    names.push_back(found.Name());
  }
  return TensorNotFound(dump_.folder, key, names);
}

absl::Status DumpSource::CheckComplete() {
  if (dump_.is_cut && !dump_.has_tensors) {
    return absl::DataLossError(fmt::format(
        "{}: the run had not come to its end, expected a complete dump",
        dump_.folder));
  }
  if (dump_.is_cut && dump_.missing.empty()) {
    return absl::DataLossError(
        fmt::format("{}: is cut short before the first tensor, expected a "
                    "complete dump",
                    dump_.tensors_path));
  }
  if (dump_.is_cut) {
    return absl::DataLossError(
        fmt::format("{}: is cut short, {} missing, expected a complete "
                    "dump ({})",
                    dump_.tensors_path, CountOf(dump_.missing.size(), "tensor"),
                    ListOf(dump_.missing, kMostNames)));
  }
  NODEWISE_RETURN_IF_ERROR(dump_.records_status);
  return names_status_;
}

absl::StatusOr<std::vector<DumpNode>> ReadGraphDump(const std::string& path) {
  const auto file = MappedFile::Open(path);
  // Without the file the tensors have their names, and statistics numbers.
  if (absl::IsNotFound(file.status())) return std::vector<DumpNode>();
  NODEWISE_RETURN_IF_ERROR(file.status());
  return ParseGraphDump(file->text(), path);
}

// Without a sound graph of ours nothing is known of any layout; one that is
// there and cannot be read is an error.
absl::StatusOr<std::vector<std::pair<uint32_t, uint32_t>>> ChannelsLastIn(
    const std::string& path) {
  std::vector<std::pair<uint32_t, uint32_t>> found;
  auto text = GraphText::FromFile(path);
  if (absl::IsNotFound(text.status())) return found;
  NODEWISE_RETURN_IF_ERROR(text.status());
  const auto graph = ParseGraph(*std::move(text));
  if (!graph.ok()) return found;
  for (uint32_t n = 0; n < graph->nodes.size(); ++n) {
    if (!graph->IsFunction(NodeId{n})) continue;
    for (uint32_t i = 0; i < graph->OutputsOf(NodeId{n}); ++i) {
      if (HasChannelsLast(*graph, {n, i, 0})) found.emplace_back(n, i);
    }
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> OpenDumpSource(
    const std::string& path) {
  const WorkingOn on(path);
  NODEWISE_ASSIGN_OR_RETURN(Dump dump, OpenDump(path));
  const auto nodes = ReadGraphDump(dump.folder + "/" + kGraphDumpFile);
  DumpedGraph graph;
  if (nodes.ok()) graph.nodes = *nodes;
  NODEWISE_ASSIGN_OR_RETURN(
      graph.channels_last,
      ChannelsLastIn(dump.folder + "/" + kSourceGraphFile));
  return std::make_unique<DumpSource>(std::move(dump), nodes.status(), graph);
}

}  // namespace nodewise
