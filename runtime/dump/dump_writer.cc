#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/check.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "runtime/dump/dump_folder.h"
#include "runtime/dump/dump_layout.h"
#include "runtime/dump/dump_stream.h"

namespace nodewise {
namespace {

using Kind = NodeRecord::Kind;

// Below this, starting a thread and waiting for it takes longer than writing.
constexpr size_t kWorthAThread = size_t{128} << 10;

// Writes three files at once: the tensors, the records and, at the end, the
// trace. For each node it records the hashes of the inputs before the node
// runs, since a node may write over them, and the outputs after it. The hashes
// of the last outputs are kept for the node that reads them next, which saves
// most of the hashing.
class DumpWriterImpl final : public DumpWriter {
 public:
  DumpWriterImpl(const Graph& graph, const DumpPlan& plan,
                 const RecordOptions& options)
      : graph_(graph),
        plan_(plan),
        layout_(plan.layout),
        with_stats_(options.stats),
        with_tensors_(options.tensors),
        chunks_(plan.layout->chunks) {}

  // Removes the folder again if a file in it cannot be made, so that a failure
  // leaves nothing behind.
  absl::Status Open(const RecordOptions& options, DLDevice device) {
    NODEWISE_ASSIGN_OR_RETURN(folder_, MakeDumpFolder(options.root, device));
    absl::Status status = OpenFiles();
    if (!status.ok()) RemoveDumpFolder(folder_);
    return status;
  }

  const std::string& folder() const override { return folder_.path; }
  void WillRun(NodeId node, TensorSpan inputs, bool is_untouched) override {
    if (!is_untouched) made_last_.clear();
    if (!Records(node)) return;
    const std::vector<EntryRef>& refs = graph_.node(node).inputs;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      const EntryId id = graph_.EntryOf(refs[i]);
      const Entry& entry = layout_->entries[id];
      const Contents* const made = LatestContents(id, *inputs[i]);
      DLTensor copy;
      const DLTensor* const host =
          made != nullptr ? inputs[i] : OnHost(*inputs[i], entry, &copy);
      if (host == nullptr) return;
      // The statistics of an entry were recorded when it was made; here its
      // hash is enough to show whether it is still the same.
      const uint64_t hash =
          made != nullptr ? made->hash : HashBytes(DataOf(*host), entry.bytes);
      Append(RecordOf(Kind::kInput, node, i, id, hash), {});
    }
  }

  // The record of the time comes before those of the outputs: a reader that
  // meets it knows that the node has come to its end.
  void DidRun(NodeId node, TensorSpan outputs, NodeTime time) override {
    made_last_.clear();
    last_node_ = node;
    const std::optional<FloatChange> floats =
        std::exchange(floats_, std::nullopt);
    if (!Records(node)) return;
    const bool has_floats = floats.has_value();
    Append({.kind = static_cast<uint16_t>(Kind::kTime),
            .flags = has_floats ? kRecordHasFloats : uint16_t{0},
            .node = Index(node),
            .slot = has_floats ? PackFloats(floats->before) : 0,
            .entry = has_floats ? PackFloats(floats->after) : 0,
            .first = static_cast<uint64_t>(time.start_ns),
            .second = static_cast<uint64_t>(time.end_ns)},
           {});
    for (uint32_t i = 0; i < outputs.size(); ++i) Output(node, i, *outputs[i]);
  }

  void LeftFloatsChanged(const FloatChange& change) override {
    floats_ = change;
  }
  void Input(NodeId node, const DLTensor& tensor) override {
    if (Records(node)) Output(node, 0, tensor);
    made_last_.clear();  // Many nodes run before the one that reads it.
  }

  absl::Status Close(absl::Span<const NodeTime> times) override {
    if (chunks_.is_forked()) {
      return FailedPrecondition(
          "{}: the dump is that of the process which was forked", folder_.path);
    }
    if (is_closed_) {
      return FailedPrecondition("{}: the dump is closed already", folder_.path);
    }
    is_closed_ = is_stopped_ = true;
    // The thread, if there is one, writes the last chunks while the trace is
    // put together. Without a thread too little is left to start one for.
    if (!chunks_.has_thread()) (void)chunks_.Finish();
    tensors_.SubmitChunk();
    records_.SubmitChunk();
    const absl::Status trace = WriteTrace(times);
    absl::Status status = CloseFiles();
    folder_.unfinished.Forget();
    if (status.ok() && with_tensors_ && next_item_ < plan_.items.size()) {
      status = FixHeader();
    }
    if (!status.ok()) {
      return absl::Status(
          status.code(),
          fmt::format("{} ({} reads the tensors that are complete in {})",
                      MessageOf(status), NameOf(Way::kRecovery),
                      PathOf(kTensorsFile)));
    }
    return status_.ok() ? trace : status_;
  }

 private:
  using Entry = DumpLayout::Entry;

  // The header of the tensors is written at once: a run that is killed leaves a
  // file that can be read as far as it goes.
  absl::Status OpenFiles() {
    NODEWISE_RETURN_IF_ERROR(WriteGraphJson());
    NODEWISE_ASSIGN_OR_RETURN(records_file_,
                              GrowingFile::Create(PathOf(kRecordsFile)));
    RecordFileHeader header;
    header.record_bytes = with_stats_ ? kLongRecordBytes : kShortRecordBytes;
    NODEWISE_RETURN_IF_ERROR(records_file_.Write(&header, sizeof(header)));
    if (!with_tensors_) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(tensors_file_,
                              GrowingFile::Create(PathOf(kTensorsFile)));
    return tensors_file_.Write(layout_->params_header.data(),
                               layout_->params_header.size());
  }

  // The graph as TVM rewrites it, and beside it the artefact's own text.
  absl::Status WriteGraphJson() {
    std::string_view json = layout_->graph_json;
    if (json.empty()) json = graph_json_ = GraphDumpJson(graph_);
    NODEWISE_RETURN_IF_ERROR(WriteText(json, kGraphDumpFile, &graph_file_));
    if (graph_.text.text.empty()) return absl::OkStatus();
    return WriteText(graph_.text.text, kSourceGraphFile, &source_graph_file_);
  }

  // Writes a short one at once; a long one goes to the thread, which writes it
  // while the nodes run.
  absl::Status WriteText(std::string_view text, const char* name,
                         GrowingFile* file) {
    NODEWISE_ASSIGN_OR_RETURN(*file, GrowingFile::Create(PathOf(name)));
    if (text.size() < kWorthAThread) {
      return file->Write(text.data(), text.size());
    }
    chunks_.SubmitBorrowed(text, file);
    return absl::OkStatus();
  }

  bool Records(NodeId node) const {
    return !is_stopped_ && !chunks_.has_failed() && layout_->is_recorded[node];
  }
  // Returns null if the tensor cannot be fetched. The copy lies in memory that
  // the next call uses again.
  const DLTensor* OnHost(const DLTensor& tensor, const Entry& entry,
                         DLTensor* copy) {
    if (DeviceTypeOf(tensor.device) == kDLCPU) return &tensor;
    host_.resize(std::max<size_t>(host_.size(), entry.bytes));
    const absl::Status status = CopyToBytes(tensor, host_.data(), entry.bytes);
    if (!status.ok()) {
      Stop(At(folder_.path, status));
      return nullptr;
    }
    *copy = tensor;
    copy->data = host_.data();
    copy->byte_offset = 0;
    copy->device = kCpu;
    return copy;
  }

  struct Contents {
    const void* data;
    uint64_t hash;
  };
  // Returns the hash of an entry that the last node made, if it is still in
  // place; else null.
  const Contents* LatestContents(EntryId id, const DLTensor& tensor) const {
    if (made_last_.empty()) return nullptr;
    const uint32_t slot = Index(id) - Index(graph_.EntryOf(last_node_, 0));
    if (slot >= made_last_.size()) return nullptr;
    const Contents& contents = made_last_[slot];
    return contents.data == DataOf(tensor) ? &contents : nullptr;
  }

  DiskRecord RecordOf(Kind kind, NodeId node, uint32_t slot, EntryId id,
                      uint64_t hash) const {
    return {.kind = static_cast<uint16_t>(kind),
            .node = Index(node),
            .slot = slot,
            .entry = Index(id),
            .first = hash,
            .second = layout_->entries[id].elements};
  }

  // Returns the hash, which is kept for the node that reads the output next.
  uint64_t AppendOutput(NodeId node, uint32_t slot, EntryId id,
                        const DLTensor& tensor) {
    if (!with_stats_) {
      const size_t bytes = layout_->entries[id].bytes;
      const uint64_t hash = HashBytes(DataOf(tensor), bytes);
      Append(RecordOf(Kind::kOutput, node, slot, id, hash), {});
      return hash;
    }
    const TensorStats stats = StatsOf(tensor);
    DiskRecord record = RecordOf(Kind::kOutput, node, slot, id, stats.hash);
    record.flags = kRecordHasStats;
    if (stats.has_numbers) record.flags |= kRecordHasNumbers;
    Append(record, stats);
    return stats.hash;
  }

  void AppendTensor(NodeId node, const Entry& entry, const DLTensor& tensor) {
    if (entry.item == DumpLayout::kNoItem) return;
    // The header names the tensors in the order of the plan. A tensor out of
    // turn would get the name of another.
    if (entry.item != next_item_) {
      Stop(Internal(
          "{}: node {} was recorded as item {} of the plan, expected item {}",
          folder_.path, Index(node), entry.item, next_item_));
      return;
    }
    ++next_item_;
    tensors_.Append(layout_->heads.data() + entry.head_at, entry.head_size);
    tensors_.Append(DataOf(tensor), entry.bytes);
  }

  void Output(NodeId node, uint32_t slot, const DLTensor& tensor) {
    const EntryId id = graph_.EntryOf(node, slot);
    const Entry& entry = layout_->entries[id];
    DLTensor copy;
    const DLTensor* host = OnHost(tensor, entry, &copy);
    if (host == nullptr) return;
    const uint64_t hash = AppendOutput(node, slot, id, *host);
    made_last_.push_back({DataOf(tensor), hash});
    AppendTensor(node, entry, *host);
  }

  // All records of a file have the same length, so that a reader can skip them;
  // without numbers the statistics are zeros.
  void Append(const DiskRecord& record, const NumberStats& stats) {
    records_.Append(&record, sizeof(record));
    if (with_stats_) records_.Append(&stats, sizeof(stats));
  }

  // Keeps the first reason, since later ones follow from it.
  void Stop(absl::Status status) {
    is_stopped_ = true;
    if (status_.ok()) status_ = std::move(status);
  }

  // The trace is made last, and so tells a complete dump from one that was cut
  // short.
  absl::Status WriteTrace(absl::Span<const NodeTime> times) {
    NODEWISE_ASSIGN_OR_RETURN(trace_file_,
                              GrowingFile::Create(PathOf(kTraceFile)));
    WriteTvmTrace(graph_, times, [this](std::string_view text) {
      trace_.Append(text.data(), text.size());
    });
    trace_.SubmitChunk();
    return absl::OkStatus();
  }

  absl::Status CloseFiles() {
    absl::Status status = chunks_.Finish();
    for (GrowingFile* file : {&graph_file_, &source_graph_file_, &tensors_file_,
                              &records_file_, &trace_file_}) {
      if (status.ok() && !file->path().empty()) status = SyncFile(file->path());
      const absl::Status closed = file->Close();
      if (status.ok()) status = closed;
    }
    return status;
  }

  // The header of a run that stopped early names tensors that were never
  // written, so the tensors are copied behind a new one.
  absl::Status FixHeader() {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < next_item_; ++i) {
      names.push_back(plan_.items[i].key);
    }
    const std::string path = PathOf(kTensorsFile);
    NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
    NODEWISE_RETURN_IF_ERROR(file.Write(ParamsHeader(names)));
    NODEWISE_RETURN_IF_ERROR(
        AppendFile(path, layout_->params_header.size(), &file));
    return file.Commit();
  }

  std::string PathOf(const char* file) const {
    return folder_.path + "/" + file;
  }

  const Graph& graph_;
  const DumpPlan& plan_;
  const std::shared_ptr<const DumpLayout> layout_;
  const bool with_stats_;
  const bool with_tensors_;
  DumpFolder folder_;
  std::string graph_json_;  // Used if the layout does not keep it.
  // The files outlive the thread, and the thread the streams.
  GrowingFile graph_file_;
  GrowingFile source_graph_file_;
  GrowingFile tensors_file_;
  GrowingFile records_file_;
  GrowingFile trace_file_;
  ChunkWriter chunks_;
  DumpStream tensors_{&chunks_, &tensors_file_};
  DumpStream records_{&chunks_, &records_file_};
  DumpStream trace_{&chunks_, &trace_file_};
  uint32_t next_item_ = 0;
  // The last node's outputs, for the node that reads them next.
  NodeId last_node_{};
  std::vector<Contents> made_last_;
  std::optional<FloatChange> floats_;  // What the next node has left.
  std::vector<char> host_;             // A copy of a tensor on another device.
  bool is_stopped_ = false;
  bool is_closed_ = false;
  absl::Status status_;  // Why recording stopped.
};

}  // namespace

absl::StatusOr<std::unique_ptr<DumpWriter>> DumpWriter::Create(
    const Graph& graph, const DumpPlan& plan, const RecordOptions& options,
    DLDevice device) {
  NODEWISE_CHECK(plan.layout != nullptr);
  auto writer = std::make_unique<DumpWriterImpl>(graph, plan, options);
  NODEWISE_RETURN_IF_ERROR(writer->Open(options, device));
  return std::unique_ptr<DumpWriter>(std::move(writer));
}

}  // namespace nodewise
