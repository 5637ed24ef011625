#include "runtime/graph/graph_reader.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "nodewise/runtime/dtype.h"
#include "nodewise/support/check.h"
#include "runtime/graph/json_cursor.h"

namespace nodewise {
namespace {

// Where in the document the reader stands.
enum class Place : uint8_t {
  kTop,
  kNodes,
  kNode,
  kNodeInputs,
  kNodeAttrs,
  kControlDeps,
  kArgNodes,
  kHeads,
  kEntryRef,
  kRowPtr,
  kGraphAttrs,
  kAttrPair,
  kShapes,
  kShape,
  kDTypes,
  kStorageIds,
  kDeviceTypes,
  kScopes,
};

struct Frame {
  Place place;
  bool is_array;
  uint32_t index = 0;  // Of the current item of an array.
};

// The depth of the deepest place: top, nodes, node, inputs, reference.
constexpr size_t kMostFrames = 8;

// Keys that were met in an object, for what is missing or doubled.
enum : uint32_t {
  kSeenNodes = 1 << 0,
  kSeenArgNodes = 1 << 1,
  kSeenHeads = 1 << 2,
  kSeenAttrs = 1 << 3,
  kSeenRowPtr = 1 << 4,
  kSeenOp = 1 << 5,
  kSeenName = 1 << 6,
  kSeenInputs = 1 << 7,
  kSeenFunction = 1 << 8,
  kSeenNumInputs = 1 << 9,
  kSeenNumOutputs = 1 << 10,
  kSeenFlatten = 1 << 11,
  kSeenControlDeps = 1 << 12,
  kSeenShape = 1 << 13,
  kSeenDType = 1 << 14,
  kSeenStorageId = 1 << 15,
  kSeenDeviceIndex = 1 << 16,
  kSeenScope = 1 << 17,
};

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

// Roughly what an item costs in memory at worst, with the room that a growing
// vector wastes; see Charge.
constexpr size_t kNodeCost = 3 * sizeof(GraphNode);
constexpr size_t kStringCost = 3 * sizeof(std::string);
constexpr size_t kShapeCost = 3 * sizeof(std::vector<int64_t>);
constexpr size_t kNumberCost = 3 * sizeof(int64_t);

class Reader {
 public:
  Reader(const GraphText& text, Graph* graph, GraphLists* lists,
         FaultList* faults)
      : text_(text),
        cursor_(text.text),
        graph_(graph),
        lists_(lists),
        faults_(faults),
        budget_(9 * text.text.size() + (size_t{32} << 20)) {}

  bool Read() {
    const bool is_json =
        nlohmann::json::sax_parse(cursor_.begin(), cursor_.end(), this,
                                  nlohmann::json::input_format_t::json,
                                  /*strict=*/true, /*ignore_comments=*/false);
    return is_json && !stopped_;
  }

  // The interface that the parser calls. False ends the reading.
  bool null() { return Scalar("null"); }
  bool boolean(bool value) { return Scalar(value ? "true" : "false"); }
  bool number_integer(int64_t value) { return Number(value); }
  bool number_unsigned(uint64_t value) {
    if (value > INT64_MAX) return Scalar(std::to_string(value).c_str());
    return Number(static_cast<int64_t>(value));
  }
  bool number_float(double, const std::string& written) {
    return Scalar(written.c_str());
  }
  bool string(std::string& value);
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(false); }
  bool start_array(size_t) { return Open(true); }
  bool key(std::string& name);
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error);

 private:
  Frame& top() { return frames_[depth_ - 1]; }
  bool InArray() const { return depth_ > 0 && frames_[depth_ - 1].is_array; }
  void Push(Place place, bool is_array) {
    NODEWISE_CHECK(depth_ < kMostFrames);
    frames_[depth_++] = {place, is_array, 0};
  }

  bool Open(bool is_array);
  bool Close();
  void ItemDone();
  bool Scalar(const char* written);
  bool Number(int64_t value);
  void TakeNumber(int64_t value);
  void TakeString(std::string& value);
  void TakeNodeAttr(std::string& value);
  void TakeTag(const std::string& tag);
  bool PlaceFor(bool is_array, Place* place);
  bool PlaceOfKey(Place* place);
  bool PlaceOfAttr(Place* place);
  void FinishNode();
  void FinishNodeAttrs();
  void FinishEntryRef();
  void FinishTop();
  void FinishSkipped();
  void Missing(uint32_t seen, uint32_t bit, const char* path_end);
  uint32_t TakeIndex(int64_t value);
  uint32_t ParseCount(const std::string& value);
  const char* Expected() const;

  void Charge(size_t bytes) {
    // A graph takes at most this much for each byte of its text; what takes
    // more is a file made to fill the memory.
    if (bytes <= budget_) {
      budget_ -= bytes;
      return;
    }
    if (!stopped_) AddFault("", "an unreasonable number of items", "", "");
    stopped_ = true;
  }
  std::string Path() const;
  void AddFault(const std::string& path_end, std::string found,
                std::string expected, std::string hint,
                Fault::Severity severity = Fault::Severity::kError);

  // Of the array that ends, not of its next item.
  void AddListFault(std::string found, std::string expected);

  const GraphText& text_;
  JsonCursor cursor_;
  Graph* graph_;
  GraphLists* lists_;
  FaultList* faults_;
  size_t budget_;
  bool stopped_ = false;

  std::array<Frame, kMostFrames> frames_{};
  size_t depth_ = 0;
  size_t skip_depth_ = 0;   // Above 0 inside a value that is passed over.
  bool skip_next_ = false;  // The value of an unknown key comes.
  size_t value_start_ = 0;  // Where the value of an unknown key may begin.
  // The key in force in each object on the way down, by depth.
  std::array<std::string, kMostFrames> keys_;
  uint32_t seen_top_ = 0;
  uint32_t seen_node_ = 0;
  uint32_t seen_node_attrs_ = 0;
  uint32_t seen_attrs_ = 0;
  EntryRef entry_ref_;
  std::string tag_;
  std::string dtype_text_;  // The last type that was read, and what it is:
  DLDataType dtype_{};      // thousands of entries say the same.
};

std::string Reader::Path() const {
  std::string path;
  for (size_t i = 0; i < depth_; ++i) {
    path += frames_[i].is_array ? absl::StrFormat("/%d", frames_[i].index)
                                : "/" + keys_[i];
  }
  return path;
}

void Reader::AddFault(const std::string& path_end, std::string found,
                      std::string expected, std::string hint,
                      Fault::Severity severity) {
  faults_->Add({severity, text_.name, Path() + path_end, 0, 0, std::move(found),
                std::move(expected), std::move(hint)});
}

void Reader::AddListFault(std::string found, std::string expected) {
  const std::string path = Path();
  faults_->Add({Fault::Severity::kError, text_.name,
                path.substr(0, path.rfind('/')), 0, 0, std::move(found),
                std::move(expected), ""});
}

// What the place the reader stands at takes, for messages.
const char* Reader::Expected() const {
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

bool Reader::key(std::string& name) {
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
      AddFault(
          "",
          absl::StrFormat("the key \"%s\" for the second time", Shortened(key)),
          "", "");
    }
    seen |= row.seen;
    return true;
  }
  // Every key of a node's attributes is welcome.
  skip_next_ = place != Place::kNodeAttrs;
  return true;
}

bool Reader::Open(bool is_array) {
  if (stopped_) return false;
  if (skip_depth_ > 0 || skip_next_) {
    ++skip_depth_;
    return true;
  }
  Place place;
  if (!PlaceFor(is_array, &place)) {
    AddFault("", is_array ? "an array" : "an object", Expected(), "");
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

// The place that an array or object opens, or false if there is none.
bool Reader::PlaceFor(bool is_array, Place* place) {
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

bool Reader::PlaceOfKey(Place* place) {
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

// The list that the attribute in force holds. Its tag was checked when it came.
bool Reader::PlaceOfAttr(Place* place) {
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

bool Reader::Close() {
  if (skip_depth_ > 0) {
    if (--skip_depth_ == 0) {
      FinishSkipped();
      ItemDone();
    }
    return !stopped_;
  }
  const Place place = top().place;
  if (place == Place::kAttrPair && top().index != 2) {
    AddListFault(absl::StrFormat("%d items", top().index),
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

void Reader::ItemDone() {
  skip_next_ = false;
  if (InArray()) ++top().index;
}

// Keeps the raw text of a graph attribute that is not known here.
void Reader::FinishSkipped() {
  if (!skip_next_ || depth_ == 0 || top().place != Place::kGraphAttrs) return;
  std::string_view raw =
      cursor_.text().substr(value_start_, cursor_.offset() - value_start_);
  raw.remove_prefix(std::min(raw.find_first_not_of(": \t\r\n"), raw.size()));
  Charge(raw.size() + 2 * kStringCost);
  graph_->other_attrs.emplace_back(keys_[depth_ - 1], raw);
}

bool Reader::Scalar(const char* written) {
  if (stopped_) return false;
  if (skip_depth_ > 0) return true;
  // Unknown keys with plain values mean nothing to the graph.
  if (!skip_next_) AddFault("", written, Expected(), "");
  ItemDone();
  return true;
}

bool Reader::Number(int64_t value) {
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

uint32_t Reader::TakeIndex(int64_t value) {
  if (value >= 0 && value <= INT32_MAX) return static_cast<uint32_t>(value);
  AddFault("", std::to_string(value), "a number from 0 to 2147483647", "");
  return 0;
}

void Reader::TakeNumber(int64_t value) {
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
      AddFault("", std::to_string(value), Expected(), "");
  }
}

bool Reader::string(std::string& value) {
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

void Reader::TakeString(std::string& value) {
  const std::string& key = keys_[depth_ - 1];
  switch (top().place) {
    case Place::kNode:
      if (key == "name") {
        std::swap(graph_->nodes.back().name, value);
      } else if (key == "op" && (value == "null" || value == "tvm_op")) {
        graph_->nodes.back().kind = value == "null"
                                        ? GraphNode::Kind::kInput
                                        : GraphNode::Kind::kFunction;
      } else if (key == "op") {
        AddFault("", absl::StrFormat("the op \"%s\"", Shortened(value)),
                 "\"null\" or \"tvm_op\"", "");
      } else {
        AddFault("", "a string", Expected(), "");
      }
      return;
    case Place::kNodeAttrs:
      return TakeNodeAttr(value);
    case Place::kAttrPair:
      if (top().index == 0) return TakeTag(value);
      return AddFault("", "a string", Expected(), "");
    case Place::kDTypes: {
      Charge(3 * sizeof(DLDataType));
      if (value != dtype_text_) {
        const auto dtype = ParseDType(value);
        if (!dtype.ok()) {
          AddFault("", absl::StrFormat("the type \"%s\"", Shortened(value)),
                   Expected(), "");
        }
        dtype_ = dtype.value_or(DLDataType{});
        dtype_text_ = value;
      }
      lists_->dtypes.push_back(dtype_);
      return;
    }
    case Place::kScopes:
      Charge(kStringCost);
      lists_->scopes.push_back(std::move(value));
      return;
    default:
      AddFault("", "a string", Expected(), "");
  }
}

uint32_t Reader::ParseCount(const std::string& value) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number <= INT32_MAX) return number;
  AddFault("", absl::StrFormat("\"%s\"", Shortened(value)),
           "a string that holds a number", "");
  return 0;
}

void Reader::TakeNodeAttr(std::string& value) {
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

void Reader::TakeTag(const std::string& tag) {
  constexpr std::pair<std::string_view, std::string_view> kTags[] = {
      {"shape", "list_shape"},
      {"dltype", "list_str"},
      {"storage_id", "list_int"},
      {"device_index", "list_int"},
      {"storage_scope", "list_str"}};
  const std::string& key = keys_[depth_ - 2];
  for (const auto& [name, wanted] : kTags) {
    if (name != key || tag == wanted) continue;
    AddFault("", absl::StrFormat("the tag \"%s\"", Shortened(tag)),
             absl::StrFormat("\"%s\"", wanted), "");
  }
}

void Reader::FinishEntryRef() {
  const uint32_t count = top().index;
  if (count != 2 && count != 3) {
    AddListFault(absl::StrFormat("%d numbers", count),
                 "a node entry: [node, output] or [node, output, version]");
  }
  Charge(3 * sizeof(EntryRef));
  const Place list = frames_[depth_ - 2].place;
  (list == Place::kHeads ? graph_->heads : graph_->nodes.back().inputs)
      .push_back(entry_ref_);
}

void Reader::Missing(uint32_t seen, uint32_t bit, const char* path_end) {
  if ((seen & bit) == 0) {
    AddFault(path_end, "nothing", absl::StrFormat("the key %s", path_end + 1),
             "");
  }
}

void Reader::FinishNode() {
  GraphNode& node = graph_->nodes.back();
  Missing(seen_node_, kSeenOp, "/op");
  Missing(seen_node_, kSeenName, "/name");
  if (node.kind == GraphNode::Kind::kInput) {
    node.num_outputs = 1;
    return;
  }
  Missing(seen_node_, kSeenInputs, "/inputs");
  if ((seen_node_ & kSeenAttrs) == 0) {
    AddFault("/attrs", "nothing", "the key attrs", "");
    return;
  }
  Missing(seen_node_attrs_, kSeenFunction, "/attrs/func_name");
  Missing(seen_node_attrs_, kSeenNumInputs, "/attrs/num_inputs");
  Missing(seen_node_attrs_, kSeenNumOutputs, "/attrs/num_outputs");
  Missing(seen_node_attrs_, kSeenFlatten, "/attrs/flatten_data");
}

void Reader::FinishNodeAttrs() {
  auto& attrs = graph_->nodes.back().attrs;
  if (attrs.size() < 2) return;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, value] : attrs) {
    if (names.insert(name).second) continue;
    AddFault(
        "/" + name,
        absl::StrFormat("the key \"%s\" for the second time", Shortened(name)),
        "", "");
  }
}

void Reader::FinishTop() {
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

bool Reader::parse_error(size_t position, const std::string&,
                         const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ...":
  // the place is ours to say.
  std::string_view reason = error.what();
  const size_t colon = reason.find(": ");
  if (colon != std::string_view::npos) reason.remove_prefix(colon + 2);
  const size_t offset =
      std::min(position > 0 ? position - 1 : 0, cursor_.text().size());
  const std::string_view before = cursor_.text().substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // 0 where there is none.
  faults_->Add(
      {Fault::Severity::kError, text_.name, "",
       static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1,
       offset - line_start + 1,
       absl::StrFormat("not JSON: %s", Shortened(reason)), "", ""});
  return false;
}

}  // namespace

bool ReadGraphJson(const GraphText& text, Graph* graph, GraphLists* lists,
                   FaultList* faults) {
  return Reader(text, graph, lists, faults).Read();
}

}  // namespace nodewise
