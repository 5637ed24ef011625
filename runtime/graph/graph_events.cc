#include "runtime/graph/graph_events.h"

#include <utility>

#include "fmt/format.h"

namespace nodewise {
namespace {

struct KeyRow {
  Place place;
  std::string_view key;
  uint32_t seen;
};

constexpr KeyRow kKeys[] = {
    {Place::kTop, "nodes", kSeenNodes},
    {Place::kTop, "arg_nodes", kSeenArgNodes},
    {Place::kTop, "heads", kSeenHeads},
    {Place::kTop, "attrs", kSeenAttrs},
    {Place::kTop, "node_row_ptr", kSeenRowPtr},
    {Place::kNode, "op", kSeenOp},
    {Place::kNode, "name", kSeenName},
    {Place::kNode, "inputs", kSeenInputs},
    {Place::kNode, "attrs", kSeenAttrs},
    {Place::kNode, "attr", kSeenAttrs},
    {Place::kNode, "control_deps", kSeenControlDeps},
    {Place::kNodeAttrs, "func_name", kSeenFunction},
    {Place::kNodeAttrs, "num_inputs", kSeenNumInputs},
    {Place::kNodeAttrs, "num_outputs", kSeenNumOutputs},
    {Place::kNodeAttrs, "flatten_data", kSeenFlatten},
    {Place::kGraphAttrs, "shape", kSeenShape},
    {Place::kGraphAttrs, "dltype", kSeenDType},
    {Place::kGraphAttrs, "storage_id", kSeenStorageId},
    {Place::kGraphAttrs, "device_index", kSeenDeviceIndex},
    {Place::kGraphAttrs, "storage_scope", kSeenScope},
};

}  // namespace

// Counts memory against the budget, a maximum for each byte of text; only a
// file made to fill the memory takes more.
void GraphEvents::Charge(size_t bytes) {
  if (bytes <= budget_) {
    budget_ -= bytes;
    return;
  }
  if (!stopped_) AddDiagnostic("", "an unreasonable number of items", "", "");
  stopped_ = true;
}

std::string GraphEvents::Path() const {
  std::string path;
  for (size_t i = 0; i < depth_; ++i) {
    path += frames_[i].is_array ? fmt::format("/{}", frames_[i].index)
                                : "/" + keys_[i];
  }
  return path;
}

void GraphEvents::AddDiagnostic(const std::string& path_end, std::string found,
                                std::string expected, std::string hint,
                                Severity severity) {
  diagnostics_->Add({severity, text_.name, Path() + path_end, 0, 0,
                     std::move(found), std::move(expected), std::move(hint)});
}

void GraphEvents::AddListDiagnostic(std::string found, std::string expected) {
  const std::string path = Path();
  diagnostics_->Add({Severity::kError, text_.name,
                     path.substr(0, path.rfind('/')), 0, 0, std::move(found),
                     std::move(expected), ""});
}

// Returns what may come at the reader's place, for messages.
const char* GraphEvents::Expected() const {
  if (depth_ == 0) return "an object (is this the graph's text?)";
  switch (frames_[depth_ - 1].place) {
    case Place::kTop:
    case Place::kNode:
    case Place::kGraphAttrs: {
      const std::string& key = keys_[depth_ - 1];
      if (key == "op" || key == "name") return "a string";
      if (key == "attrs" || key == "attr") return "an object";
      return frames_[depth_ - 1].place == Place::kGraphAttrs
                 ? "a pair of a type tag and a value"
                 : "an array";
    }
    case Place::kNodes:
      return "an object with op, name and inputs";
    case Place::kNodeInputs:
    case Place::kHeads:
      return "a node entry: [node, output] or [node, output, version]";
    case Place::kNodeAttrs:
    case Place::kScopes:
      return "a string";
    case Place::kDTypes:
      return "a type such as \"float32\"";
    case Place::kAttrPair:
      return frames_[depth_ - 1].index == 0 ? "a type tag such as \"list_int\""
                                            : "an array";
    case Place::kShapes:
      return "an array of dimensions";
    case Place::kShape:
    case Place::kStorageIds:
    case Place::kDeviceTypes:
      return "a whole number";
    default:
      return "a number that is not negative";
  }
}

bool GraphEvents::Key(std::string& name) {
  if (skip_depth_ > 0) return true;
  const Place place = top().place;
  value_start_ = cursor_.offset();
  std::swap(keys_[depth_ - 1], name);
  const std::string& key = keys_[depth_ - 1];
  for (const KeyRow& row : kKeys) {
    if (row.place != place || row.key != key) continue;
    uint32_t& seen = place == Place::kTop         ? seen_top_
                     : place == Place::kNode      ? seen_node_
                     : place == Place::kNodeAttrs ? seen_node_attrs_
                                                  : seen_attrs_;
    if (seen & row.seen) {
      AddDiagnostic(
          "", fmt::format("the key \"{}\" for the second time", Shortened(key)),
          "", "");
    }
    seen |= row.seen;
    return true;
  }
  // Every key of a node's attributes is welcome.
  skip_next_ = place != Place::kNodeAttrs;
  return true;
}

bool GraphEvents::Open(bool is_array) {
  if (stopped_) return false;
  if (depth_ + skip_depth_ == kMostNesting) {
    AddDiagnostic("", "arrays and objects one in the other",
                  fmt::format("at most {} of them", kMostNesting), "");
    stopped_ = true;
    return false;
  }
  if (skip_depth_ > 0 || skip_next_) {
    ++skip_depth_;
    return true;
  }
  Place place;
  if (!PlaceFor(is_array, &place)) {
    AddDiagnostic("", is_array ? "an array" : "an object", Expected(), "");
    ++skip_depth_;
    return true;
  }
  if (place == Place::kNode) {
    Charge(kNodeCost);
    graph_->nodes.emplace_back();
    seen_node_ = 0;
    seen_node_attrs_ = 0;
  }
  if (place == Place::kEntryRef) entry_ref_ = EntryRef{};
  if (place == Place::kShape) {
    Charge(kShapeCost);
    lists_->shapes.emplace_back();
  }
  Push(place, is_array);
  return true;
}

// Finds the place that an array or object opens; returns false if there is
// none.
bool GraphEvents::PlaceFor(bool is_array, Place* place) {
  if (depth_ == 0) {
    *place = Place::kTop;
    return !is_array;
  }
  switch (top().place) {
    case Place::kTop:
    case Place::kNode:
      if (!PlaceOfKey(place)) return false;
      return is_array !=
             (*place == Place::kNodeAttrs || *place == Place::kGraphAttrs);
    case Place::kNodes:
      *place = Place::kNode;
      return !is_array;
    case Place::kNodeInputs:
    case Place::kHeads:
      *place = Place::kEntryRef;
      return is_array;
    case Place::kGraphAttrs:
      *place = Place::kAttrPair;
      tag_.clear();
      return is_array;
    case Place::kAttrPair:
      return is_array && top().index == 1 && PlaceOfAttr(place);
    case Place::kShapes:
      *place = Place::kShape;
      return is_array;
    default:
      return false;
  }
}

bool GraphEvents::PlaceOfKey(Place* place) {
  constexpr std::pair<std::string_view, Place> kTopPlaces[] = {
      {"nodes", Place::kNodes},
      {"arg_nodes", Place::kArgNodes},
      {"heads", Place::kHeads},
      {"attrs", Place::kGraphAttrs},
      {"node_row_ptr", Place::kRowPtr}};
  constexpr std::pair<std::string_view, Place> kNodePlaces[] = {
      {"inputs", Place::kNodeInputs},
      {"attrs", Place::kNodeAttrs},
      {"attr", Place::kNodeAttrs},
      {"control_deps", Place::kControlDeps}};
  const std::string& key = keys_[depth_ - 1];
  const auto find = [&](const auto& rows) {
    for (const auto& [name, found] : rows) {
      if (name != key) continue;
      *place = found;
      return true;
    }
    return false;
  };
  return top().place == Place::kTop ? find(kTopPlaces) : find(kNodePlaces);
}

// Finds the list that the current attribute holds. Its tag was checked before.
bool GraphEvents::PlaceOfAttr(Place* place) {
  const std::string& key = keys_[depth_ - 2];
  if (key == "shape") *place = Place::kShapes;
  if (key == "dltype") *place = Place::kDTypes;
  if (key == "storage_id") *place = Place::kStorageIds;
  if (key == "device_index") *place = Place::kDeviceTypes;
  if (key == "storage_scope") *place = Place::kScopes;
  // A doubled key was reported; the last one counts, as in TVM.
  if (key == "shape") lists_->shapes.clear(), lists_->has_shapes = true;
  if (key == "dltype") lists_->dtypes.clear(), lists_->has_dtypes = true;
  if (key == "storage_id") {
    lists_->storage_ids.clear(), lists_->has_storage_ids = true;
  }
  if (key == "device_index") {
    lists_->device_types.clear(), lists_->has_device_types = true;
  }
  if (key == "storage_scope") {
    lists_->scopes.clear(), lists_->has_scopes = true;
  }
  return true;
}

bool GraphEvents::Close() {
  if (skip_depth_ > 0) {
    if (--skip_depth_ == 0) {
      FinishSkipped();
      ItemDone();
    }
    return !stopped_;
  }
  const Place place = top().place;
  if (place == Place::kAttrPair && top().index != 2) {
    AddListDiagnostic(fmt::format("{} items", top().index),
                      "a pair of a type tag and a value");
  }
  if (place == Place::kEntryRef) FinishEntryRef();
  --depth_;
  if (place == Place::kNode) FinishNode();
  if (place == Place::kNodeAttrs) FinishNodeAttrs();
  if (place == Place::kTop) FinishTop();
  ItemDone();
  return !stopped_;
}

void GraphEvents::ItemDone() {
  skip_next_ = false;
  if (InArray()) ++top().index;
}

bool GraphEvents::Scalar(const char* written) {
  if (stopped_) return false;
  if (skip_depth_ > 0) return true;
  // Unknown keys with plain values mean nothing to the graph.
  if (!skip_next_) AddDiagnostic("", written, Expected(), "");
  ItemDone();
  return true;
}

bool GraphEvents::Number(int64_t value) {
  if (stopped_) return false;
  if (skip_depth_ > 0) return true;
  if (!skip_next_ && depth_ > 0) {
    TakeNumber(value);
  } else if (!skip_next_) {
    return Scalar(std::to_string(value).c_str());
  }
  ItemDone();
  return !stopped_;
}

bool GraphEvents::String(std::string& value) {
  if (stopped_) return false;
  if (skip_depth_ > 0) return true;
  if (!skip_next_ && depth_ > 0) {
    TakeString(value);
  } else if (!skip_next_) {
    return Scalar("a string");
  }
  ItemDone();
  return !stopped_;
}

}  // namespace nodewise
