#include "nodewise/guarded/guarded_runner.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "contrib/guarded/guarded_messages.h"
#include "fmt/format.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/finding.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/process/process_state.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// In the child, tells where a run is.
class Watcher : public NodeObserver {
 public:
  // The threads that there are now were started by no node.
  void SetTeller(RunTeller* teller) {
    teller_ = teller;
    census_.emplace();
  }

  absl::Status BeforeNode(const NodeRun& run) override {
    arguments_.emplace(run.inputs, run.outputs);
    return teller_ == nullptr ? absl::OkStatus()
                              : teller_->NodeBegins(Index(run.node));
  }
  // Fails if the node changed its arguments, since later nodes would read them.
  absl::Status AfterNode(const NodeRun& run) override {
    if (census_.has_value()) {
      census_->Note(Index(run.node));
      NoteLeftThreads(*census_);
    }
    const std::string change = arguments_->FindChange();
    if (!change.empty()) return absl::AbortedError(change);
    return teller_ == nullptr ? absl::OkStatus() : teller_->NodeEnds();
  }

 private:
  RunTeller* teller_ = nullptr;
  // The arguments of the running node.
  std::optional<ArgumentRecord> arguments_;
  std::optional<ThreadCensus> census_;
};

// In the child, sends tensors away.
class TellingSink : public TensorSink {
 public:
  TellingSink(RunTeller* teller, bool hashes_suffice)
      : teller_(*teller), hashes_suffice_(hashes_suffice) {}

  absl::Status Take(const TensorItem& item) override {
    return teller_.Tell(item, hashes_suffice_);
  }

 private:
  RunTeller& teller_;
  const bool hashes_suffice_;
};

// In the waiting process, knows what the child has told.
class Listener : public RunListener {
 public:
  // All must outlive it.
  Listener(const GraphIndex& index, const GivenTensors& given,
           const RunOptions& options)
      : index_(index), given_(given), options_(options) {}

  absl::Status NodeBegins(uint32_t node) override {
    running_ = NodeId{node};
    last_ = NodeId{node};
    return absl::OkStatus();
  }
  absl::Status NodeEnds() override {
    if (running_.has_value()) DropAfter(*running_);
    running_.reset();
    return absl::OkStatus();
  }
  absl::Status Take(const TensorItem& item) override {
    const bool is_needed = options_.with_node_inputs &&
                           item.key.role == TensorRole::kOutput &&
                           item.lasting.defined();
    if (is_needed) made_[item.key] = item.lasting;
    return options_.sink == nullptr ? absl::OkStatus()
                                    : options_.sink->Take(item);
  }
  absl::Status Take(RunResult result) override {
    running_.reset();
    result_ = std::move(result);
    return absl::OkStatus();
  }

  NDArray FindGiven(const std::string& name) const override {
    const auto found = given_.find(name);
    return found == given_.end() ? NDArray() : found->second;
  }
  NDArray FindMade(const TensorKey& key) const override {
    const auto found = made_.find(key);
    return found == made_.end() ? NDArray() : found->second;
  }

  // The node that has begun and not ended, and the one that began last.
  std::optional<NodeId> running() const { return running_; }
  std::optional<NodeId> last() const { return last_; }
  std::optional<RunResult>& result() { return result_; }

 private:
  // Lets go what no later node reads.
  void DropAfter(NodeId node) {
    const Graph& graph = index_.graph();
    if (Index(node) >= graph.nodes.size()) return;
    for (const EntryRef& ref : graph.node(node).inputs) {
      const EntryId entry = graph.EntryOf(ref);
      if (index_.LifetimeOf(entry).last_read > int64_t{Index(node)}) continue;
      for (const EntryId alias : {entry, index_.BaseOf(entry)}) {
        const NodeId maker = graph.NodeOf(alias);
        const uint32_t slot = Index(alias) - Index(graph.EntryOf(maker, 0));
        made_.erase(TensorKey{index_.KeyOf(maker), slot});
      }
    }
  }

  const GraphIndex& index_;
  const GivenTensors& given_;
  const RunOptions& options_;
  std::unordered_map<TensorKey, NDArray> made_;
  std::optional<NodeId> running_;
  std::optional<NodeId> last_;
  std::optional<RunResult> result_;
};

NodeFailure::Kind KindOf(const ChildEnd& end) {
  switch (end.kind) {
    case ChildEnd::Kind::kReturned:
      return NodeFailure::Kind::kError;
    case ChildEnd::Kind::kSignal:
      return NodeFailure::Kind::kCrash;
    case ChildEnd::Kind::kTimeout:
      return NodeFailure::Kind::kHang;
    case ChildEnd::Kind::kExit:
    case ChildEnd::Kind::kVanished:
      break;
  }
  return NodeFailure::Kind::kExit;
}

// It is unknown then what the node would have done: the system takes memory
// back like that.
bool WasEndedFromOutside(const ChildEnd& end) {
  if (end.kind == ChildEnd::Kind::kVanished) return true;
  if (end.is_own) return false;
  constexpr int kSent[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
  return end.kind == ChildEnd::Kind::kSignal &&
         std::find(std::begin(kSent), std::end(kSent), end.signal) !=
             std::end(kSent);
}

absl::StatusCode CodeOf(const ChildEnd& end) {
  if (end.kind == ChildEnd::Kind::kReturned) return end.status.code();
  return end.kind == ChildEnd::Kind::kTimeout
             ? absl::StatusCode::kDeadlineExceeded
             : absl::StatusCode::kAborted;
}

// What a child does, seen from the waiting process.
class GuardedRun : public PendingRun {
 public:
  // The target must outlive it.
  GuardedRun(std::string name, const GraphTarget& target, GivenTensors known,
             RunOptions options, std::unique_ptr<PipedRun> child)
      : name_(std::move(name)),
        target_(target),
        known_(std::move(known)),
        options_(std::move(options)),
        listener_(target.index(), known_, options_),
        child_(std::move(child)) {}

  absl::StatusOr<RunResult> Finish() override {
    const auto end = child_->Finish([&](PipeReader& reader) {
      return HearMessage(reader, name_, &listener_);
    });
    if (!end.ok()) return WhyNotHeard(end.status());
    const bool is_done = end->kind == ChildEnd::Kind::kReturned &&
                         end->status.ok() && listener_.result().has_value();
    if (is_done) {
      NoteFloats(listener_.result()->floats);
      return *std::move(listener_.result());
    }
    return WhyNot(*end);
  }

 private:
  // What the child has noted is gone with it.
  void NoteFloats(const std::vector<NodeFloats>& nodes) const {
    for (const NodeFloats& node : nodes) {
      const auto id = target_.index().FindNode(node.key);
      if (!id.ok()) continue;
      NoteFloatFinding(
          FloatFinding(PlaceOf(target_.index(), *id), node.change));
    }
  }

  // Bytes that are not a message were written by the node that was running.
  absl::Status WhyNotHeard(const absl::Status& status) const {
    const std::optional<NodeId> running = listener_.running();
    if (!absl::IsDataLoss(status) || !running.has_value() ||
        Index(*running) >= target_.graph().nodes.size()) {
      return status;
    }
    const GraphIndex& index = target_.index();
    return StatusOf({NodeFailure::Kind::kError, index.KeyOf(*running),
                     "wrote to descriptors that are not its own, and to the "
                     "pipe to this process with them"},
                    index.TitleOf(*running), status.code());
  }

  absl::Status WhyNot(const ChildEnd& end) const {
    const int64_t limit_ms = options_.node_limit_ms;
    const GraphIndex& index = target_.index();
    const size_t nodes = target_.graph().nodes.size();
    std::optional<NodeId> running = listener_.running();
    const bool is_left_thread = end.is_left_thread && *end.left_by < nodes;
    if (is_left_thread) running = NodeId{*end.left_by};
    if (!running.has_value() || Index(*running) >= nodes) {
      return WhyNotBetweenNodes(end);
    }
    const NodeId node = *running;
    const std::string title = index.TitleOf(node);
    if (MayBeLeftThread(end, node)) {
      return absl::AbortedError(fmt::format(
          "{}: {}: {}, or a thread did that which {} has left behind", name_,
          title, end.ToString(limit_ms), index.TitleOf(NodeId{*end.left_by})));
    }
    if (WasEndedFromOutside(end)) {
      return absl::AbortedError(
          fmt::format("{}: {}: its process was ended from outside: {}", name_,
                      title, end.ToString(limit_ms)));
    }
    NodeFailure failure{KindOf(end), index.KeyOf(node), end.ToString(limit_ms)};
    if (is_left_thread) {
      failure.what = "left a thread behind, which " + failure.what;
    }
    if (failure.what.starts_with(title + ": ")) {
      failure.what.erase(0, title.size() + 2);
    }
    const bool is_ok = end.kind == ChildEnd::Kind::kReturned && end.status.ok();
    if (is_ok) failure.what = "ended the run without a result";
    return StatusOf(failure, title,
                    is_ok ? absl::StatusCode::kAborted : CodeOf(end));
  }

  // Whether it may have been a thread of an earlier node that ended the
  // process, in a way that says nothing of who did.
  bool MayBeLeftThread(const ChildEnd& end, NodeId running) const {
    if (!end.left_by.has_value() || end.is_known_thread) return false;
    const bool ended = end.kind == ChildEnd::Kind::kExit ||
                       end.kind == ChildEnd::Kind::kSignal;
    return ended && *end.left_by < Index(running);
  }

  // The failure cannot be blamed on a node for sure.
  absl::Status WhyNotBetweenNodes(const ChildEnd& end) const {
    if (end.kind == ChildEnd::Kind::kReturned && !end.status.ok()) {
      return end.status;
    }
    std::string where = "before the first node";
    const std::optional<NodeId> last = listener_.last();
    if (last.has_value() && Index(*last) < target_.graph().nodes.size()) {
      where = "after " + target_.index().TitleOf(*last);
    }
    const std::string what = end.kind == ChildEnd::Kind::kReturned
                                 ? "ended without a result"
                                 : end.ToString(options_.node_limit_ms);
    return absl::AbortedError(fmt::format(
        "{}: {}, outside of any node, {} (has a node written over memory that "
        "is not its own? {} looks for it)",
        name_, what, where, NameOf(Way::kSanitizer)));
  }

  const std::string name_;
  const GraphTarget& target_;
  const GivenTensors known_;
  const RunOptions options_;
  Listener listener_;
  const std::unique_ptr<PipedRun> child_;
};

class GuardedRunner : public Runner {
 public:
  // `watcher` sees the runs of `inner`.
  GuardedRunner(std::shared_ptr<const GraphTarget> target,
                std::unique_ptr<Watcher> watcher, std::unique_ptr<Runner> inner,
                std::string_view kind)
      : name_(fmt::format("{} {}", kind, target->name())),
        target_(std::move(target)),
        watcher_(std::move(watcher)),
        inner_(std::move(inner)) {
    for (const NamedTensor& param : target_->artefact().params.tensors) {
      params_[param.name] = param.tensor;  // The last of a name counts.
    }
  }

  const std::string& name() const override { return name_; }
  const InputList& inputs() const override { return inner_->inputs(); }
  const std::vector<std::string>& outputs() const override {
    return inner_->outputs();
  }
  bool Can(Capability capability) const override {
    return inner_->Can(capability);
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    NODEWISE_ASSIGN_OR_RETURN(const auto run,
                              StartChecked(std::move(tensors), options));
    return run->Finish();
  }

  absl::StatusOr<std::unique_ptr<PendingRun>> StartChecked(
      std::vector<NDArray> tensors, const RunOptions& options) override {
    std::vector<NamedTensor> given;
    GivenTensors known = params_;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      const std::string key = inputs().Key(i);
      known[key] = tensors[i];
      given.push_back({key, std::move(tensors[i])});
    }
    NODEWISE_ASSIGN_OR_RETURN(auto child,
                              PipedRun::Start(
                                  [&](PipeWriter& writer) {
                                    RunTeller teller(&writer, known);
                                    return Work(given, options, &teller);
                                  },
                                  options.node_limit_ms));
    return std::make_unique<GuardedRun>(name_, *target_, std::move(known),
                                        options, std::move(child));
  }

 private:
  // In the child.
  absl::Status Work(const std::vector<NamedTensor>& given,
                    const RunOptions& options, RunTeller* teller) const {
    TellingSink sink(teller, options.hashes_suffice);
    RunOptions told = options;
    if (options.sink != nullptr) told.sink = &sink;
    watcher_->SetTeller(teller);
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, inner_->Run(given, told));
    result.bytes_beside = MostPrivateBytes();
    return teller->Tell(result);
  }

  const std::string name_;
  const std::shared_ptr<const GraphTarget> target_;
  const std::unique_ptr<Watcher> watcher_;
  const std::unique_ptr<Runner> inner_;
  GivenTensors params_;
};

}  // namespace

bool CanBeGuarded(const GraphTarget& target) {
  return std::all_of(
      target.devices().begin(), target.devices().end(),
      [](const DLDevice& device) { return device.device_type == kDLCPU; });
}

absl::StatusOr<std::unique_ptr<Runner>> MakeGuardedRunner(
    std::shared_ptr<const GraphTarget> target, TensorAddresses addresses) {
  auto watcher = std::make_unique<Watcher>();
  NODEWISE_ASSIGN_OR_RETURN(auto inner,
                            MakeDebugRunner(target, watcher.get(), addresses));
  return std::make_unique<GuardedRunner>(
      std::move(target), std::move(watcher), std::move(inner),
      addresses == TensorAddresses::kBarelyAligned ? "barely_aligned"
                                                   : "guarded");
}

}  // namespace nodewise
