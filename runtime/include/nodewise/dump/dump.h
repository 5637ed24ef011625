#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/dump_key.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/support/float_environment.h"

namespace nodewise {

// A dump is the folder that a debug run leaves, laid out as TVM's debug
// executor does it, with one additional file (docs/formats/dump.md).

// What a run records.
struct RecordOptions {
  bool tensors = true;  // output_tensors.params, as TVM writes it.
  // Whether the node record file gets the statistics of every entry. The
  // records' times and hashes are always written.
  bool stats = false;
  // A regular expression in RE2's syntax; a node is recorded if the expression
  // is found in its name, its function's name or its key (GraphIndex), all
  // taken as bytes. Empty: all.
  std::string select = {};
  // Nodes outside [first_node, last_node] are not recorded.
  uint32_t first_node = 0;
  uint32_t last_node = UINT32_MAX;
  // Entries that would make the tensors' bytes in the file exceed this are left
  // out whole, decided in the order of recording; their hashes and statistics
  // are still recorded. 0: no limit.
  uint64_t max_bytes = 0;
  // The folder for the dumps of this executor's runs; made if it is missing.
  // Empty: each run makes a fresh one, tvmdbg_XXXXXX in $TMPDIR or /tmp.
  std::string root = {};
};

struct DumpLayout;  // runtime/dump/dump_layout.h

// What a dump will hold, decided before its first byte is written. A plan is
// cheap to copy and to use again: what all runs write alike is made once and
// shared.
struct DumpPlan {
  struct Item {
    EntryId entry;
    NodeId node;
    uint32_t output;
    std::string key;  // As TVM >= 0.9: name____topo-index:3____output-num:0.
    uint64_t bytes;   // The tensor's size.
  };
  std::vector<Item> items;     // Inputs of the graph first, then by node.
  std::vector<Item> left_out;  // Those that max_bytes excludes.
  uint64_t tensor_bytes = 0;   // The sum over items; 0 if none is written.
  std::shared_ptr<const DumpLayout> layout;
};

// Fails with kInvalidArgument for a bad expression, or if no node is selected.
absl::StatusOr<DumpPlan> PlanDump(const GraphIndex& index,
                                  const RecordOptions& options);

// Writes the dump of one run. It is called on the producer's thread; the
// writer's own thread does the writing, from a buffer of fixed size.
//
// A disk error does not stop the run: from then on nothing is written, and
// Close() returns the error, which names the path.
class DumpWriter {
 public:
  // Makes the run's folder: DIR/_tvmdbg_device_CPU_0 for the first run below a
  // root, DIR/run_2/_tvmdbg_device_CPU_0 for the second, and so on; an existing
  // dump is never touched. Writes _tvmdbg_graph_dump.json, the graph's own text
  // as _nodewise_graph.json if it has one, and the headers.
  // `plan` and `graph` must outlive the writer. REQUIRES: `plan` is PlanDump's
  // for these options. An error names the path; nothing is left behind.
  static absl::StatusOr<std::unique_ptr<DumpWriter>> Create(
      const Graph& graph, const DumpPlan& plan, const RecordOptions& options,
      DLDevice device);

  // Without Close() the files stay cut short, as those of a killed run do.
  virtual ~DumpWriter() = default;

  // The folder that holds this run's files.
  virtual const std::string& folder() const = 0;

  // WillRun() and DidRun() record one node. `inputs` are hashed before the node
  // runs, as it will read them; if `is_untouched`, nothing has run since
  // DidRun(), so the tensors that DidRun() recorded still have the same hashes.
  // Nodes that are not in the plan are skipped. The calls come in the order of
  // the plan: Input() for every input of the graph by its number, then each
  // function node by its number, free ones (__nop) too. A call out of order
  // ends the recording, and Close() says so. REQUIRES: the tensors are compact
  // and as the graph describes them.
  virtual void WillRun(NodeId node, TensorSpan inputs, bool is_untouched) = 0;
  virtual void DidRun(NodeId node, TensorSpan outputs, NodeTime time) = 0;
  // Says that the node of the next DidRun() has left the floating-point
  // environment changed.
  virtual void LeftFloatsChanged(const FloatChange& change) = 0;
  // Records an input of the graph. Called before the first node.
  virtual void Input(NodeId node, const DLTensor& tensor) = 0;

  // Ends the dump, waits until all is written, and writes the trace. If not
  // every planned entry was recorded the tensors' header is rewritten, so that
  // TVM can read the file; where that fails the file is left as it is, and the
  // error says how to read it. `times` is indexed by node. Only the first call
  // has an effect.
  virtual absl::Status Close(absl::Span<const NodeTime> times) = 0;
};

// One record of _nodewise_nodes.bin.
struct NodeRecord {
  enum class Kind : uint32_t {
    kTime = 1,    // A node ran: start, end.
    kInput = 2,   // What a node read: hash; `slot` counts its inputs.
    kOutput = 3,  // What a node made: hash and stats; `slot` counts outputs.
  };
  Kind kind = Kind::kTime;
  NodeId node{};
  uint32_t slot = 0;
  EntryId entry{};
  NodeTime time;  // kTime.
  // kTime: how the node left the floating-point environment changed, if it did.
  std::optional<FloatChange> floats;
  bool has_stats = false;
  // For kInput and kOutput; without has_stats, only the hash and the elements.
  TensorStats stats;
  // Which function made `stats.hash`: the files of older versions have another
  // one, so hashes of two dumps are compared by CompareHashes(), never by `==`.
  HashKind hash_kind = HashKind::kXxh3;
  TensorHash hash() const { return {hash_kind, stats.hash}; }
};

// Returns the records of a _nodewise_nodes.bin, of this version or an older
// one, that may be cut short. Fails with kDataLoss if it is damaged and not
// just cut, or names a hash that is not known. Node and entry numbers are as
// the file has them.
absl::StatusOr<std::vector<NodeRecord>> ParseNodeRecords(
    absl::Span<const uint8_t> bytes, std::string where);

// A dump as read back, perhaps one whose run was killed.
struct Dump {
  std::string folder;
  bool has_tensors = false;  // There is a file of tensors.
  std::string tensors_path;  // That file, if there is one.
  Params tensors;            // The complete ones, in the order of the file.
  // The names in the header that the file has no complete tensor for, in order.
  std::vector<std::string> missing;
  // Whether the tensors' file is cut short; if `missing` is empty, even its
  // header is. Without tensors: whether our writer did not get to the file that
  // it makes last, the trace.
  bool is_cut = false;
  std::vector<NodeRecord> records;
  // Why there are no records although there is a file of them; the tensors are
  // still good.
  absl::Status records_status;
  size_t runs_beside = 0;  // Other runs below the same root.
};

// `path` is a dump root, a run's folder or its _tvmdbg_device_* folder, written
// by us or by TVM. The last run below a root is taken. The part of a missing
// file stays empty. Fails with kNotFound if all files are missing, with
// kDataLoss if the tensors' file is damaged and not just cut.
absl::StatusOr<Dump> OpenDump(const std::string& path);

// Returns the text of _tvmdbg_graph_dump.json.
std::string GraphDumpJson(const Graph& graph);

// Writes the trace of a dump as TVM does: one line with a B and an E event for
// each node, inputs too. The nodes follow each other from 0, each as long as
// `times`, which is indexed by node, says. Hands the text to `write` in pieces.
void WriteTvmTrace(const Graph& graph, absl::Span<const NodeTime> times,
                   absl::FunctionRef<void(std::string_view)> write);

// Return parts of a Chrome trace: a string as Python's json.dumps() writes it,
// in ASCII alone, and microseconds as Python prints them, to the nanosecond:
// "12.0", "0.25". REQUIRES: `ns` is not negative.
std::string TraceString(std::string_view text);
std::string TraceMicroseconds(int64_t ns);

}  // namespace nodewise
