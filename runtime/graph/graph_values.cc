#include <algorithm>
#include <unordered_set>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "runtime/graph/graph_events.h"

namespace nodewise {

// Keeps the raw text of an unknown graph attribute.
void GraphEvents::FinishSkipped() {
  if (!skip_next_ || depth_ == 0 || top().place != Place::kGraphAttrs) return;
  std::string_view raw =
      cursor_.text().substr(value_start_, cursor_.offset() - value_start_);
  raw.remove_prefix(std::min(raw.find_first_not_of(": \t\r\n"), raw.size()));
  Charge(raw.size() + 2 * kStringCost);
  graph_->other_attrs.emplace_back(keys_[depth_ - 1], raw);
}

uint32_t GraphEvents::TakeIndex(int64_t value) {
  if (value >= 0 && value <= INT32_MAX) return static_cast<uint32_t>(value);
  AddDiagnostic("", std::to_string(value), "a number from 0 to 2147483647", "");
  return 0;
}

void GraphEvents::TakeNumber(int64_t value) {
  switch (top().place) {
    case Place::kArgNodes:
      Charge(kNumberCost);
      graph_->arg_nodes.push_back(TakeIndex(value));
      return;
    case Place::kRowPtr:
      Charge(kNumberCost);
      graph_->node_row_ptr.push_back(TakeIndex(value));
      return;
    case Place::kControlDeps:
      Charge(kNumberCost);
      graph_->nodes.back().control_deps.push_back(TakeIndex(value));
      return;
    case Place::kEntryRef: {
      uint32_t* const fields[] = {&entry_ref_.node, &entry_ref_.output,
                                  &entry_ref_.version};
      if (top().index < 3) *fields[top().index] = TakeIndex(value);
      return;
    }
    case Place::kShape:
      Charge(kNumberCost);
      lists_->shapes.back().push_back(value);
      return;
    case Place::kStorageIds:
      Charge(kNumberCost);
      lists_->storage_ids.push_back(value);
      return;
    case Place::kDeviceTypes:
      Charge(kNumberCost);
      lists_->device_types.push_back(value);
      return;
    default:
      AddDiagnostic("", std::to_string(value), Expected(), "");
  }
}

void GraphEvents::TakeString(std::string& value) {
  switch (top().place) {
    case Place::kNode:
      return TakeNodeField(value);
    case Place::kNodeAttrs:
      return TakeNodeAttr(value);
    case Place::kAttrPair:
      if (top().index == 0) return TakeTag(value);
      return AddDiagnostic("", "a string", Expected(), "");
    case Place::kDTypes:
      return TakeDType(value);
    case Place::kScopes:
      Charge(kStringCost);
      lists_->scopes.push_back(std::move(value));
      return;
    default:
      AddDiagnostic("", "a string", Expected(), "");
  }
}

void GraphEvents::TakeNodeField(std::string& value) {
  GraphNode& node = graph_->nodes.back();
  const std::string& key = keys_[depth_ - 1];
  if (key == "name") {
    std::swap(node.name, value);
  } else if (key == "op" && (value == "null" || value == "tvm_op")) {
    node.kind =
        value == "null" ? GraphNode::Kind::kInput : GraphNode::Kind::kFunction;
  } else if (key == "op") {
    AddDiagnostic("", fmt::format("the op \"{}\"", Shortened(value)),
                  "\"null\" or \"tvm_op\"", "");
  } else {
    AddDiagnostic("", "a string", Expected(), "");
  }
}

void GraphEvents::TakeDType(const std::string& value) {
  Charge(3 * sizeof(DLDataType));
  if (value != dtype_text_) {
    const auto dtype = ParseDType(value);
    if (!dtype.ok()) {
      AddDiagnostic("", fmt::format("the type \"{}\"", Shortened(value)),
                    Expected(), "");
    }
    dtype_ = dtype.value_or(DLDataType{});
    dtype_text_ = value;
  }
  lists_->dtypes.push_back(dtype_);
}

uint32_t GraphEvents::ParseCount(const std::string& value) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number <= INT32_MAX) return number;
  AddDiagnostic("", fmt::format("\"{}\"", Shortened(value)),
                "a string that holds a number from 0 to 2147483647", "");
  return 0;
}

void GraphEvents::TakeNodeAttr(std::string& value) {
  GraphNode& node = graph_->nodes.back();
  const std::string& key = keys_[depth_ - 1];
  if (key == "func_name") {
    std::swap(node.function, value);
  } else if (key == "num_inputs") {
    node.num_inputs = ParseCount(value);
  } else if (key == "num_outputs") {
    node.num_outputs = ParseCount(value);
  } else if (key == "flatten_data") {
    node.flatten = ParseCount(value) != 0;
  } else {
    Charge(2 * kStringCost);
    node.attrs.emplace_back(key, std::move(value));
  }
}

void GraphEvents::TakeTag(const std::string& tag) {
  constexpr std::pair<std::string_view, std::string_view> kTags[] = {
      {"shape", "list_shape"},
      {"dltype", "list_str"},
      {"storage_id", "list_int"},
      {"device_index", "list_int"},
      {"storage_scope", "list_str"}};
  const std::string& key = keys_[depth_ - 2];
  for (const auto& [name, wanted] : kTags) {
    if (name != key || tag == wanted) continue;
    AddDiagnostic("", fmt::format("the tag \"{}\"", Shortened(tag)),
                  fmt::format("\"{}\"", wanted), "");
  }
}

void GraphEvents::FinishEntryRef() {
  const uint32_t count = top().index;
  if (count != 2 && count != 3) {
    AddListDiagnostic(
        fmt::format("{} numbers", count),
        "a node entry: [node, output] or [node, output, version]");
  }
  Charge(3 * sizeof(EntryRef));
  const Place list = frames_[depth_ - 2].place;
  (list == Place::kHeads ? graph_->heads : graph_->nodes.back().inputs)
      .push_back(entry_ref_);
}

void GraphEvents::Missing(uint32_t seen, uint32_t bit, const char* path_end) {
  if ((seen & bit) == 0) {
    AddDiagnostic(path_end, "nothing", fmt::format("the key {}", path_end + 1),
                  "");
  }
}

// An input need not say how many inputs and outputs it has, but what it says
// must be true. TVM never looks at it.
void GraphEvents::FinishInput() {
  GraphNode& node = graph_->nodes.back();
  const size_t num_inputs = node.inputs.size();
  if ((seen_node_attrs_ & kSeenNumInputs) != 0 &&
      node.num_inputs != num_inputs) {
    AddDiagnostic("/attrs/num_inputs", std::to_string(node.num_inputs),
                  fmt::format("{}, the number of its inputs", num_inputs), "");
  }
  if ((seen_node_attrs_ & kSeenNumOutputs) != 0 && node.num_outputs != 1) {
    AddDiagnostic("/attrs/num_outputs", std::to_string(node.num_outputs),
                  "1, as every input has", "");
  }
  node.num_inputs = static_cast<uint32_t>(num_inputs);
  node.num_outputs = 1;
}

void GraphEvents::FinishNode() {
  GraphNode& node = graph_->nodes.back();
  Missing(seen_node_, kSeenOp, "/op");
  Missing(seen_node_, kSeenName, "/name");
  if (node.kind == GraphNode::Kind::kInput) return FinishInput();
  Missing(seen_node_, kSeenInputs, "/inputs");
  if ((seen_node_ & kSeenAttrs) == 0) {
    AddDiagnostic("/attrs", "nothing", "the key attrs", "");
    return;
  }
  Missing(seen_node_attrs_, kSeenFunction, "/attrs/func_name");
  Missing(seen_node_attrs_, kSeenNumInputs, "/attrs/num_inputs");
  Missing(seen_node_attrs_, kSeenNumOutputs, "/attrs/num_outputs");
  Missing(seen_node_attrs_, kSeenFlatten, "/attrs/flatten_data");
}

void GraphEvents::FinishNodeAttrs() {
  auto& attrs = graph_->nodes.back().attrs;
  if (attrs.size() < 2) return;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, value] : attrs) {
    if (names.insert(name).second) continue;
    AddDiagnostic(
        "/" + name,
        fmt::format("the key \"{}\" for the second time", Shortened(name)), "",
        "");
  }
}

void GraphEvents::FinishTop() {
  Missing(seen_top_, kSeenNodes, "/nodes");
  Missing(seen_top_, kSeenArgNodes, "/arg_nodes");
  Missing(seen_top_, kSeenHeads, "/heads");
  Missing(seen_top_, kSeenAttrs, "/attrs");
  Missing(seen_top_, kSeenRowPtr, "/node_row_ptr");
  if ((seen_top_ & kSeenAttrs) == 0) return;
  Missing(seen_attrs_, kSeenShape, "/attrs/shape");
  Missing(seen_attrs_, kSeenDType, "/attrs/dltype");
  Missing(seen_attrs_, kSeenStorageId, "/attrs/storage_id");
}

}  // namespace nodewise
