#include <algorithm>
#include <list>
#include <set>
#include <tuple>

#include "contrib/tensors/sources.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Dumps as sources: tensors, statistics and hashes joined by node and output.

using Kind = NodeRecord::Kind;

constexpr size_t kMostMissing = 8;

// Why an item has no tensor; a reader sees these words.
constexpr char kOnlyStats[] = "only its statistics were recorded";
constexpr char kOnlyHash[] = "only its hash was recorded";
constexpr char kCutOff[] = "the dump ends before it";

// A tensor that the file has, or should have.
struct FileTensor {
  TensorKey key;
  std::optional<uint32_t> node = {};  // Its number, if known.
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

struct Joined {
  std::vector<Item> items;
  std::map<uint32_t, std::string> keys;  // By node.
  std::list<std::string> names;          // Names that are in the file alone.
};

// The graph as far as the files beside the tensors tell of it.
struct DumpedGraph {
  std::vector<DumpNode> nodes;
  std::set<std::pair<uint32_t, uint32_t>> channels_last;  // Node, output.
};

// Puts the parts of a dump together. A dump has up to four accounts of one
// tensor: its contents in the tensors' file, its statistics and hash in the
// records, the time of its node there, and the names in the graph. They are
// joined by the numbers of node and output. Where a number is not known, as in
// files of TVM 0.8, the name takes its place if only one node has it.
class DumpJoiner {
 public:
  // Both must outlive it.
  DumpJoiner(const Dump& dump, const DumpedGraph& graph)
      : dump_(dump), graph_(graph), keys_(NamesOf(dump, graph.nodes)) {}

  Joined Join() {
    for (const NamedTensor& entry : dump_.tensors.tensors) {
      AddFileTensor(entry.name, &entry.tensor);
    }
    for (const std::string& name : dump_.missing) AddFileTensor(name, nullptr);
    for (size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].node) by_place_[files_[i].Place()] = i;
    }
    // Times are gathered first, since a node's time is recorded after what it
    // has read.
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

  // A name that does not come apart is a key by itself. A number whose node is
  // called otherwise in the graph is not believed.
  void AddFileTensor(const std::string& name, const NDArray* tensor) {
    FileTensor file{.key = {.node = name, .source = dump_.folder},
                    .tensor = tensor};
    const auto parts = ParseDumpKey(name);
    if (parts.ok()) {
      file.key.slot = parts->output;
      file.node =
          parts->has_topo_index ? parts->topo_index : keys_.Find(parts->node);
      if (file.node && keys_.HasOtherName(*file.node, parts->node)) {
        file.node.reset();
      }
      file.key.node = file.node ? keys_.KeyOf(*file.node) : parts->node;
    }
    files_.push_back(std::move(file));
  }

  // A node that runs has a time; a graph's inputs do not, unless the run was
  // cut.
  bool IsNetworkInput(uint32_t node) const {
    if (node < graph_.nodes.size()) return graph_.nodes[node].is_input;
    return !dump_.records.empty() && !times_.contains(node);
  }

  // The key of a node is made once: a dump has many items of each node.
  Item ItemOf(const NodeRecord& record, TensorRole role) {
    const uint32_t node = Index(record.node);
    const auto [key, is_new] = joined_.keys.try_emplace(node);
    if (is_new) key->second = keys_.KeyOf(node);
    return {.node = &key->second, .slot = record.slot, .role = role};
  }

  // Only the hash is recorded of what a node reads. The item that made it comes
  // before it in the run, and its hash shows whether something has written over
  // it since.
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
    item.has_channels_last = graph_.channels_last.contains(
        std::pair(Index(record.node), record.slot));
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
    std::ranges::stable_sort(files_,
                             [this](const FileTensor& a, const FileTensor& b) {
                               return OrderOf(a) < OrderOf(b);
                             });
    for (const FileTensor& file : files_) {
      if (file.is_joined) continue;
      Item item{.node = &joined_.names.emplace_back(file.key.node),
                .slot = file.key.slot};
      item.tensor = file.tensor;
      item.why_absent = file.tensor == nullptr ? kCutOff : "";
      if (file.node) {
        item.time = TimeOf(*file.node);
        item.is_network_input = IsNetworkInput(*file.node);
        item.has_channels_last = graph_.channels_last.contains(file.Place());
      }
      joined_.items.push_back(item);
    }
  }

  // Tensors whose node is not known come last, in the order of the file.
  std::tuple<bool, bool, uint32_t, uint32_t> OrderOf(
      const FileTensor& file) const {
    if (!file.node) return {true, false, 0, 0};
    return {false, !IsNetworkInput(*file.node), *file.node, file.key.slot};
  }

  const Dump& dump_;
  const DumpedGraph& graph_;
  const DumpNodeKeys keys_;
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
      if (item.origin) {
        view.origin = &origin.emplace(KeyOf(joined_.items[*item.origin]));
      }
      NODEWISE_RETURN_IF_ERROR(sink.Consume(view));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
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
  absl::Status CheckComplete() override {
    if (!dump_.is_cut) {
      NODEWISE_RETURN_IF_ERROR(dump_.records_status);
      return names_status_;
    }
    if (!dump_.has_tensors) {
      return DataLoss(
          "{}: the run had not come to its end, expected a complete dump",
          dump_.folder);
    }
    if (dump_.missing.empty()) {
      return DataLoss(
          "{}: is cut short before the first tensor, expected a complete dump",
          dump_.tensors_path);
    }
    return DataLoss(
        "{}: is cut short, {} missing, expected a complete dump ({})",
        dump_.tensors_path, CountOf(dump_.missing.size(), "tensor"),
        ListOf(dump_.missing, kMostMissing));
  }

 private:
  TensorKey KeyOf(const Item& item) const {
    return {*item.node, item.slot, item.role, dump_.folder};
  }
  // Returns all but the origin. `key` is the item's and must outlive the
  // result.
  static TensorItem View(const Item& item, const TensorKey& key) {
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

  const Dump dump_;
  const absl::Status names_status_;
  const Joined joined_;
};

absl::StatusOr<std::vector<DumpNode>> ReadGraphDump(const std::string& path) {
  const auto file = MappedFile::Open(path);
  // Without the file the tensors have their names, and statistics numbers.
  if (absl::IsNotFound(file.status())) return std::vector<DumpNode>();
  NODEWISE_RETURN_IF_ERROR(file.status());
  return ParseGraphDump(file->text(), path);
}

// Without a sound graph of ours nothing is known of any layout; one that is
// there and cannot be read is an error.
absl::StatusOr<std::set<std::pair<uint32_t, uint32_t>>> ChannelsLastIn(
    const std::string& path) {
  std::set<std::pair<uint32_t, uint32_t>> found;
  auto text = GraphText::FromFile(path);
  if (absl::IsNotFound(text.status())) return found;
  NODEWISE_RETURN_IF_ERROR(text.status());
  const auto graph = ParseGraph(*std::move(text));
  if (!graph.ok()) return found;
  for (uint32_t n = 0; n < graph->nodes.size(); ++n) {
    if (!graph->IsFunction(NodeId{n})) continue;
    for (uint32_t i = 0; i < graph->OutputsOf(NodeId{n}); ++i) {
      if (HasChannelsLast(*graph, {n, i, 0})) found.emplace(n, i);
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
