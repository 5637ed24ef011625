#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "nodewise/graph/graph_json.h"
#include "nodewise/support/check.h"
#include "runtime/graph/graph_reader.h"
#include "runtime/graph/json_cursor.h"

namespace nodewise {

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
  uint32_t index = 0;  // The number of the array's current item.
};

// The depth of the deepest place: top, nodes, node, inputs, reference.
constexpr size_t kMostFrames = 8;

// How deep a value that is only skipped may be: reading the text again, or
// writing it with indents, needs more memory with each level.
constexpr size_t kMostNesting = 64;

// The keys that an object has had so far, to find missing and doubled ones.
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

// Roughly the maximum memory that an item costs, with the room that a growing
// vector wastes; see Charge.
constexpr size_t kNodeCost = 3 * sizeof(GraphNode);
constexpr size_t kStringCost = 3 * sizeof(std::string);
constexpr size_t kShapeCost = 3 * sizeof(std::vector<int64_t>);
constexpr size_t kNumberCost = 3 * sizeof(int64_t);

// Makes a graph from the events of a JSON parser: knows where in the document
// it is, what may come there, and where to put it. Each event returns false to
// end the reading.
class GraphEvents {
 public:
  // `cursor` tells how far the parser has read.
  GraphEvents(const GraphText& text, const JsonCursor& cursor, Graph* graph,
              GraphLists* lists, DiagnosticList* diagnostics)
      : text_(text),
        cursor_(cursor),
        graph_(graph),
        lists_(lists),
        diagnostics_(diagnostics),
        budget_(9 * text.text.size() + (size_t{32} << 20)) {}

  bool stopped() const { return stopped_; }

  bool Open(bool is_array);
  bool Close();
  // May move from `name`, and String() from `value`.
  bool Key(std::string& name);
  bool String(std::string& value);
  bool Number(int64_t value);
  // Takes a plain value of any other kind, as written.
  bool Scalar(const char* written);

 private:
  Frame& top() { return frames_[depth_ - 1]; }
  bool InArray() const { return depth_ > 0 && frames_[depth_ - 1].is_array; }
  void Push(Place place, bool is_array) {
    NODEWISE_CHECK(depth_ < kMostFrames);
    frames_[depth_++] = {place, is_array, 0};
  }

  // Where values go: graph_events.cc.
  void ItemDone();
  bool PlaceFor(bool is_array, Place* place);
  bool PlaceOfKey(Place* place);
  bool PlaceOfAttr(Place* place);
  const char* Expected() const;
  std::string Path() const;
  void AddDiagnostic(const std::string& path_end, std::string found,
                     std::string expected, std::string hint,
                     Severity severity = Severity::kError);
  // Adds a fault of the array that ends, not of its next item.
  void AddListDiagnostic(std::string found, std::string expected);
  void Charge(size_t bytes);

  // Take values to where they go; defined in graph_values.cc.
  void TakeNumber(int64_t value);
  void TakeString(std::string& value);
  void TakeNodeField(std::string& value);
  void TakeNodeAttr(std::string& value);
  void TakeDType(const std::string& value);
  void TakeTag(const std::string& tag);
  uint32_t TakeIndex(int64_t value);
  uint32_t ParseCount(const std::string& value);
  void FinishNode();
  void FinishInput();
  void FinishNodeAttrs();
  void FinishEntryRef();
  void FinishTop();
  void FinishSkipped();
  void Missing(uint32_t seen, uint32_t bit, const char* path_end);

  const GraphText& text_;
  const JsonCursor& cursor_;
  Graph* graph_;
  GraphLists* lists_;
  DiagnosticList* diagnostics_;
  size_t budget_;
  bool stopped_ = false;

  std::array<Frame, kMostFrames> frames_{};
  size_t depth_ = 0;
  size_t skip_depth_ = 0;   // Above 0 inside a skipped value.
  bool skip_next_ = false;  // The next value has an unknown key.
  size_t value_start_ = 0;  // Where the value of an unknown key may begin.
  // The current key of each open object, by depth.
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

}  // namespace nodewise
