// How the nodes and the tensors of a dump are called.

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "contrib/tensors/sources.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dump_key.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Picks the nodes' names out of the events of nlohmann's parser, so that no
// tree of the whole file is made. Stops at what no debug run writes. A dump of
// a large network is mostly this text, of which only two words a node are
// needed.
class GraphDumpEvents {
 public:
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool string(std::string& value) {
    if (depth_ == kInNode && is_in_nodes_) {
      if (key_ == "name") {
        nodes_.back().name = std::move(value);
        has_name_ = true;
      } else if (key_ == "op") {
        nodes_.back().is_input = value == "param" || value == "null";
      }
    }
    return true;
  }
  bool key(std::string& name) {
    if (depth_ <= kInNode) key_ = std::move(name);
    return true;
  }
  bool start_object(size_t) {
    if (++depth_ == kInNode && is_in_nodes_) {
      nodes_.emplace_back();
      has_name_ = false;
    }
    return true;
  }
  bool end_object() {
    // Every node has a name; a file without them could not grow the list.
    return depth_-- != kInNode || !is_in_nodes_ || has_name_;
  }
  bool start_array(size_t) {
    // The items of the list must be nodes.
    if (depth_ == kInList && is_in_nodes_) return false;
    if (++depth_ == kInList) {
      is_in_nodes_ = key_ == "nodes" && !has_nodes_;
      has_nodes_ = has_nodes_ || is_in_nodes_;
    }
    return true;
  }
  bool end_array() {
    if (depth_-- == kInList) is_in_nodes_ = false;
    return true;
  }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::json::exception&) {
    return false;
  }

  bool has_nodes() const { return has_nodes_; }
  std::vector<DumpNode> TakeNodes() { return std::move(nodes_); }

 private:
  // How deep one is in the outermost object's "nodes", and in one of these.
  static constexpr int kInList = 2;
  static constexpr int kInNode = 3;

  int depth_ = 0;
  std::string key_;
  bool is_in_nodes_ = false;
  bool has_nodes_ = false;
  bool has_name_ = false;
  std::vector<DumpNode> nodes_;
};

}  // namespace

absl::StatusOr<std::vector<DumpNode>> ParseGraphDump(std::string_view text,
                                                     const std::string& where) {
  GraphDumpEvents events;
  const bool is_read = nlohmann::json::sax_parse(text, &events);
  if (is_read && events.has_nodes()) return events.TakeNodes();
  return DataLoss(
      "{}: is not a graph of a dump, expected JSON with nodes that have names",
      where);
}

DumpNodeKeys::DumpNodeKeys(std::map<uint32_t, std::string> names)
    : names_(std::move(names)) {
  for (const auto& [node, name] : names_) nodes_[name].push_back(node);
}

// GraphIndex makes its keys in this way, and the keys of a dump must be those
// of its graph.
std::string DumpNodeKeys::KeyOf(uint32_t node) const {
  const auto found = names_.find(node);
  if (found == names_.end()) return fmt::format("#{}", node);
  std::string key = found->second;
  // A node may be called "a#1" while two others are called "a".
  bool is_taken = nodes_.at(key).size() > 1;
  while (is_taken) {
    key += fmt::format("#{}", node);
    is_taken = nodes_.contains(key);
  }
  return key;
}

std::optional<uint32_t> DumpNodeKeys::Find(const std::string& name) const {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.size() > 1) return std::nullopt;
  return found->second[0];
}

bool DumpNodeKeys::HasOtherName(uint32_t node, const std::string& name) const {
  const auto found = names_.find(node);
  return found != names_.end() && found->second != name;
}

// One name that is not of a dump's form, or two names for one node, show that
// the file is not from a dump, and then all names stay whole.
std::vector<TensorKey> KeysOfNames(absl::Span<const std::string> names,
                                   const std::string& source) {
  std::vector<TensorKey> keys;
  for (const std::string& name : names) {
    keys.push_back({.node = name, .source = source});
  }
  std::vector<DumpKey> parts;
  std::map<uint32_t, std::string> nodes;
  for (const std::string& name : names) {
    auto key = ParseDumpKey(name);
    if (!key.ok() || !key->has_topo_index) return keys;
    const auto [place, is_new] = nodes.emplace(key->topo_index, key->node);
    if (!is_new && place->second != key->node) return keys;
    parts.push_back(*std::move(key));
  }
  const DumpNodeKeys node_keys(std::move(nodes));
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i].node = node_keys.KeyOf(parts[i].topo_index);
    keys[i].slot = parts[i].output;
  }
  return keys;
}

}  // namespace nodewise
