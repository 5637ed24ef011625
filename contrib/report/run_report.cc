// A run: what was asked about and with which inputs, what computed its nodes,
// and what it has made.
//
// A summary of each output is enough to see that a run went well; the numbers
// themselves are in files that the user asks for.

#include "nodewise/report/run_report.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/compare/compare.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/session/target_support.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The files are those that were really used: they may have been found beside
// the one that was named.
void ShowGraph(const Session& session, Report* report) {
  const Graph& graph = session.target->graph();
  const ArtefactFiles& files = session.target->files();
  const auto inputs = static_cast<size_t>(std::ranges::count(
      graph.nodes, GraphNode::Kind::kInput, &GraphNode::kind));
  report->text += Printable(session.target->name()) + ": ";
  if (session.network != nullptr) {
    AddText(report, "{} in ",
            CountOf(session.network->order().size(), "operation"));
    AddObject(report, "target", "model", files.target);
  } else {
    AddObject(report, "target", "graph", files.graph, "library", files.library,
              "params", files.params, "function", IfAny{files.function});
  }
  AddText(report, "{}, {}\n",
          CountOf(graph.nodes.size() - inputs, "function node"),
          CountOf(graph.heads.size(), "output"));
}

// A network that stays one: another program runs it, or the interpreter.
void ShowNetwork(const Session& session, Report* report) {
  const Network& network = *session.network;
  AddText(report, "{}: {}, {}\n", Printable(session.name),
          CountOf(network.order().size(), "operation"),
          CountOf(network.outputs().size(), "output"));
  if (session.program != nullptr) {
    AddObject(report, "target", "foreign", session.name, "command",
              session.program->command);
  } else {
    AddObject(report, "target", "model", session.name);
  }
}

void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                std::optional<uint64_t> seed, Report* report) {
  AddMembers(report, "seed", seed);
  TextTable table;
  AddObjects(report, "inputs", inputs, [&](const auto& input) {
    const std::string name = list.Name(input.input);
    const absl::Span<const int64_t> shape = input.tensor.shape();
    // A tensor may have an older code of the type that the target names.
    const TensorType type = list.Type(input.input);
    const DLDataType dtype =
        type.has_dtype() ? type.dtype : input.tensor.dtype();
    table.AddRow(
        {"input", name, TypeToString(shape, dtype), "from " + input.from});
    AddMembers(report, "name", name, "dtype", ToString(dtype), "shape", shape,
               "from", input.from);
  });
  report->text.Add(table);
}

// More lines would hide what was asked for.
constexpr size_t kMostReasons = 8;

// The kernels that computed nodes, and why others did not. One reason holds for
// many nodes as a rule, so that text has a line for each reason and the
// document one for each place.
class KernelReport {
 public:
  explicit KernelReport(const std::vector<KernelChoice>& choices) {
    for (const KernelChoice& choice : choices) Add(choice);
  }

  bool empty() const { return nodes_.empty(); }

  // "computed 2 nodes by oneDNN, 1 node by the reference", and how many
  // operations that is.
  std::string Summary() const {
    std::vector<std::string> nodes;
    for (const auto& [kernel, count] : nodes_) {
      nodes.push_back(fmt::format("{} by {}", CountOf(count, "node"),
                                  TitleOfKernel(kernel)));
    }
    std::vector<std::string> parts;
    for (const auto& [kernel, count] : operations_) {
      parts.push_back(fmt::format("{} in {}", count, TitleOfKernel(kernel)));
    }
    const bool is_one = operations_.size() == 1 && nodes_.size() == 1;
    std::string text = fmt::format("computed {}", fmt::join(nodes, ", "));
    if (!is_one)
      text += fmt::format("; operations: {}", fmt::join(parts, ", "));
    return text + "\n";
  }

  std::string Reasons() const {
    std::string text;
    size_t shown = 0;
    for (const auto& [reason, places] : reasons_) {
      if (shown++ == kMostReasons) break;
      text += fmt::format(
          "  {} ({}{})\n", Printable(reason), Printable(places[0]),
          places.size() == 1 ? ""
                             : fmt::format(" and {} more", places.size() - 1));
    }
    if (reasons_.size() <= kMostReasons) return text;
    return text + fmt::format("  and {} more reasons ({} lists all)\n",
                              reasons_.size() - kMostReasons,
                              NameOf(Way::kWholeDocument));
  }

  void AddTo(JsonWriter* json) const {
    AddCounts("kernels", nodes_, json);
    AddCounts("operations", operations_, json);
    AddMembers(json, "refusals", refusals_, "remarks", remarks_);
  }

 private:
  using Counts = std::map<std::string, uint64_t>;  // By kernel.

  void Add(const KernelChoice& choice) {
    ++nodes_[KernelOf(choice)];
    for (const std::string& refusal : choice.refusals) {
      Note("node " + choice.node, refusal, &refusals_);
    }
    for (const OperationChoice& operation : choice.operations) {
      ++operations_[operation.kernel];
      const std::string place = fmt::format("node {}, operation {}",
                                            choice.node, operation.operation);
      if (!operation.why_not.empty()) {
        Note(place, fmt::format("{}: {}", choice.kernel, operation.why_not),
             &refusals_);
      }
      if (!operation.remark.empty()) Note(place, operation.remark, &remarks_);
    }
  }

  void Note(const std::string& place, const std::string& reason,
            std::vector<std::string>* lines) {
    lines->push_back(fmt::format("{}: {}", place, reason));
    reasons_[reason].push_back(place);
  }

  // Returns the kernel that computes a node: its own, unless that leaves all
  // operations to another.
  static const std::string& KernelOf(const KernelChoice& choice) {
    const auto& all = choice.operations;
    const bool has_own =
        std::ranges::count(all, choice.kernel, &OperationChoice::kernel) > 0;
    return has_own || all.empty() ? choice.kernel : all[0].kernel;
  }

  static void AddCounts(const char* name, const Counts& counts,
                        JsonWriter* json) {
    json->BeginObject(name);
    for (const auto& [kernel, count] : counts) json->Add(kernel, count);
    json->EndObject();
  }

  Counts nodes_;
  Counts operations_;
  std::map<std::string, std::vector<std::string>> reasons_;  // With places.
  std::vector<std::string> refusals_;
  std::vector<std::string> remarks_;
};

constexpr size_t kFirstValues = 8;

// Some first values are shown as they are: often they say at a glance what a
// range does not, as where all are equal.
std::string TextOf(const NamedTensor& output, const TensorSummary& summary) {
  std::string text =
      fmt::format("output  {}  {}\n", Printable(output.name),
                  TypeToString(output.tensor.shape(), output.tensor.dtype()));
  if (summary.has_numbers) {
    text += fmt::format("  min {}  max {}  mean {}  NaN {}  Inf {}\n",
                        ShortNumber(summary.min), ShortNumber(summary.max),
                        ShortNumber(summary.mean), summary.nans,
                        summary.infinities);
  }
  text += "  values";
  for (const std::string& value : summary.first) {
    text += " " + ShortNumber(value);
  }
  const auto elements = NumElements(output.tensor.shape()).value_or(0) *
                        output.tensor.dtype().lanes;
  const bool has_more = static_cast<size_t>(elements) > summary.first.size();
  return text + (has_more ? " ...\n" : elements == 0 ? " none\n" : "\n");
}

// Looking into a run is harmless if the outputs stay within the tolerance of
// their types: other bits alone are no more than rounding in another order.
absl::StatusOr<std::vector<TensorComparison>> CompareWithUnseen(
    absl::Span<const NamedTensor> seen, absl::Span<const NamedTensor> unseen) {
  std::vector<TensorComparison> compared;
  for (size_t i = 0; i < seen.size(); ++i) {
    const TensorKey key{unseen[i].name};
    const TensorItem item{.key = key, .tensor = unseen[i].tensor.tensor()};
    NODEWISE_ASSIGN_OR_RETURN(
        TensorComparison output,
        CompareTensors(item, *seen[i].tensor, {.rule = {Rule::Kind::kByType}}));
    compared.push_back(std::move(output));
  }
  return compared;
}

std::string UnseenText(const std::vector<TensorComparison>& compared,
                       int64_t differing) {
  if (differing == 0) {
    return "outputs: equal to those of a run that was not looked into";
  }
  std::string text = fmt::format(
      "outputs: {} of {} differ from those of a run that was not looked into",
      differing, CountOf(compared.size(), "output"));
  for (const TensorComparison& output : compared) {
    if (output.is_equal()) continue;
    text += fmt::format("\n  {}: {}, by {:.3g} at most", output.key.Name(),
                        output.judgement.reason,
                        output.metrics.largest_error.error);
  }
  return text;
}

// Shows whether the outputs of a run in another program that was looked into
// are those of one that was not. If they differ by more than rounding does, a
// report that was fine becomes kDiffers.
void ShowUnseenCheck(absl::Span<const NamedTensor> seen,
                     absl::Span<const NamedTensor> unseen, Report* report) {
  const auto compared = CompareWithUnseen(seen, unseen);
  if (!compared.ok()) return report->AddError(compared.status());
  const auto differing =
      std::ranges::count(*compared, false, &TensorComparison::is_equal);
  const std::string text = UnseenText(*compared, differing);
  report->text += text + "\n";
  AddObject(report, "unseen_run", "equal", differing == 0, "text", text);
  if (std::ranges::any_of(*compared, &TensorComparison::is_wrong)) {
    report->status = std::max(report->status, Report::Status::kDiffers);
  }
}

}  // namespace

// Opaque operators are told before the inputs, since they may change which
// outputs there are.
void ShowTarget(const Session& session, Report* report) {
  const auto show_inputs = [&](const InputList& list) {
    if (session.opaque != nullptr) ShowOpaque(*session.opaque, report);
    ShowInputs(list, session.inputs, session.seed, report);
  };
  if (session.target != nullptr) {
    ShowGraph(session, report);
    show_inputs(session.target->inputs());
  } else {
    ShowNetwork(session, report);
    show_inputs(*ListInputs(*session.network));
  }
  if (session.stand_ins.empty()) return;
  AddText(report, "{} computed by the reference: {}\n",
          CountOf(session.stand_ins.size(), "node"), ListOf(session.stand_ins));
  report->json.Add("stand_ins", session.stand_ins);
}

void ShowKernels(const Session& loaded, Report* report) {
  if (!loaded.built_ins) return;
  const KernelReport kernels(loaded.built_ins->choices());
  if (kernels.empty()) return;
  report->text += kernels.Summary() + kernels.Reasons();
  kernels.AddTo(&report->json);
}

void ShowOutputs(const std::vector<NamedTensor>& outputs, Report* report) {
  const DefaultFloatEnvironment floats;
  AddObjects(report, "outputs", outputs, [&](const auto& output) {
    const TensorSummary summary = SummariseTensor(*output.tensor, kFirstValues);
    report->text += TextOf(output, summary);
    AddMembers(report, "name", output.name, "dtype",
               ToString(output.tensor.dtype()), "shape", output.tensor.shape(),
               "bytes", output.tensor.bytes());
    AddSummary(summary, &report->json);
    report->json.AddScalars("first", summary.first);
  });
}

// One run has no median worth the name.
void ShowTimes(absl::Span<const int64_t> durations_ns, Report* report) {
  std::vector<double> milliseconds;
  for (const int64_t duration : durations_ns) {
    milliseconds.push_back(static_cast<double>(duration) * 1e-6);
  }
  const size_t runs = milliseconds.size();
  std::ranges::sort(milliseconds);
  const double min = milliseconds[0];
  // The upper one of two middle values: a time that was measured, and not one
  // between two.
  const double median = milliseconds[runs / 2];
  report->text += runs == 1 ? fmt::format("ran in {:.3f} ms\n", min)
                            : fmt::format(
                                  "ran {} times in {:.3f} ms (median; min "
                                  "{:.3f} ms)\n",
                                  runs, median, min);
  AddObject(report, "time", "runs", runs, "median_ms", median, "min_ms", min);
}

void ShowForeignDump(const ForeignDump& dump, Report* report) {
  AddMembers(report, "entries", dump.entries, "tensor_bytes", dump.tensor_bytes,
             "dumps", dump.folders);
  for (const std::string& folder : dump.folders) {
    AddText(report, "dump    {}: {}, {}\n", Printable(folder),
            CountOf(dump.entries, "tensor"),
            CountOf(dump.tensor_bytes, "byte"));
  }
  AddNotes(dump.notes, report);
  ShowUnseenCheck(dump.seen, dump.unseen, report);
}

}  // namespace nodewise
