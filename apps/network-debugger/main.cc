// Glow's network debugger: its flags and lines, over DiagnoseLayers().

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/network-debugger/compared_backend.h"
#include "apps/network-debugger/flags.h"
#include "apps/network-debugger/input_files.h"
#include "apps/network-debugger/layer_log.h"
#include "fmt/format.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/graph/finding.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/precision/precision.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr double kBytesPerMiB = 1 << 20;
// The last line names so many broken layers, and counts the others; each has
// had lines of its own before.
constexpr size_t kNamedLayers = 8;

// Glow's flags have nothing for these ways, but the command nodewise has.
constexpr std::pair<Way, std::string_view> kCommands[] = {
    {Way::kDims, "nodewise convert --dim"},
    {Way::kFreeze, "nodewise convert --freeze"},
    {Way::kInputs, "nodewise convert --inputs FILE"},
    {Way::kOpaqueProgram, "nodewise locate --opaque ort"},
    {Way::kSanitizer, "nodewise run --sanitize"},
    {Way::kMoreTime, "nodewise locate --node-timeout"},
    {Way::kNodeByNode, "nodewise locate"},
    {Way::kModelBeside, "nodewise locate --reference MODEL.onnx"},
};

std::string_view CommandFor(Way way) {
  for (const auto& [known, command] : kCommands) {
    if (known == way) return command;
  }
  return "";
}

absl::Status AllOf(const DiagnosticList& diagnostics,
                   const absl::Status& first) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    text += (text.empty() ? "" : "\n") + diagnostic.ToString();
  }
  return text.empty() ? first : WithMessage(first, text);
}

// Reads the model and all samples, and converts the model to what both backends
// are to run.
absl::StatusOr<OpenedBackend> Load(const DebuggerFlags& flags,
                                   std::vector<SampleInputs>* samples) {
  DiagnosticList diagnostics;
  ImportOptions import;
  import.glow = {flags.fused_fp16, flags.sls_fp16};
  std::vector<ImportedCall> calls;
  import.calls = &calls;
  auto network = LoadModelFile(flags.model, import, &diagnostics);
  if (!network.ok()) return AllOf(diagnostics, network.status());
  NODEWISE_ASSIGN_OR_RETURN(*samples, ReadSamples(flags.inputs, *network));
  // Layers are compiled for fixed sizes.
  BindSizes((*samples)[0].inputs, &*network);
  if (flags.fp16) {
    PrecisionOptions options;
    options.precision = Precision::kFloat16;
    options.clip = flags.clip_fp16;
    NODEWISE_ASSIGN_OR_RETURN(const PrecisionReport report,
                              LowerPrecision(options, *network));
    LogLine(fmt::format("converted to float16: {}",
                        CountOf(report.changes.size(), "operation")));
  } else if (flags.clip_fp16) {
    LogLine(
        "-glow_clip_fp16: nothing is converted to float16, so there is "
        "nothing to clip (-glow_global_fp16)");
  }
  return OpenBackend(flags, *network, std::move(calls));
}

// Glow's own threshold knows neither the size of numbers nor how many were
// summed up, and calls healthy networks wrong. Any other threshold is the
// user's choice, and is obeyed.
bool JudgesByBounds(const DebuggerFlags& flags) {
  return flags.threshold == kGlowThreshold;
}

// Both backends get the one module, so that their layers are the same.
LayerQuestion QuestionOf(const DebuggerFlags& flags,
                         const OpenedBackend& opened) {
  LayerQuestion question{opened.mod, opened.backend};
  if (!JudgesByBounds(flags)) {
    question.rule = {Rule::Kind::kAbsolute, {.absolute = flags.threshold}};
  }
  question.is_recursive = flags.is_recursive;
  question.all_alone = flags.all_alone;
  return question;
}

// Glow prints no summary; these lines come behind all that it prints.
void LogResult(const DebuggerFlags& flags, const Answer& answer) {
  const LayerCost& cost = *answer.evidence.cost;
  const LocateResult& located = *answer.evidence.located;
  LogLine(fmt::format(
      "{} comparator: {} in {:.2f} s, at most {:.1f} MiB of memory (VmHWM less "
      "what was resident before)",
      flags.is_recursive ? "Recursive" : "Intermediate",
      CountOf(located.nodes.size(), "layer"), cost.seconds,
      static_cast<double>(cost.peak_bytes) / kBytesPerMiB));
  std::vector<std::string> names;
  for (const Culprit& culprit : located.culprits) {
    const NodeReport& layer = located.nodes[culprit.report];
    if (!EndsRuns(layer.verdict)) {
      names.push_back(layer.key);
      continue;
    }
    LogLine(fmt::format("{} {}: {}", Printable(layer.key),
                        NameOf(layer.verdict), layer.reason));
  }
  const size_t inherits = located.CountOf(NodeVerdict::kInherits);
  const size_t unclear = located.CountOf(NodeVerdict::kInconclusive);
  if (names.empty() && inherits + unclear == 0) return;
  LogLine(fmt::format("{} broken{}{}, {} inherit, {} inconclusive",
                      names.size(), names.empty() ? "" : ": ",
                      names.empty() ? "" : ListOf(names, kNamedLayers),
                      inherits, unclear));
}

bool DoMatch(const DebuggerFlags& flags, const Answer& answer) {
  const LocateResult& located = *answer.evidence.located;
  // Rounding errors add up from layer to layer, so that results drift apart
  // where no layer is wrong.
  if (JudgesByBounds(flags) && answer.culprits.empty()) return true;
  return located.CountOf(NodeVerdict::kHealthy) == located.nodes.size();
}

// The network is compiled once, for the sizes of the first sample.
absl::StatusOr<bool> CompareAll(const DebuggerFlags& flags) {
  LogLine(
      fmt::format("Comparing the {} backend against the Interpreter "
                  "(reference backend)",
                  Printable(flags.backend)));
  std::vector<SampleInputs> samples;
  NODEWISE_ASSIGN_OR_RETURN(const OpenedBackend opened, Load(flags, &samples));
  LayerQuestion question = QuestionOf(flags, opened);
  bool all_match = true;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::string folder = flags.dump_tensors ? flags.dump_dir : "";
    if (samples.size() > 1) {
      LogLine("Inputs: " + Printable(samples[i].from));
      // Each sample has a folder of its own, so that none writes over another's
      // files.
      if (!folder.empty()) folder += fmt::format("/sample_{}", i + 1);
    }
    LayerLog log(std::move(folder), JudgesByBounds(flags)
                                        ? std::nullopt
                                        : std::optional(flags.threshold));
    question.observer = &log;
    NODEWISE_ASSIGN_OR_RETURN(const Answer answer,
                              DiagnoseLayers(question, samples[i].inputs));
    LogResult(flags, answer);
    const bool match = DoMatch(flags, answer);
    if (match) {
      NODEWISE_RETURN_IF_ERROR(
          At(samples[i].from, CheckGivenNumbers(samples[i].inputs)));
    }
    all_match &= match;
  }
  return all_match;
}

// Memory may run out anywhere, also in the libraries that we call.
absl::StatusOr<bool> Compare(const DebuggerFlags& flags) {
  try {
    auto match = CompareAll(flags);
    const auto shortage = FirstShortage();
    if (match.ok() && shortage.has_value()) return *shortage;
    return match;
  } catch (...) {
    return StatusOfHandled(flags.model);
  }
}

// The exit status is 0 if all layers match, 1 if some do not and 2 where that
// could not be found out.
int Main(const std::vector<std::string>& arguments) {
  const auto flags = ParseFlags(arguments);
  if (flags.ok() && flags->wants_help) {
    const std::string help = FlagsHelp();
    return std::fwrite(help.data(), 1, help.size(), stdout) == help.size() ? 0
                                                                           : 2;
  }
  const auto match =
      flags.ok() ? Compare(*flags) : absl::StatusOr<bool>(flags.status());
  for (const Finding& finding : TakeFloatFindings()) {
    LogLine("warning: " + Printable(finding.ToString()));
  }
  if (!match.ok()) {
    std::fputs(fmt::format("network-debugger: {}\n",
                           std::string(MessageOf(match.status())))
                   .c_str(),
               stderr);
    return 2;
  }
  LogLine(*match ? "All layers match with no errors" : "Errors found!");
  return *match ? 0 : 1;
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  const nodewise::DefaultFloatEnvironment floats;
  nodewise::SetNamesOfWays(&nodewise::CommandFor);
  nodewise::CleanUpOnSignals();
  nodewise::EndWithStatus("network-debugger", 2);
  return nodewise::Main({argv + std::min(argc, 1), argv + argc});
}
