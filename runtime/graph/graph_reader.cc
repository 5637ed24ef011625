#include "runtime/graph/graph_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

// A graph's text may have hundreds of megabytes, so it is never held as a tree
// of JSON: the parser of nlohmann reports each token as an event, and what the
// event means follows from the place in the document where the reader stands.
// Faults do not end the reading, so that a user sees all of them at once; a
// value that does not belong where it is gets skipped as a whole.

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
  kNowhere,  // What a key opens whose value is neither array nor object.
};

struct Frame {
  Place place;
  bool is_array;
  uint32_t index = 0;  // The number of the array's current item.
};

// The deepest place is five frames deep: top, nodes, node, inputs, reference.
constexpr size_t kMostFrames = 8;

// How deep a value that is only skipped may be: reading the text again, or
// writing it with indents, needs more memory with each level.
constexpr size_t kMostNesting = 64;

// The keys that the objects around the reader's place have had so far, to find
// missing and doubled ones.
enum : uint32_t {
  kSeenNodes = 1 << 0,
  kSeenArgNodes = 1 << 1,
  kSeenHeads = 1 << 2,
  kSeenAttrs = 1 << 3,
  kSeenRowPtr = 1 << 4,
  kSeenShape = 1 << 5,
  kSeenDType = 1 << 6,
  kSeenStorageId = 1 << 7,
  kSeenDeviceIndex = 1 << 8,
  kSeenScope = 1 << 9,
  kSeenOp = 1 << 10,  // From here on they are a node's.
  kSeenName = 1 << 11,
  kSeenInputs = 1 << 12,
  kSeenNodeAttrs = 1 << 13,
  kSeenFunction = 1 << 14,
  kSeenNumInputs = 1 << 15,
  kSeenNumOutputs = 1 << 16,
  kSeenFlatten = 1 << 17,
  kSeenControlDeps = 1 << 18,
};

// Roughly the maximum memory that an item costs, with the room that a growing
// vector wastes; see Charge.
constexpr size_t kNodeCost = 3 * sizeof(GraphNode);
constexpr size_t kStringCost = 3 * sizeof(std::string);
constexpr size_t kShapeCost = 3 * sizeof(std::vector<int64_t>);
constexpr size_t kNumberCost = 3 * sizeof(int64_t);

// A key that means something. An attribute of the graph holds a pair of a type
// tag and a list: `tag` is the one that TVM writes, `opens` is the list.
struct KeyRow {
  Place place;
  std::string_view key;
  uint32_t seen;
  Place opens = Place::kNowhere;
  std::string_view tag = "";
};

// A node's attributes may be called "attr", too, which means the same.
constexpr KeyRow kKeys[] = {
    {Place::kTop, "nodes", kSeenNodes, Place::kNodes},
    {Place::kTop, "arg_nodes", kSeenArgNodes, Place::kArgNodes},
    {Place::kTop, "heads", kSeenHeads, Place::kHeads},
    {Place::kTop, "attrs", kSeenAttrs, Place::kGraphAttrs},
    {Place::kTop, "node_row_ptr", kSeenRowPtr, Place::kRowPtr},
    {Place::kNode, "op", kSeenOp},
    {Place::kNode, "name", kSeenName},
    {Place::kNode, "inputs", kSeenInputs, Place::kNodeInputs},
    {Place::kNode, "attrs", kSeenNodeAttrs, Place::kNodeAttrs},
    {Place::kNode, "attr", kSeenNodeAttrs, Place::kNodeAttrs},
    {Place::kNode, "control_deps", kSeenControlDeps, Place::kControlDeps},
    {Place::kNodeAttrs, "func_name", kSeenFunction},
    {Place::kNodeAttrs, "num_inputs", kSeenNumInputs},
    {Place::kNodeAttrs, "num_outputs", kSeenNumOutputs},
    {Place::kNodeAttrs, "flatten_data", kSeenFlatten},
    {Place::kGraphAttrs, "shape", kSeenShape, Place::kShapes, "list_shape"},
    {Place::kGraphAttrs, "dltype", kSeenDType, Place::kDTypes, "list_str"},
    {Place::kGraphAttrs, "storage_id", kSeenStorageId, Place::kStorageIds,
     "list_int"},
    {Place::kGraphAttrs, "device_index", kSeenDeviceIndex, Place::kDeviceTypes,
     "list_int"},
    {Place::kGraphAttrs, "storage_scope", kSeenScope, Place::kScopes,
     "list_str"},
};

constexpr char kEntryForm[] =
    "a node entry: [node, output] or [node, output, version]";

// Makes a graph from the events of a JSON parser: knows where in the document
// it is, what may come there, and where to put it. Each event returns false to
// end the reading.
class GraphEvents {
 public:
  // `cursor` tells how far the parser has read. The budget of memory follows
  // the size of the text; with 32 MiB on top, small texts never exceed it.
  GraphEvents(const GraphText& text, const JsonCursor& cursor, Graph* graph,
              GraphLists* lists, DiagnosticList* diagnostics)
      : text_(text),
        cursor_(cursor),
        graph_(graph),
        lists_(lists),
        diagnostics_(diagnostics),
        budget_(9 * text.text.size() + (size_t{32} << 20)) {}

  bool stopped() const { return stopped_; }

 protected:
  bool Open(bool is_array) {
    if (stopped_) return false;
    if (depth_ + skip_depth_ == kMostNesting) {
      AddFault("", "arrays and objects one in the other",
               fmt::format("at most {} of them", kMostNesting));
      stopped_ = true;
      return false;
    }
    if (skip_depth_ > 0 || skip_next_) {
      ++skip_depth_;
      return true;
    }
    const Place place = PlaceFor(is_array);
    if (place == Place::kNowhere) {
      AddFault("", is_array ? "an array" : "an object", Expected());
      ++skip_depth_;
      return true;
    }
    Begin(place);
    NODEWISE_CHECK(depth_ < kMostFrames);
    frames_[depth_++] = {place, is_array, 0};
    return true;
  }

  bool Close() {
    if (skip_depth_ > 0) {
      if (--skip_depth_ == 0) {
        FinishSkipped();
        ItemDone();
      }
      return !stopped_;
    }
    const Place place = top().place;
    if (place == Place::kAttrPair && top().index != 2) {
      AddListFault(fmt::format("{} items", top().index),
                   "a pair of a type tag and a value");
    }
    if (place == Place::kEntryRef) FinishEntryRef();
    // From here on paths name the item itself and not what is in it.
    --depth_;
    if (place == Place::kNode) FinishNode();
    if (place == Place::kNodeAttrs) FinishNodeAttrs();
    if (place == Place::kTop) FinishTop();
    ItemDone();
    return !stopped_;
  }

  // Swaps the key with the parser's buffer, and String() moves from it: copying
  // each text once more would be felt in files of this size.
  bool Key(std::string& name) {
    if (skip_depth_ > 0) return true;
    const Place place = top().place;
    value_start_ = cursor_.offset();
    std::swap(keys_[depth_ - 1], name);
    const std::string& key = keys_[depth_ - 1];
    for (const KeyRow& row : kKeys) {
      if (row.place != place || row.key != key) continue;
      rows_[depth_ - 1] = &row;
      if (seen_ & row.seen) AddFault("", SecondTime(key));
      seen_ |= row.seen;
      return true;
    }
    // Every key of a node's attributes is welcome.
    skip_next_ = place != Place::kNodeAttrs;
    return true;
  }

  bool String(std::string& value) {
    if (stopped_) return false;
    if (skip_depth_ > 0) return true;
    if (skip_next_ || depth_ == 0) return Scalar("a string");
    TakeString(value);
    ItemDone();
    return !stopped_;
  }

  bool Number(int64_t value) {
    if (stopped_) return false;
    if (skip_depth_ > 0) return true;
    if (skip_next_ || depth_ == 0) return Scalar(std::to_string(value).c_str());
    TakeNumber(value);
    ItemDone();
    return !stopped_;
  }

  // Takes a plain value of any other kind, as written.
  bool Scalar(const char* written) {
    if (stopped_) return false;
    if (skip_depth_ > 0) return true;
    // Unknown keys with plain values mean nothing to the graph.
    if (!skip_next_) AddFault("", written, Expected());
    ItemDone();
    return true;
  }

  const GraphText& text_;
  const JsonCursor& cursor_;
  Graph* graph_;
  GraphLists* lists_;
  DiagnosticList* diagnostics_;

 private:
  Frame& top() { return frames_[depth_ - 1]; }

  void ItemDone() {
    skip_next_ = false;
    if (depth_ > 0 && top().is_array) ++top().index;
  }

  // Counts memory against the budget, a maximum for each byte of text; only a
  // file made to fill the memory takes more.
  void Charge(size_t bytes) {
    if (bytes <= budget_) {
      budget_ -= bytes;
      return;
    }
    if (!stopped_) AddFault("", "an unreasonable number of items");
    stopped_ = true;
  }

  // Returns where the reader stands, as a JSON path. It is made only for
  // messages: keeping it up to date would cost time at each token.
  std::string Path() const {
    std::string path;
    for (size_t i = 0; i < depth_; ++i) {
      path += frames_[i].is_array ? fmt::format("/{}", frames_[i].index)
                                  : "/" + keys_[i];
    }
    return path;
  }

  void AddFault(const std::string& path_end, std::string found,
                std::string expected = "") {
    diagnostics_->Add({Severity::kError, text_.name, Path() + path_end, 0, 0,
                       std::move(found), std::move(expected), ""});
  }

  // Adds a fault of the array that ends, not of its next item, which Path()
  // would name.
  void AddListFault(std::string found, std::string expected) {
    const std::string path = Path();
    diagnostics_->Add({Severity::kError, text_.name,
                       path.substr(0, path.rfind('/')), 0, 0, std::move(found),
                       std::move(expected), ""});
  }

  static std::string SecondTime(const std::string& key) {
    return fmt::format("the key \"{}\" for the second time", Shortened(key));
  }

  // A message says what was found and what may stand there instead, which
  // follows from the reader's place alone.
  const char* Expected() const {
    if (depth_ == 0) return "an object (is this the graph's text?)";
    const Frame& frame = frames_[depth_ - 1];
    switch (frame.place) {
      case Place::kTop:
      case Place::kNode:
      case Place::kGraphAttrs: {
        const std::string& key = keys_[depth_ - 1];
        if (key == "op" || key == "name") return "a string";
        if (key == "attrs" || key == "attr") return "an object";
        return frame.place == Place::kGraphAttrs
                   ? "a pair of a type tag and a value"
                   : "an array";
      }
      case Place::kNodes:
        return "an object with op, name and inputs";
      case Place::kNodeInputs:
      case Place::kHeads:
        return kEntryForm;
      case Place::kNodeAttrs:
      case Place::kScopes:
        return "a string";
      case Place::kDTypes:
        return "a type such as \"float32\"";
      case Place::kAttrPair:
        return frame.index == 0 ? "a type tag such as \"list_int\""
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

  Place PlaceFor(bool is_array) {
    const auto if_so = [](bool fits, Place place) {
      return fits ? place : Place::kNowhere;
    };
    if (depth_ == 0) return if_so(!is_array, Place::kTop);
    switch (top().place) {
      case Place::kTop:
      case Place::kNode: {
        // A key that is in no row has been skipped before it gets here.
        const Place place = rows_[depth_ - 1]->opens;
        const bool is_object =
            place == Place::kNodeAttrs || place == Place::kGraphAttrs;
        return if_so(is_array != is_object, place);
      }
      case Place::kNodes:
        return if_so(!is_array, Place::kNode);
      case Place::kNodeInputs:
      case Place::kHeads:
        return if_so(is_array, Place::kEntryRef);
      case Place::kGraphAttrs:
        return if_so(is_array, Place::kAttrPair);
      case Place::kAttrPair:
        return if_so(is_array && top().index == 1, rows_[depth_ - 2]->opens);
      case Place::kShapes:
        return if_so(is_array, Place::kShape);
      default:
        return Place::kNowhere;
    }
  }

  // A list that comes twice was reported; the last one counts, as in TVM.
  template <typename T>
  static void Restart(std::optional<T>* list) {
    list->emplace();
  }

  void Begin(Place place) {
    switch (place) {
      case Place::kNode:
        Charge(kNodeCost);
        graph_->nodes.emplace_back();
        seen_ &= kSeenOp - 1;  // A node's keys begin anew.
        return;
      case Place::kEntryRef:
        entry_ref_ = EntryRef{};
        return;
      case Place::kShape:
        Charge(kShapeCost);
        lists_->shapes->emplace_back();
        return;
      case Place::kShapes:
        return Restart(&lists_->shapes);
      case Place::kDTypes:
        return Restart(&lists_->dtypes);
      case Place::kStorageIds:
        return Restart(&lists_->storage_ids);
      case Place::kDeviceTypes:
        return Restart(&lists_->device_types);
      case Place::kScopes:
        return Restart(&lists_->scopes);
      default:
        return;
    }
  }

  // Keeps the raw text of an unknown graph attribute, so that the graph can be
  // written again as it was.
  void FinishSkipped() {
    if (!skip_next_ || depth_ == 0 || top().place != Place::kGraphAttrs) return;
    std::string_view raw =
        cursor_.text().substr(value_start_, cursor_.offset() - value_start_);
    // The parser stood behind the key, so the text begins with the colon.
    raw.remove_prefix(std::min(raw.find_first_not_of(": \t\r\n"), raw.size()));
    Charge(raw.size() + 2 * kStringCost);
    graph_->other_attrs.emplace_back(keys_[depth_ - 1], raw);
  }

  uint32_t TakeIndex(int64_t value) {
    if (value >= 0 && value <= INT32_MAX) return static_cast<uint32_t>(value);
    AddFault("", std::to_string(value), "a number from 0 to 2147483647");
    return 0;
  }

  // Lists of indices hold uint32_t; the others take any number, which is
  // checked when it is known what the graph makes of it.
  template <typename T>
  void AddNumber(int64_t value, std::vector<T>* list) {
    Charge(kNumberCost);
    if constexpr (std::is_same_v<T, uint32_t>) {
      list->push_back(TakeIndex(value));
    } else {
      list->push_back(value);
    }
  }

  void TakeNumber(int64_t value) {
    switch (top().place) {
      case Place::kArgNodes:
        return AddNumber(value, &graph_->arg_nodes);
      case Place::kRowPtr:
        return AddNumber(value, &graph_->node_row_ptr);
      case Place::kControlDeps:
        return AddNumber(value, &graph_->nodes.back().control_deps);
      case Place::kShape:
        return AddNumber(value, &lists_->shapes->back());
      case Place::kStorageIds:
        return AddNumber(value, &*lists_->storage_ids);
      case Place::kDeviceTypes:
        return AddNumber(value, &*lists_->device_types);
      case Place::kEntryRef: {
        uint32_t* const fields[] = {&entry_ref_.node, &entry_ref_.output,
                                    &entry_ref_.version};
        // A fourth number is a fault of the whole entry: FinishEntryRef.
        if (top().index < 3) *fields[top().index] = TakeIndex(value);
        return;
      }
      default:
        AddFault("", std::to_string(value), Expected());
    }
  }

  void TakeString(std::string& value) {
    switch (top().place) {
      case Place::kNode:
        return TakeNodeField(value);
      case Place::kNodeAttrs:
        return TakeNodeAttr(value);
      case Place::kAttrPair:
        if (top().index == 0) return TakeTag(value);
        return AddFault("", "a string", Expected());
      case Place::kDTypes:
        return TakeDType(value);
      case Place::kScopes:
        Charge(kStringCost);
        lists_->scopes->push_back(std::move(value));
        return;
      default:
        AddFault("", "a string", Expected());
    }
  }

  void TakeNodeField(std::string& value) {
    GraphNode& node = graph_->nodes.back();
    const std::string& key = keys_[depth_ - 1];
    if (key == "name") {
      std::swap(node.name, value);
    } else if (key == "op" && (value == "null" || value == "tvm_op")) {
      node.kind = value == "null" ? GraphNode::Kind::kInput
                                  : GraphNode::Kind::kFunction;
    } else if (key == "op") {
      AddFault("", fmt::format("the op \"{}\"", Shortened(value)),
               "\"null\" or \"tvm_op\"");
    } else {
      AddFault("", "a string", Expected());
    }
  }

  // A type that cannot be read takes its place in the list, so that the others
  // keep theirs.
  void TakeDType(const std::string& value) {
    Charge(3 * sizeof(DLDataType));
    if (value != dtype_text_) {
      const auto dtype = ParseDType(value);
      if (!dtype.ok()) {
        AddFault("", fmt::format("the type \"{}\"", Shortened(value)),
                 Expected());
      }
      dtype_ = dtype.value_or(DLDataType{});
      dtype_text_ = value;
    }
    lists_->dtypes->push_back(dtype_);
  }

  // TVM writes the counts of a node as strings.
  uint32_t ParseCount(const std::string& value) {
    uint32_t number = 0;
    if (absl::SimpleAtoi(value, &number) && number <= INT32_MAX) return number;
    AddFault("", fmt::format("\"{}\"", Shortened(value)),
             "a string that holds a number from 0 to 2147483647");
    return 0;
  }

  void TakeNodeAttr(std::string& value) {
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

  void TakeTag(const std::string& tag) {
    const std::string_view wanted = rows_[depth_ - 2]->tag;
    if (tag == wanted) return;
    AddFault("", fmt::format("the tag \"{}\"", Shortened(tag)),
             fmt::format("\"{}\"", wanted));
  }

  void FinishEntryRef() {
    const uint32_t count = top().index;
    if (count != 2 && count != 3) {
      AddListFault(fmt::format("{} numbers", count), kEntryForm);
    }
    Charge(3 * sizeof(EntryRef));
    const Place list = frames_[depth_ - 2].place;
    (list == Place::kHeads ? graph_->heads : graph_->nodes.back().inputs)
        .push_back(entry_ref_);
  }

  // Reports the keys among `wanted` that are missing; `prefix` leads to them
  // from where the reader stands.
  void RequireKeys(uint32_t wanted, std::string_view prefix = "") {
    uint32_t missing = wanted & ~seen_;
    for (const KeyRow& row : kKeys) {
      if ((missing & row.seen) == 0) continue;
      missing &= ~row.seen;  // A second name of the key is not asked for.
      const std::string key = fmt::format("{}{}", prefix, row.key);
      AddFault("/" + key, "nothing", "the key " + key);
    }
  }

  // An input need not say how many inputs and outputs it has, but what it says
  // must be true. TVM never looks at it.
  void FinishInput() {
    GraphNode& node = graph_->nodes.back();
    const size_t num_inputs = node.inputs.size();
    if ((seen_ & kSeenNumInputs) != 0 && node.num_inputs != num_inputs) {
      AddFault("/attrs/num_inputs", std::to_string(node.num_inputs),
               fmt::format("{}, the number of its inputs", num_inputs));
    }
    if ((seen_ & kSeenNumOutputs) != 0 && node.num_outputs != 1) {
      AddFault("/attrs/num_outputs", std::to_string(node.num_outputs),
               "1, as every input has");
    }
    node.num_inputs = static_cast<uint32_t>(num_inputs);
    node.num_outputs = 1;
  }

  void FinishNode() {
    RequireKeys(kSeenOp | kSeenName);
    const GraphNode& node = graph_->nodes.back();
    if (node.kind == GraphNode::Kind::kInput) return FinishInput();
    RequireKeys(kSeenInputs | kSeenNodeAttrs);
    if ((seen_ & kSeenNodeAttrs) == 0) return;
    RequireKeys(kSeenFunction | kSeenNumInputs | kSeenNumOutputs | kSeenFlatten,
                "attrs/");
  }

  // The bits of kSeen... cover the known keys; of the others, which a node may
  // have any number of, the set finds those that come twice.
  void FinishNodeAttrs() {
    const auto& attrs = graph_->nodes.back().attrs;
    if (attrs.size() < 2) return;
    std::unordered_set<std::string_view> names;
    for (const auto& [name, value] : attrs) {
      if (!names.insert(name).second) AddFault("/" + name, SecondTime(name));
    }
  }

  // Only the three lists that every graph has are asked for.
  void FinishTop() {
    RequireKeys(kSeenNodes | kSeenArgNodes | kSeenHeads | kSeenAttrs |
                kSeenRowPtr);
    if ((seen_ & kSeenAttrs) == 0) return;
    RequireKeys(kSeenShape | kSeenDType | kSeenStorageId, "attrs/");
  }

  size_t budget_;
  bool stopped_ = false;

  std::array<Frame, kMostFrames> frames_{};
  size_t depth_ = 0;
  size_t skip_depth_ = 0;   // Above 0 inside a skipped value.
  bool skip_next_ = false;  // The next value has an unknown key.
  size_t value_start_ = 0;  // Where the value of an unknown key may begin.
  // The current key of each open object, and its row if it is known, by depth.
  std::array<std::string, kMostFrames> keys_;
  std::array<const KeyRow*, kMostFrames> rows_{};
  uint32_t seen_ = 0;  // The keys of open objects.
  EntryRef entry_ref_;
  std::string dtype_text_;  // The last type that was read, and what it is:
  DLDataType dtype_{};      // thousands of entries say the same.
};

// The events as nlohmann's SAX interface names them. It turns each call into an
// event of ours, without looking at it.
class JsonAdapter final : public GraphEvents {
 public:
  using GraphEvents::GraphEvents;

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
  bool string(std::string& value) { return String(value); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(false); }
  bool start_array(size_t) { return Open(true); }
  bool key(std::string& name) { return Key(name); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...":
    // the message names the place in a form that ours do not have.
    std::string_view reason = error.what();
    const size_t colon = reason.find(": ");
    if (colon != std::string_view::npos) reason.remove_prefix(colon + 2);
    const size_t offset =
        std::min(position > 0 ? position - 1 : 0, text_.text.size());
    const std::string_view before = text_.text.substr(0, offset);
    const size_t line_start = before.rfind('\n') + 1;  // 0 if there is none.
    const auto lines = std::ranges::count(before, '\n');
    diagnostics_->Add({Severity::kError, text_.name, "",
                       static_cast<size_t>(lines) + 1, offset - line_start + 1,
                       fmt::format("not JSON: {}", Shortened(reason)), "", ""});
    return false;
  }
};

// The parser spells out every control character in an error message, eight
// bytes for each, whether anyone reads it or not. A large file that is mostly
// newlines would cost many times its size.
bool IsMostlyControlChars(std::string_view text) {
  constexpr size_t kLarge = size_t{4} << 20;
  if (text.size() < kLarge) return false;
  const auto controls = std::ranges::count_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  return static_cast<size_t>(controls) > text.size() / 5 * 2;
}

}  // namespace

bool ReadGraphJson(const GraphText& text, Graph* graph, GraphLists* lists,
                   DiagnosticList* diagnostics) {
  if (IsMostlyControlChars(text.text)) {
    diagnostics->Add({Severity::kError, text.name, "", 1, 1,
                      "mostly line ends and other control characters",
                      "the text of a graph", ""});
    return false;
  }
  JsonCursor cursor(text.text);
  JsonAdapter events(text, cursor, graph, lists, diagnostics);
  const bool is_json =
      nlohmann::json::sax_parse(cursor.begin(), cursor.end(), &events,
                                nlohmann::json::input_format_t::json,
                                /*strict=*/true, /*ignore_comments=*/false);
  return is_json && !events.stopped();
}

}  // namespace nodewise
