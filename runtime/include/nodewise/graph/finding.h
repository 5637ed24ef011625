#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/library_floats.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// What a check or a run found, as data: which kind of fault, where, and the
// numbers that it was judged by. Every tool returns its findings in this shape,
// and text and JSON are made from it here alone.

// A row of a table of kinds; each part that finds something has a table beside
// its functions. Kinds with the same name are the same kind.
struct FindingKind {
  std::string_view name;  // "stray-write": stable, unique among all parts.
  std::string_view part;  // "memory": which check found it.
  Severity severity = Severity::kError;
  std::string_view help;  // What it means, in one line.
  // Whether `found` goes on with the sentence that the place begins, as in
  // "node 2 (f) wrote 4 bytes", so that no colon stands between them.
  bool continues_place = false;

  friend bool operator==(const FindingKind& a, const FindingKind& b) {
    return a.name == b.name;
  }
};

// What a message begins with where no more is known: an option, a function, a
// file as a whole.
struct NamedPlace {
  std::string name;
  friend bool operator==(const NamedPlace&, const NamedPlace&) = default;
};

// A place in a file.
struct FilePlace {
  std::string file;
  std::string path;   // A JSON path, a tensor's name, "byte 24", or empty.
  size_t line = 0;    // 1-based; 0 where there are no lines.
  size_t column = 0;  // 1-based, in bytes.
  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

// A node of a graph JSON.
struct NodePlace {
  NodeId node{};
  std::string key;    // As GraphIndex gives it: "conv3".
  std::string title;  // "node 17 (conv3)".
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

// An entry as a node meets it. The node is the one at fault, which need not be
// the one that makes the entry.
struct EntryPlace {
  NodePlace node;
  EntryId entry{};
  std::string key;  // "conv3:0".
  friend bool operator==(const EntryPlace&, const EntryPlace&) = default;
};

// A place in a network: an operation, a value, or the network itself, which
// leaves both names empty.
struct OperationPlace {
  std::string text;  // "operation Conv_3: input 1 (w)"
  std::string operation;
  std::string value;
  friend bool operator==(const OperationPlace&,
                         const OperationPlace&) = default;
};

// Return a node as a place, and an entry as the node at fault meets it.
NodePlace PlaceOf(const GraphIndex& index, NodeId node);
EntryPlace PlaceOf(const GraphIndex& index, NodeId node, EntryId entry);

using FindingPlace =
    std::variant<NamedPlace, FilePlace, NodePlace, EntryPlace, OperationPlace>;

struct FindingNumber {
  using Value = std::variant<int64_t, uint64_t, double>;

  std::string name;  // "offset"
  Value value;
};

struct Finding {
  FindingKind kind;
  Severity severity = Severity::kError;
  FindingPlace place;
  std::string found;                        // "output 3 of node 4"
  std::string expected = {};                // May be empty.
  std::string hint = {};                    // What to do; may be empty.
  std::vector<FindingNumber> numbers = {};  // In the order to show them in.

  std::string_view part() const { return kind.part; }
  // Returns the node at fault, or null if the place is not a node or entry.
  const NodePlace* node() const;
  // Returns the number of that name, as a double, or none.
  std::optional<double> Number(std::string_view name) const;
  // "node 17 (conv3)", "graph.json:212:14: /nodes/7/inputs/0/1"
  std::string Where() const;
  // "where: found, expected expected (hint)"
  std::string ToString() const;
};

// Returns a finding with the severity of its kind.
Finding MakeFinding(const FindingKind& kind, FindingPlace place,
                    std::string found, std::vector<FindingNumber> numbers = {});

// Kinds that several tools share.
namespace finding_kinds {
inline constexpr FindingKind kFaultyFile = {
    "faulty-file", "file", Severity::kError,
    "a file is not what its format or the other files demand"};
inline constexpr FindingKind kCannotJudge = {
    "cannot-judge", "command", Severity::kError,
    "something kept the command from its work"};
inline constexpr FindingKind kAll[] = {kFaultyFile, kCannotJudge};
}  // namespace finding_kinds

// Returns what is wrong with a file as a finding; its severity is kept. The
// place is a FilePlace if it names a place in the file.
Finding FindingOf(const Diagnostic& diagnostic, const FindingKind& kind);
std::vector<Finding> FindingsOf(const std::vector<Diagnostic>& diagnostics,
                                const FindingKind& kind);
// Returns an error as a finding of the kind kCannotJudge. REQUIRES: the status
// is not OK.
Finding FindingOf(const absl::Status& status);

// Adds an array of findings, each with all that it holds. docs/findings.md
// lists the members.
void AddFindings(std::string_view key, const std::vector<Finding>& findings,
                 JsonWriter* json);

// Findings about the floating-point environment that compiled code leaves.
// Their numbers are what it was and what it is: `before` and `after`, as
// PackFloats().
namespace float_kinds {
inline constexpr std::string_view kPart = "float-environment";

// Its place is the node.
inline constexpr FindingKind kLeftChanged = {
    "floats-left-changed", kPart, Severity::kError,
    "a function did not restore how its thread calculates with floats", true};
// Some node did; the place is the network.
inline constexpr FindingKind kRunLeftChanged = {
    "floats-changed-by-run", kPart, Severity::kWarning,
    "a run has changed how its thread calculates with floats", true};
// Its place is the library.
inline constexpr FindingKind kChangedByLoading = {
    "floats-changed-by-library", kPart, Severity::kWarning,
    "loading a library changed how its thread calculates with floats"};

inline constexpr FindingKind kAll[] = {kLeftChanged, kRunLeftChanged,
                                       kChangedByLoading};
}  // namespace float_kinds

// Return findings of these kinds: "node 3 (f) left the rounding mode changed
// (upward, was to nearest)".
Finding FloatFinding(NodePlace node, const FloatChange& change);
Finding FloatFindingOfRun(const std::string& network,
                          const FloatChange& change);
Finding FloatFindingOf(const LibraryFloats& library);

// What a run of a tool's candidate has left changed, for who shows it at the
// end: kept for the process, each place once. Any thread may call them.
void NoteFloatFinding(const Finding& finding);
// Returns what loading libraries changed, and what was noted since the last
// call.
std::vector<Finding> TakeFloatFindings();

// While one exists a tool runs compiled code from its first node on. Like the
// first run of a process, each begins in the floating-point environment that
// loading the libraries has left, regardless of what another run has left
// since, so that two can be compared. Does nothing in a thread of a host, whose
// runs leave what they leave.
class NotedRun {
 public:
  // At the end, NoteFloatFinding() gets what the run has left, with this name
  // of the network; empty: nothing is noted, since each node is looked at.
  explicit NotedRun(std::string network);
  NotedRun(const NotedRun&) = delete;
  NotedRun& operator=(const NotedRun&) = delete;
  ~NotedRun();

 private:
  const std::string network_;
  const FloatEnvironment before_;
  std::optional<KeepCandidateFloats> kept_;
};

}  // namespace nodewise
