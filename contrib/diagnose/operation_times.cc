// How long a program takes for each operation of a model, alone.
//
// Every operation is cut out as a model of its own and run by the program with
// the values that the reference has for its inputs. The sum of these times need
// not be that of the whole model, and how they differ is a finding of its own.

#include "nodewise/diagnose/operation_times.h"

#include <algorithm>
#include <utility>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/profile/profile.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_collector.h"

namespace nodewise {
namespace {

// A median, since a run that the system interrupts takes any time.
double MedianUs(const std::vector<int64_t>& ns) {
  return MedianOf({ns.begin(), ns.end()}) / 1e3;
}

// Returns the times of the runs but for the first, in which most programs still
// prepare something.
absl::StatusOr<std::vector<int64_t>> TimesOf(
    const NetworkProgram& program, const ProgramRequest& request,
    absl::Span<const NamedTensor> inputs, uint64_t repeats,
    std::string* runtime) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, program.make(request));
  RunOptions options;
  options.repeats = repeats + 1;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(inputs, options));
  const std::vector<int64_t>& ns = result.durations_ns;
  // A program that says only how long all runs took together is taken to have
  // had runs of equal length, which does not measure any of them. Shares of one
  // time are alike to the nanosecond; times that were measured are not.
  if (ns.size() > 2 && std::ranges::count(ns, ns[0]) == std::ssize(ns)) {
    return Unimplemented(
        "says no times of its runs, expected durations_ns in its answer");
  }
  *runtime = std::move(result.runtime);
  return std::vector<int64_t>(ns.begin() + 1, ns.end());
}

// Constants stay in the cut network, so that the program can prepare them as it
// does in the whole model. Each value is an input once.
absl::StatusOr<double> TimeAlone(const NetworkProgram& program,
                                 const Network& network,
                                 const Operation& operation, uint64_t repeats,
                                 TensorCollector* values) {
  std::vector<ValueId> to;
  for (const ValueId id : operation.outputs) {
    if (id != kNoValue) to.push_back(id);
  }
  std::vector<ValueId> from;
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue || std::ranges::count(from, id) > 0 ||
        network.value(id).kind == NetworkValue::Kind::kConstant) {
      continue;
    }
    from.push_back(id);
  }
  NODEWISE_ASSIGN_OR_RETURN(Network cut, ExtractNetwork(network, from, to));
  std::vector<NamedTensor> inputs;
  const auto list = ListInputs(cut);
  for (size_t i = 0; i < list->size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              values->Find({.node = list->Name(i)}));
    inputs.push_back({list->Name(i), std::move(tensor)});
  }
  std::string runtime;
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> ns,
      TimesOf(program, {std::make_shared<const Network>(std::move(cut))},
              inputs, repeats, &runtime));
  return MedianUs(ns);
}

}  // namespace

size_t ProgramTimes::CountUntimed() const {
  return static_cast<size_t>(std::ranges::count_if(
      operations,
      [](const OperationTime& each) { return !each.why_not.empty(); }));
}

// The values between operations come from the reference, which hands out all of
// them; the program would have to be changed for that.
absl::StatusOr<ProgramTimes> TimeOperations(
    const Session& session, uint64_t repeats,
    const std::function<void(size_t done, size_t all)>& progress) {
  const Network& network = *session.network;
  const std::vector<NamedTensor> inputs = session.NamedInputs();
  ProgramTimes times;
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> plain,
      TimesOf(*session.program, {session.network, session.model_file}, inputs,
              repeats, &times.runtime));
  times.plain_us = MedianUs(plain);
  TensorCollector values;
  const auto reference =
      MakeNetworkRunner("interpreter", session.name, session.network);
  RunOptions options;
  options.sink = &values;
  NODEWISE_RETURN_IF_ERROR(reference->Run(inputs, options).status());
  for (const OperationId id : network.order()) {
    if (progress) progress(times.operations.size(), network.order().size());
    const Operation& operation = network.operation(id);
    OperationTime& row = times.operations.emplace_back();
    row.name = operation.name;
    row.kind = operation.kind();
    const auto us =
        TimeAlone(*session.program, network, operation, repeats, &values);
    if (us.ok()) {
      row.us = *us;
      times.sum_us += *us;
    } else {
      row.why_not = MessageOf(us.status());
    }
  }
  return times;
}

}  // namespace nodewise
