#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/node_times.h"
#include "nodewise/graph/params.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

// A dump is the folder that a debug run leaves, laid out as TVM's debug
// executor does, with one file more (docs/formats/dump.md).

// What a run records.
struct RecordOptions {
  bool tensors = true;  // output_tensors.params, as TVM writes it.
  // The statistics of every entry, in the node record file. The records'
  // times and hashes are written in any case.
  bool stats = false;
  // A regular expression of RE2's syntax; a node is recorded if it is found in
  // its name, its function's or its key (NodeKeys()), which are bytes. Empty:
  // all.
  std::string select = {};
  // Nodes outside [first_node, last_node] are not recorded.
  uint32_t first_node = 0;
  uint32_t last_node = UINT32_MAX;
  // Entries that would make the tensors' bytes in the file exceed this are left
  // out whole, decided in the order of recording; their hashes and statistics
  // are recorded all the same. 0: no limit.
  uint64_t max_bytes = 0;
  // The folder for the dumps of this executor's runs; made if it is missing.
  // Empty: each run makes a fresh one, tvmdbg_XXXXXX in $TMPDIR or /tmp.
  std::string root = {};
};

struct DumpLayout;  // runtime/dump/dump_layout.h

// What a dump will hold, decided before its first byte is written. Copies are
// cheap to record with: what all runs write alike is made once and shared.
struct DumpPlan {
  struct Item {
    EntryId entry;
    NodeId node;
    uint32_t output;
    std::string key;  // As TVM >= 0.9: name____topo-index:3____output-num:0.
    uint64_t bytes;   // Of the tensor.
  };
  std::vector<Item> items;     // Inputs of the graph first, then by node.
  std::vector<Item> left_out;  // By max_bytes.
  uint64_t tensor_bytes = 0;   // The sum over items; 0 if none is written.
  std::shared_ptr<const DumpLayout> layout;
};

// kInvalidArgument for a bad expression, or a choice of no node at all.
absl::StatusOr<DumpPlan> PlanDump(const Graph& graph,
                                  const RecordOptions& options);

// Writes the dump of one run. The producer's thread calls; a thread of the
// writer's own does the writing, behind a buffer of fixed size.
//
// Trouble with the disk does not stop the run: from then on nothing is written,
// and Close() returns the error, which names the path.
class DumpWriter {
 public:
  // Makes the run's folder: DIR/_tvmdbg_device_CPU_0 for the first run below a
  // root, DIR/run_2/_tvmdbg_device_CPU_0 for the second, and so on; a dump that
  // is there is never touched. Writes _tvmdbg_graph_dump.json and the headers.
  // `plan` and `graph` must outlive the writer. REQUIRES: `plan` is PlanDump's
  // for these options. An error names the path; nothing is left behind.
  static absl::StatusOr<std::unique_ptr<DumpWriter>> Create(
      const Graph& graph, const DumpPlan& plan, const RecordOptions& options,
      DLDevice device);

  // Without Close() the files stay as those of a killed run: cut short.
  virtual ~DumpWriter() = default;

  // The folder that holds this run's files.
  virtual const std::string& folder() const = 0;

  // Records what belongs to one node that has just run. `inputs` are hashed
  // before the node runs, as it will read them; if `is_untouched`, nothing has
  // run since DidRun(), and what that recorded has the hash that it had. Nodes
  // that are not in the plan are passed over. The calls come in the order of
  // the plan: Input() for every input of the graph by its number, then each
  // function node by its number, free ones (__nop) too. A call out of order
  // ends the recording, and Close() says so. REQUIRES: the tensors are compact
  // and what the graph says of them.
  virtual void WillRun(NodeId node, absl::Span<const DLTensor* const> inputs,
                       bool is_untouched) = 0;
  virtual void DidRun(NodeId node, absl::Span<const DLTensor* const> outputs,
                      NodeTime time) = 0;
  // An input of the graph, before the first node.
  virtual void Input(NodeId node, const DLTensor& tensor) = 0;

  // Ends the dump, waits until all is written, and writes the trace. If not
  // every planned entry was recorded the tensors' header is rewritten, so that
  // TVM can read the file; where that fails the file is left as it is, and the
  // error says how to read it. `times` by node. Only the first call counts.
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
  bool has_stats = false;
  // Of kInput and kOutput; without has_stats the hash and elements only.
  TensorStats stats;
};

// The records of a _nodewise_nodes.bin that may be cut short. kDataLoss if it
// is damaged and not just cut. Node and entry numbers are as the file has them.
absl::StatusOr<std::vector<NodeRecord>> ParseNodeRecords(
    absl::Span<const uint8_t> bytes, std::string where);

// A dump as read back, also one whose run was killed.
struct Dump {
  std::string folder;
  bool has_tensors = false;  // There is a file of tensors.
  std::string tensors_path;  // Of that.
  Params tensors;            // The complete ones, in the order of the file.
  // What the header promises and the file does not hold, in order.
  std::vector<std::string> missing;
  // The tensors' file is; its header too if none is named. Without tensors: our
  // writer did not come to the file that it makes last, the trace.
  bool is_cut = false;
  std::vector<NodeRecord> records;
  // Why there are no records although there is a file of them; the tensors hold
  // all the same.
  absl::Status records_status;
  size_t runs_beside = 0;  // Other runs below the same root.
};

// `path` is a dump root, a run's folder or its _tvmdbg_device_* folder, written
// by us or by TVM. The last run below a root is taken. Where a file of the dump
// is not there its part is empty; kNotFound if none is, kDataLoss if the
// tensors' file is damaged and not just cut.
absl::StatusOr<Dump> OpenDump(const std::string& path);

// The parts of a key as TVM 0.8 and later writes them; kInvalidArgument for
// other text.
struct DumpKey {
  std::string node;
  uint32_t topo_index = 0;
  bool has_topo_index = false;  // Not in 0.8.
  uint32_t output = 0;
};
absl::StatusOr<DumpKey> ParseDumpKey(std::string_view key);
std::string DumpKeyOf(std::string_view node, NodeId id, uint32_t output);

// The text of _tvmdbg_graph_dump.json.
std::string GraphDumpJson(const Graph& graph);

}  // namespace nodewise
