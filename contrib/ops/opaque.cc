#include "nodewise/ops/opaque.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// There is one runner for the whole process, since what evaluates an operation
// need not know that it is opaque: a body, a region of a lowered graph read
// from text, a node that is checked alone.
struct RunnerOfProcess {
  std::mutex mutex;
  std::shared_ptr<const OpaqueRunner> runner;
};

// The runner is never destroyed, since a thread may still evaluate when the
// process ends.
RunnerOfProcess& RunnerState() {
  static auto* const runner = new RunnerOfProcess;
  return *runner;
}

struct Opaque : ops::Opaque {
  static constexpr auto Fields() {
    return FieldList(
        RequiredField<&Opaque::op_type>("op_type"),
        Field<&Opaque::domain>("domain"), Field<&Opaque::version>("version"),
        RequiredField<&Opaque::node>("node"),
        Field<&Opaque::captures>("captures"),
        Field<&Opaque::body_domains>("body_domains"),
        Field<&Opaque::body_versions>("body_versions"),
        Field<&Opaque::constants>("constants"), Field<&Opaque::types>("types"));
  }

  absl::Status Check(const Inputs& in) const {
    if (op_type.empty() || node.empty()) {
      return AttributeError(op_type.empty() ? "op_type" : "node",
                            "is missing, Opaque needs it");
    }
    // Both lists describe the same domains, one after the other.
    if (body_domains.size() != body_versions.size()) {
      return WrongAttribute(
          "body_versions",
          "has {} numbers, expected {}, as many as body_domains",
          body_versions.size(), body_domains.size());
    }
    if (captures.size() > in.size()) {
      return WrongAttribute(
          "captures", "has {} names, expected at most {}, one for each input",
          captures.size(), in.size());
    }
    // Captures come last, and a body cannot do without them.
    for (size_t i = in.size() - captures.size(); i < in.size(); ++i) {
      if (!in.has(i)) return InputError(i, "is not given, and a body reads it");
    }
    // Ascending order rules out that one is named twice.
    int64_t last = -1;
    for (const int64_t input : constants) {
      if (input <= last || input >= static_cast<int64_t>(in.size())) {
        return WrongAttribute("constants",
                              "names input {}, expected one of the "
                              "{} inputs, in ascending order",
                              input, in.size());
      }
      last = input;
    }
    return absl::OkStatus();
  }

  // All that is known is what the model states.
  absl::StatusOr<OutputInfos> Infer(const Inputs&, size_t count) const {
    if (types.size() > count) {
      return WrongAttribute(
          "types", "has {} types, expected at most {}, one for each output",
          types.size(), count);
    }
    // Outputs beyond the types that are stated stay unknown.
    OutputInfos infos(count);
    for (size_t i = 0; i < types.size(); ++i) infos[i] = types[i];
    return infos;
  }

  Support SupportOn(const TargetTraits&, const Inputs&) const {
    if (CurrentOpaqueRunner() != nullptr) return {};
    return {false, OpaqueReason(), {}};
  }

  absl::Status Evaluate(EvalArgs& args) const {
    // Held for the whole run, since another thread may set another one.
    const auto runner = CurrentOpaqueRunner();
    if (runner == nullptr) {
      return Unimplemented("{}, expected a program that runs it ({})",
                           OpaqueReason(), NameOf(Way::kOpaqueProgram));
    }
    // Inputs that are left out keep their places, as undefined tensors.
    std::vector<NDArray> inputs(args.num_inputs());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (args.has(i)) inputs[i] = args.in(i);
    }
    absl::InlinedVector<bool, 4> wanted;
    for (size_t i = 0; i < args.num_outputs(); ++i) {
      wanted.push_back(args.wants(i));
    }
    NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> outputs,
                              runner->Run(*this, inputs, wanted));
    // A result that is not wanted is undefined, and so it stays.
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      NODEWISE_RETURN_IF_ERROR(CheckStated(i, outputs[i]));
      args.SetOutput(i, std::move(outputs[i]));
    }
    return absl::OkStatus();
  }

 private:
  std::string OpaqueReason() const {
    return fmt::format("is opaque, since {} is not known here", NameOf(*this));
  }

  // A model may state another type than its runtime makes.
  absl::Status CheckStated(size_t i, const NDArray& output) const {
    const TensorType made = TensorType::From(*output);
    if (i >= types.size() || AreCompatible(made, types[i])) {
      return absl::OkStatus();
    }
    return DataLoss(
        "output {}: the program made {}, expected {} as the model states", i,
        ToString(made), ToString(types[i]));
  }
};

// An operator that is known only by name, so that the message for a model that
// has it says why it is refused: the decoding of images is not debugged in a
// compiled network, and each format would need a library.
struct ImageDecoder : ops::ImageDecoder {
  static constexpr auto Fields() {
    return FieldList(Field<&ImageDecoder::pixel_format>("pixel_format"));
  }
  absl::Status Check(const Inputs&) const {
    return Unimplemented(
        "decodes image files, which is refused, expected the decoded image "
        "(decode it first and make its output an input of the model)");
  }
  OutputInfos Infer(const Inputs&) const { return {TensorType(kUint8)}; }
  absl::Status Evaluate(EvalArgs&) const { return Check(Inputs({})); }
};

// No bound can be given on the results of an operator that is not known.
constexpr OperatorDef kOpaqueRows[] = {
    Row<ops::Opaque, Opaque>({.name = "Opaque",
                              .domain = kOpaqueDomain,
                              .since = 1,
                              .inputs = {Variadic("inputs")},
                              .outputs = {Variadic("outputs")},
                              .bound = kSum,
                              .may_skip_inputs = true}),
    Row<ops::ImageDecoder, ImageDecoder>("ImageDecoder", 20, {"encoded_stream"},
                                         {"image"}),
};

}  // namespace

void SetOpaqueRunner(std::shared_ptr<const OpaqueRunner> runner) {
  RunnerOfProcess& current = RunnerState();
  const std::lock_guard lock(current.mutex);
  current.runner = std::move(runner);
}

std::shared_ptr<const OpaqueRunner> CurrentOpaqueRunner() {
  RunnerOfProcess& current = RunnerState();
  const std::lock_guard lock(current.mutex);
  return current.runner;
}

absl::Span<const OperatorDef> OpaqueOperators() { return kOpaqueRows; }

}  // namespace nodewise
