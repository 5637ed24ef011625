#include "nodewise/foreign/opaque_runner.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A network of one operation, and what is handed to it.
struct OneNode {
  Network network;
  std::vector<NamedTensor> inputs;
  std::vector<size_t> outputs;  // Those of the operation that are wanted.
};

// A version that is newer than all that are known here counts as the newest of
// them; the model that is written of the operation has its own.
absl::Status SetOpsets(const ops::Opaque& op, Network* network) {
  const auto set = [&](const std::string& domain, int64_t version) {
    // A model may be newer than the operators here; other domains have no
    // version that is known.
    const int64_t newest = domain.empty() ? kNewestOpset : INT_MAX;
    return network->SetOpset(domain,
                             static_cast<int>(std::min(version, newest)));
  };
  NODEWISE_RETURN_IF_ERROR(network->SetOpset(std::string(kOpaqueDomain), 1));
  NODEWISE_RETURN_IF_ERROR(set(op.domain, op.version));
  for (size_t i = 0; i < op.body_domains.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(set(op.body_domains[i], op.body_versions[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<OneNode> Isolate(const OperatorDef& row, const ops::Opaque& op,
                                absl::Span<const NDArray> inputs,
                                absl::Span<const bool> wanted) {
  OneNode one;
  one.network = Network(op.op_type);
  NODEWISE_RETURN_IF_ERROR(SetOpsets(op, &one.network));
  NewOperation operation;
  operation.name = op.op_type;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      operation.inputs.push_back(kNoValue);
      continue;
    }
    const std::string name = fmt::format("input_{}", i);
    // The input may have to be a constant: an operator may ask for its numbers
    // before there is a run.
    const bool is_constant = std::binary_search(
        op.constants.begin(), op.constants.end(), static_cast<int64_t>(i));
    const auto value =
        is_constant ? one.network.AddConstant(name, inputs[i])
                    : one.network.AddInput(name, TensorType::From(*inputs[i]));
    if (!value.ok()) return value.status();
    if (!is_constant) one.inputs.push_back({name, inputs[i]});
    operation.inputs.push_back(*value);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    operation.outputs.push_back(wanted[i] ? fmt::format("output_{}", i) : "");
    if (wanted[i]) one.outputs.push_back(i);
  }
  operation.attrs = OpAttrs::From(&row, op);
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            one.network.AddOperation(std::move(operation)));
  std::vector<ValueId> outputs;
  for (const size_t i : one.outputs) {
    outputs.push_back(one.network.operation(id).outputs[i]);
  }
  NODEWISE_RETURN_IF_ERROR(one.network.SetOutputs(std::move(outputs)));
  return one;
}

// Results that are kept in memory take no more than this together.
constexpr size_t kMostKeptBytes = size_t{256} << 20;
constexpr size_t kMostKept = 1024;

// What identifies one run of an operation: hashes of the node and of everything
// that it reads, with its type.
using RunKey = std::vector<uint64_t>;

// The operation is hashed with its node, since two of one kind may differ in
// attributes that only the other program understands.
RunKey KeyOf(const ops::Opaque& op, absl::Span<const NDArray> inputs,
             absl::Span<const bool> wanted) {
  const auto hash = [](const std::string& text) {
    return HashBytes(text.data(), text.size());
  };
  RunKey key = {hash(op.domain), static_cast<uint64_t>(op.version),
                hash(op.node)};
  for (const NDArray& input : inputs) {
    if (!input.defined()) {
      key.push_back(0);
      continue;
    }
    key.push_back(hash(TypeToString(input.shape(), input.dtype())));
    key.push_back(HashBytes(input.data(), input.bytes()));
  }
  for (const bool is_wanted : wanted) key.push_back(is_wanted ? 1 : 0);
  return key;
}

// The newest results. To start a program takes a second, and a search for a
// fault runs the same network with the same inputs again and again.
class KeptResults {
 public:
  // A search through all of them: comparing a thousand short keys is nothing
  // beside the start of a program.
  std::optional<std::vector<NDArray>> Find(const RunKey& key) {
    const std::lock_guard lock(mutex_);
    for (const Result& result : results_) {
      if (result.key == key) return result.outputs;
    }
    return std::nullopt;
  }

  void Add(RunKey key, const std::vector<NDArray>& outputs) {
    size_t bytes = 0;
    for (const NDArray& output : outputs) {
      bytes += output.defined() ? output.bytes() : 0;
    }
    // A result that is larger than all that may be kept would push out
    // everything else.
    if (bytes > kMostKeptBytes) return;
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    results_.push_back({std::move(key), outputs, bytes});
    while (bytes_ > kMostKeptBytes || results_.size() > kMostKept) {
      bytes_ -= results_.front().bytes;
      results_.pop_front();
    }
  }

 private:
  struct Result {
    RunKey key;
    std::vector<NDArray> outputs;
    size_t bytes = 0;
  };

  std::mutex mutex_;
  std::deque<Result> results_;  // The newest last.
  size_t bytes_ = 0;
};

class ForeignOpaqueRunner : public OpaqueRunner {
 public:
  ForeignOpaqueRunner(ForeignTarget program, const OperatorDef& row)
      : program_(std::move(program)), row_(row) {}

  absl::StatusOr<std::vector<NDArray>> Run(
      const ops::Opaque& op, absl::Span<const NDArray> inputs,
      absl::Span<const bool> wanted) const override {
    RunKey key = KeyOf(op, inputs, wanted);
    const auto kept = kept_.Find(key);
    if (kept.has_value()) return *kept;
    auto made = RunOne(op, inputs, wanted);
    if (made.ok()) {
      kept_.Add(std::move(key), *made);
      return made;
    }
    return At(fmt::format("{} by {}", NameOf(op), program_.name),
              made.status());
  }

 private:
  // A runner for each call: the network has the types of these inputs, which
  // may be others the next time.
  absl::StatusOr<std::vector<NDArray>> RunOne(
      const ops::Opaque& op, absl::Span<const NDArray> inputs,
      absl::Span<const bool> wanted) const {
    NODEWISE_ASSIGN_OR_RETURN(OneNode one, Isolate(row_, op, inputs, wanted));
    std::vector<NDArray> outputs(wanted.size());
    // Nothing of it is wanted, so that no program need be started.
    if (one.outputs.empty()) return outputs;
    ForeignTarget target = program_;
    target.network = std::make_shared<const Network>(std::move(one.network));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              MakeForeignRunner(std::move(target)));
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(one.inputs));
    for (size_t i = 0; i < one.outputs.size(); ++i) {
      outputs[one.outputs[i]] = std::move(result.outputs[i].tensor);
    }
    return outputs;
  }

  const ForeignTarget program_;
  const OperatorDef& row_;
  mutable KeptResults kept_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const OpaqueRunner>> MakeOpaqueRunner(
    ForeignTarget program, const OpSet& ops) {
  const OperatorDef* const row = ops.FindType(&kTypeTag<ops::Opaque>);
  if (row == nullptr) {
    return InvalidArgument(
        "{}: there are no opaque operations among the operators", program.name);
  }
  return std::make_shared<const ForeignOpaqueRunner>(std::move(program), *row);
}

absl::Status OrderOpaqueOperations(Network* network) {
  OperationId last = kNoOperation;
  // A copy, since barriers change the order while it is walked over.
  const std::vector<OperationId> order(network->order().begin(),
                                       network->order().end());
  for (const OperationId id : order) {
    if (network->operation(id).attrs.As<ops::Opaque>() == nullptr) continue;
    // A chain is enough, since waiting is transitive.
    if (last != kNoOperation) {
      NODEWISE_RETURN_IF_ERROR(network->RunAfter(last, id));
    }
    last = id;
  }
  return absl::OkStatus();
}

}  // namespace nodewise
