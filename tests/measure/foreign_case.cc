#include "tests/measure/foreign_case.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "tests/measure/method.h"

namespace nodewise {
namespace {

using Outcome = Result::Outcome;

constexpr std::string_view kOrt = "ort-";
// The limit of one run of the program.
constexpr int64_t kLimitMs = 120'000;
// Each is a start of the program.
constexpr int kRunsAgain = 1;

// What onnxruntime is known to compute otherwise than ONNX says
// (tests/onnx/ort_deviations.md), as far as a model can show it. What is named
// for one of these alone is listed and not counted.
struct TheirFault {
  std::string_view kind;  // The operation's kind.
  std::string_view why;
};
constexpr TheirFault kTheirFaults[] = {
    {"LSTM", "does not clip the input of the last activation"},
    {"MatMulInteger", "saturates sums of pairs in 16 bits without VNNI"},
    {"Pow", "computes integers in float64"},
    {"QLinearConv", "saturates sums of pairs in 16 bits without VNNI"},
    {"QLinearMatMul", "saturates sums of pairs in 16 bits without VNNI"},
    {"ReduceLogSumExp", "is off by one in places for integers"},
    {"Resize", "takes other sizes and places for scales"},
    {"Shrink", "computes float64 in float32"},
};

absl::Status BadName(std::string_view name) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\": is not a foreign subject, expected "
                  "light:NAME/SEED+ort-LEVEL",
                  Printable(name)));
}

const TheirFault* FindTheirFault(const Network& network,
                                 const std::string& name) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (operation.name != name) continue;
    for (const TheirFault& fault : kTheirFaults) {
      if (fault.kind == operation.kind()) return &fault;
    }
  }
  return nullptr;
}

// Returns why all that is named is known to be wrong; empty if some is not.
std::string ReasonFor(const ForeignSubject& subject,
                      const NetworkLocated& located) {
  std::vector<std::string> reasons;
  for (const Culprit& culprit : located.result.culprits) {
    const NodeReport& node = located.result.nodes[culprit.report];
    const TheirFault* known = nullptr;
    for (const std::string& name : node.covers) {
      known = FindTheirFault(*subject.network, name);
      if (known != nullptr) break;
    }
    if (known == nullptr) return "";
    reasons.push_back(
        fmt::format("{} ({}) {}", node.key, known->kind, known->why));
  }
  return ListOf(reasons, 5);
}

std::string TextOf(const NetworkLocated& located) {
  std::vector<std::string> names;
  for (const Culprit& culprit : located.result.culprits) {
    const NodeReport& node = located.result.nodes[culprit.report];
    names.push_back(fmt::format("{} ({}: {})", node.key, NameOf(node.verdict),
                                node.reason));
  }
  return ListOf(names, 5);
}

NetworkLocateRequest RequestOf(const ForeignSubject& subject,
                               const std::string& python) {
  ForeignTarget target;
  target.name = subject.name;
  target.command = {
      "onnxruntime",
      {python, "-I",
       NODEWISE_SOURCE_DIR "/apps/adapters/onnxruntime_adapter.py",
       fmt::format("--level={}", subject.level)}};
  target.network = subject.network;
  target.model_file = subject.model_file;
  target.limits.time_ms = kLimitMs;
  return {*subject.network,
          AllOperators(),
          [target](const std::vector<std::string>& observed) {
            ForeignTarget one = target;
            one.observed = observed;
            return MakeForeignRunner(std::move(one));
          },
          ObservableValues(*subject.network),
          {}};
}

}  // namespace

absl::StatusOr<ForeignSubject> MakeForeignSubject(
    std::string_view name, const SubjectFolders& folders) {
  const std::vector<std::string> parts = SplitAt('+', name);
  if (parts.size() != 2 || !parts[1].starts_with(kOrt)) return BadName(name);
  ForeignSubject subject{std::string(name), "", parts[1].substr(kOrt.size()),
                         nullptr};
  if (std::find(std::begin(kOrtLevels), std::end(kOrtLevels), subject.level) ==
      std::end(kOrtLevels)) {
    return BadName(name);
  }
  NODEWISE_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(parts[0], folders));
  subject.model_file = std::move(model.path);
  subject.network = std::make_shared<const Network>(std::move(model.network));
  return subject;
}

absl::Status RunForeign(const ForeignSubject& subject, uint64_t seed,
                        const SubjectFolders& folders, Result* result) {
  const auto begin = std::chrono::steady_clock::now();
  NetworkLocateRequest request = RequestOf(subject, folders.python);
  NODEWISE_ASSIGN_OR_RETURN(request.inputs,
                            DrawInputsOf(*subject.network, seed));
  LocateOptions options;
  options.repeats = kRunsAgain;
  NODEWISE_ASSIGN_OR_RETURN(const NetworkLocated located,
                            LocateInNetwork(request, options));
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  const Answer answer = AnswerOf(located.result);
  result->seconds = taken.count();
  result->inconclusive = answer.inconclusive.size();
  if (answer.are_outputs_wrong) result->size = "outputs off";
  result->outcome = Outcome::kExact;
  if (answer.accused.empty()) return absl::OkStatus();
  const std::string reason = ReasonFor(subject, located);
  result->outcome = reason.empty() ? Outcome::kAccused : Outcome::kTheirFault;
  result->text = reason.empty() ? TextOf(located) : reason;
  return absl::OkStatus();
}

}  // namespace nodewise
