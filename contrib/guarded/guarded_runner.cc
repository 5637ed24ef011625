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
#include "nodewise/process/thread_census.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// In the child, tells the waiting process where a run is.
class Watcher : public NodeObserver {
 public:
  // The threads that there are now were started by no node.
  void SetSender(RunSender* sender) {
    sender_ = sender;
    census_.emplace();
  }

  // The message goes out before the node runs: it is what the waiting process
  // knows of a node that never comes back.
  absl::Status BeforeNode(const NodeRun& run) override {
    arguments_.emplace(run.inputs, run.outputs);
    return sender_ == nullptr ? absl::OkStatus()
                              : sender_->NodeBegins(Index(run.node));
  }
  // Fails if the node changed its arguments, since later nodes would read them.
  absl::Status AfterNode(const NodeRun& run) override {
    if (census_.has_value()) {
      // Threads that a node has left behind may crash later, in a node that has
      // nothing to do with it.
      census_->Note(Index(run.node));
      NoteLeftThreads(*census_);
    }
    const std::string change = arguments_->FindChange();
    if (!change.empty()) return absl::AbortedError(change);
    return sender_ == nullptr ? absl::OkStatus() : sender_->NodeEnds();
  }

 private:
  RunSender* sender_ = nullptr;
  std::optional<ArgumentRecord> arguments_;
  std::optional<ThreadCensus> census_;
};

// In the child, sends tensors away.
class SendingSink : public TensorSink {
 public:
  SendingSink(RunSender* sender, bool hashes_suffice)
      : sender_(*sender), hashes_suffice_(hashes_suffice) {}

  absl::Status Consume(const TensorItem& item) override {
    return sender_.Send(item, hashes_suffice_);
  }

 private:
  RunSender& sender_;
  const bool hashes_suffice_;
};

// In the waiting process, knows what the child has sent.
class Listener : public RunListener {
 public:
  // All must outlive it.
  Listener(const GraphIndex& index, const GivenTensors& given,
           const RunOptions& options)
      : index_(index), given_(given), options_(options) {}

  absl::Status NodeBegins(uint32_t node) override {
    running = last = NodeId{node};
    return absl::OkStatus();
  }
  absl::Status NodeEnds() override {
    if (running.has_value()) DropAfter(*running);
    running.reset();
    return absl::OkStatus();
  }
  absl::Status Consume(const TensorItem& item) override {
    const bool is_needed = options_.with_node_inputs &&
                           item.key.role == TensorRole::kOutput &&
                           item.lasting.defined();
    if (is_needed) made_[item.key] = item.lasting;
    return options_.sink == nullptr ? absl::OkStatus()
                                    : options_.sink->Consume(item);
  }
  absl::Status Consume(RunResult received) override {
    running.reset();
    result = std::move(received);
    return absl::OkStatus();
  }

  NDArray FindGivenTensor(const std::string& name) const override {
    return FindIn(given_, name);
  }
  NDArray FindMade(const TensorKey& key) const override {
    return FindIn(made_, key);
  }

  // The node that has begun and not ended, and the one that began last. They
  // are what the child says, so they may be numbers of no node at all.
  std::optional<NodeId> running, last;
  std::optional<RunResult> result;

 private:
  template <typename Map>
  static NDArray FindIn(const Map& tensors,
                        const typename Map::key_type& name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? NDArray() : found->second;
  }

  // Lets go what no later node reads, so that a run does not fill the memory of
  // the waiting process with all that its nodes have made.
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
};

NodeFailure::Kind KindOf(const ChildEnd& end) {
  switch (end.kind) {
    case ChildEnd::Kind::kReturned:
      return NodeFailure::Kind::kError;
    case ChildEnd::Kind::kSignal:
      return NodeFailure::Kind::kCrash;
    case ChildEnd::Kind::kTimeout:
      return NodeFailure::Kind::kHang;
    default:
      return NodeFailure::Kind::kExit;
  }
}

// It is unknown then what the node would have done: the system takes memory
// back like that.
bool WasKilledFromOutside(const ChildEnd& end) {
  if (end.kind == ChildEnd::Kind::kVanished) return true;
  if (end.is_own) return false;
  constexpr int kSent[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
  return end.kind == ChildEnd::Kind::kSignal &&
         std::ranges::find(kSent, end.signal) != std::end(kSent);
}

bool ReturnedOk(const ChildEnd& end) {
  return end.kind == ChildEnd::Kind::kReturned && end.status.ok();
}

// A child that says it is done, and has sent no result, was made to say so.
absl::StatusCode CodeOf(const ChildEnd& end) {
  if (ReturnedOk(end)) return absl::StatusCode::kAborted;
  if (end.kind == ChildEnd::Kind::kReturned) return end.status.code();
  return end.kind == ChildEnd::Kind::kTimeout
             ? absl::StatusCode::kDeadlineExceeded
             : absl::StatusCode::kAborted;
}

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
      return ReceiveMessage(reader, name_, &listener_);
    });
    if (!end.ok()) return ReceiveFailure(end.status());
    if (!ReturnedOk(*end) || !listener_.result.has_value())
      return FailureOfChild(*end);
    NoteFloats(listener_.result->floats);
    return *std::move(listener_.result);
  }

 private:
  // The node of a number that came from the child or its end; none if the graph
  // has no such node.
  std::optional<NodeId> Known(std::optional<NodeId> node) const {
    const bool is_known =
        node.has_value() && Index(*node) < target_.graph().nodes.size();
    return is_known ? node : std::nullopt;
  }

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
  absl::Status ReceiveFailure(const absl::Status& status) const {
    const std::optional<NodeId> running = Known(listener_.running);
    if (!absl::IsDataLoss(status) || !running.has_value()) return status;
    const GraphIndex& index = target_.index();
    return StatusOf({NodeFailure::Kind::kError, index.KeyOf(*running),
                     "wrote to descriptors that are not its own, and to the "
                     "pipe to this process with them"},
                    index.TitleOf(*running), status.code());
  }

  absl::Status FailureOfChild(const ChildEnd& end) const {
    const int64_t limit_ms = options_.node_limit_ms;
    const GraphIndex& index = target_.index();
    const bool is_left_thread =
        end.is_left_thread && Known(NodeId{*end.left_by}).has_value();
    const auto running =
        is_left_thread ? NodeId{*end.left_by} : Known(listener_.running);
    if (!running.has_value()) return FailureBetweenNodes(end);
    const NodeId node = *running;
    const std::string title = index.TitleOf(node);
    if (MayBeLeftThread(end, node)) {
      return Aborted(
          "{}: {}: {}, or a thread did that which {} has left behind", name_,
          title, end.ToString(limit_ms), index.TitleOf(NodeId{*end.left_by}));
    }
    if (WasKilledFromOutside(end)) {
      return Aborted("{}: {}: its process was ended from outside: {}", name_,
                     title, end.ToString(limit_ms));
    }
    NodeFailure failure{KindOf(end), index.KeyOf(node), end.ToString(limit_ms)};
    if (is_left_thread) {
      failure.what = "left a thread behind, which " + failure.what;
    }
    // An error of a node names it already.
    if (failure.what.starts_with(title + ": ")) {
      failure.what.erase(0, title.size() + 2);
    }
    if (ReturnedOk(end)) failure.what = "ended the run without a result";
    return StatusOf(failure, title, CodeOf(end));
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
  absl::Status FailureBetweenNodes(const ChildEnd& end) const {
    if (end.kind == ChildEnd::Kind::kReturned && !end.status.ok()) {
      return end.status;
    }
    std::string where = "before the first node";
    if (const auto last = Known(listener_.last)) {
      where = "after " + target_.index().TitleOf(*last);
    }
    const std::string what = ReturnedOk(end)
                                 ? "ended without a result"
                                 : end.ToString(options_.node_limit_ms);
    return Aborted(
        "{}: {}, outside of any node, {} (has a node written over memory that "
        "is not its own? {} looks for it)",
        name_, what, where, NameOf(Way::kSanitizer));
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
    const std::vector<NamedTensor> given =
        NameGivenTensors(inputs(), std::move(tensors));
    GivenTensors known = params_;
    for (const NamedTensor& each : given) known[each.name] = each.tensor;
    // `known` is copied by the fork itself, so both sides compare with the same
    // tensors.
    NODEWISE_ASSIGN_OR_RETURN(auto child,
                              PipedRun::Start(
                                  [&](PipeWriter& writer) {
                                    RunSender sender(&writer, known);
                                    return Work(given, options, &sender);
                                  },
                                  options.node_limit_ms));
    return std::make_unique<GuardedRun>(name_, *target_, std::move(known),
                                        options, std::move(child));
  }

 private:
  // Runs in the child.
  absl::Status Work(const std::vector<NamedTensor>& given,
                    const RunOptions& options, RunSender* sender) const {
    SendingSink sink(sender, options.hashes_suffice);
    RunOptions inner = options;
    if (options.sink != nullptr) inner.sink = &sink;
    watcher_->SetSender(sender);
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, inner_->Run(given, inner));
    // Asked in the child, since its memory is gone when the waiting process
    // learns of its end.
    result.bytes_beside = MostPrivateBytes();
    return sender->Send(result);
  }

  const std::string name_;
  const std::shared_ptr<const GraphTarget> target_;
  const std::unique_ptr<Watcher> watcher_;
  const std::unique_ptr<Runner> inner_;
  GivenTensors params_;
};

}  // namespace

bool CanBeGuarded(const GraphTarget& target) {
  return std::ranges::all_of(target.devices(), [](const DLDevice& device) {
    return device.device_type == kDLCPU;
  });
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
