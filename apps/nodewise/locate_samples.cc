#include "apps/nodewise/locate_samples.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/progress.h"
#include "apps/nodewise/target_text.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/sample_folder.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file_reader.h"

namespace nodewise {
namespace {

// More are in the document.
constexpr size_t kMostRows = 20;
constexpr size_t kMostNames = 4;

// Returns what gives a network the sizes that it leaves open: the first sample
// that can be read.
InputOptions InputsForSizes(const std::vector<std::string>& samples,
                            const InputOptions& shared) {
  for (const std::string& sample : samples) {
    InputOptions inputs = shared;
    bool is_sound = false;
    for (const std::string& path : TensorFilesOf(sample)) {
      const auto file = TensorFileReader::Open(path);
      is_sound = file.ok();
      for (size_t i = 0; is_sound && i < (*file)->names().size(); ++i) {
        is_sound = (*file)->Read(i).ok();
      }
      if (!is_sound) break;
      if (path.ends_with(".npz") || path.ends_with(".params")) {
        inputs.inputs_files = {path};
      } else if ((*file)->names().size() == 1) {
        inputs.inputs.push_back((*file)->names()[0] + "=" + path);
      }
    }
    if (is_sound) return inputs;
  }
  return shared;
}

absl::StatusOr<std::vector<NamedTensor>> ReadSample(const std::string& sample,
                                                    const InputList& list,
                                                    const InputOptions& shared,
                                                    const ModelSpec& model) {
  NODEWISE_ASSIGN_OR_RETURN(InputSpec spec, SpecOf(shared));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<InputFile> own,
                            FilesOfSample(sample, list));
  spec.files.insert(spec.files.end(), own.begin(), own.end());
  spec.hints.how_to_give = [](const std::string& name) {
    return fmt::format(
        "in the sample, with --input {}=FILE or --random-inputs "
        "SEED",
        name);
  };
  InputFiles reader;
  SetFrozen(model, &reader);
  DiagnosticList diagnostics;
  const std::vector<RunInput> inputs =
      CollectInputs(spec, list, reader, &diagnostics);
  NODEWISE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return NameInputs(list, inputs);
}

std::vector<InputSample> SamplesOf(const std::vector<std::string>& paths,
                                   const InputList& list,
                                   const InputOptions& shared,
                                   const ModelSpec& model) {
  std::vector<InputSample> samples;
  for (const std::string& path : paths) {
    samples.push_back({path, [path, &list, &shared, &model] {
                         return ReadSample(path, list, shared, model);
                       }});
  }
  return samples;
}

// Messages about files name them already.
absl::Status AtSample(const std::string& sample, const absl::Status& status) {
  return MessageOf(status).starts_with(sample) ? status : At(sample, status);
}

std::string ErrorText(const RankedSample& ranked) {
  if (!ranked.why_no_outputs.empty()) return "no outputs";
  if (ranked.non_finite > 0) {
    return CountOf(ranked.non_finite, "element") + " not finite";
  }
  if (ranked.error == 0) return "equal";
  return fmt::format("{} {:.2g}", ranked.is_wrong ? "off by" : "within",
                     ranked.error);
}

std::string FoundText(const RankedSample& ranked) {
  if (!ranked.not_located.ok()) {
    return "not judged: " + std::string(MessageOf(ranked.not_located));
  }
  if (!ranked.located.has_value()) return "not examined";
  std::vector<std::string> named;
  for (const Culprit& culprit : ranked.located->culprits) {
    const NodeReport& report = ranked.located->nodes[culprit.report];
    named.push_back(fmt::format("{}, {}", report.key, NameOf(report.verdict)));
  }
  return named.empty() ? "no culprit" : ListOf(named, kMostNames);
}

void ShowRanked(const SamplesResult& result,
                const std::vector<InputSample>& samples, Outcome* outcome) {
  outcome->text += fmt::format("\n{}, the worst first:\n",
                               CountOf(result.ranked.size(), "sample"));
  TextTable table;
  for (const RankedSample& ranked : result.ranked) {
    table.AddRow(
        {samples[ranked.sample].name, ErrorText(ranked), FoundText(ranked)});
  }
  outcome->text += table.ToString(2, kMostRows, LineWidth());
}

void ShowRecurring(const SamplesResult& result, Outcome* outcome) {
  if (result.recurring.empty()) return;
  TextTable table;
  for (const RecurringVerdict& verdict : result.recurring) {
    table.AddRow({fmt::format("{}, {}", verdict.node, NameOf(verdict.kind)),
                  fmt::format("in {} of {}", verdict.samples.size(),
                              CountOf(result.num_located(), "sample"))});
  }
  outcome->text += "\nrecurs among those that were examined:\n" +
                   table.ToString(2, kMostRows, LineWidth());
}

void ShowFailed(const SamplesResult& result,
                const std::vector<InputSample>& samples, Outcome* outcome) {
  if (result.failed.empty()) return;
  outcome->text += fmt::format("\n{} not judged:\n",
                               CountOf(result.failed.size(), "sample"));
  TextTable table;
  for (const FailedSample& failed : result.failed) {
    const absl::Status why = AtSample(samples[failed.sample].name, failed.why);
    table.AddRow(std::vector{std::string(MessageOf(why))});
  }
  outcome->text += table.ToString(2, kMostRows, LineWidth());
}

void AddRanked(const RankedSample& ranked, const std::string& name,
               JsonWriter* json) {
  json->BeginObject();
  json->Add("sample", name);
  json->Add("error", ranked.error);
  json->Add("non_finite", ranked.non_finite);
  json->Add("wrong", ranked.is_wrong);
  json->Add("why_no_outputs", ranked.why_no_outputs);
  json->Add("located", ranked.located.has_value());
  if (!ranked.not_located.ok()) {
    json->Add("not_located", MessageOf(ranked.not_located));
  }
  if (ranked.located.has_value()) {
    json->BeginArray("found");
    for (const Culprit& culprit : ranked.located->culprits) {
      const NodeReport& report = ranked.located->nodes[culprit.report];
      json->BeginObject();
      json->Add("node", report.key);
      json->Add("kind", NameOf(report.verdict));
      json->EndObject();
    }
    json->EndArray();
  }
  json->EndObject();
}

void AddDocument(const SamplesResult& result,
                 const std::vector<InputSample>& samples, JsonWriter* json) {
  json->BeginArray("samples");
  for (const RankedSample& ranked : result.ranked) {
    AddRanked(ranked, samples[ranked.sample].name, json);
  }
  json->EndArray();
  json->BeginArray("recurring");
  for (const RecurringVerdict& verdict : result.recurring) {
    std::vector<std::string> names;
    for (const size_t sample : verdict.samples) {
      names.push_back(samples[sample].name);
    }
    json->BeginObject();
    json->Add("node", verdict.node);
    json->Add("kind", NameOf(verdict.kind));
    json->Add("samples", names);
    json->EndObject();
  }
  json->EndArray();
  json->BeginArray("failed_samples");
  for (const FailedSample& failed : result.failed) {
    json->BeginObject();
    json->Add("sample", samples[failed.sample].name);
    json->Add("why", MessageOf(failed.why));
    json->EndObject();
  }
  json->EndArray();
}

// A culprit in any sample is one. Without any, whatever could not be judged
// keeps this from being a pass.
void SetStatus(const SamplesResult& result,
               const std::vector<InputSample>& samples, Outcome* outcome) {
  const bool has_culprit = std::any_of(
      result.recurring.begin(), result.recurring.end(),
      [](const RecurringVerdict& verdict) { return Accuses(verdict.kind); });
  if (has_culprit) {
    outcome->status = Outcome::Status::kDiffers;
    outcome->errors.clear();
    return;
  }
  for (const RankedSample& ranked : result.ranked) {
    const std::string& name = samples[ranked.sample].name;
    if (!ranked.not_located.ok()) {
      outcome->AddError(AtSample(name, ranked.not_located));
    } else if (!ranked.located.has_value() && ranked.is_wrong) {
      outcome->AddError(absl::FailedPreconditionError(fmt::format(
          "{}: the outputs are wrong, and it was not examined (--worst says "
          "how many are)",
          name)));
    }
  }
  for (const FailedSample& failed : result.failed) {
    outcome->AddError(AtSample(samples[failed.sample].name, failed.why));
  }
}

// Shows all about the sample with the largest error that could be examined.
void ShowWorst(const SamplesResult& result,
               const std::vector<InputSample>& samples, Outcome* outcome) {
  const auto worst = std::find_if(
      result.ranked.begin(), result.ranked.end(),
      [](const RankedSample& ranked) { return ranked.located.has_value(); });
  if (worst == result.ranked.end()) return;
  const std::string& name = samples[worst->sample].name;
  outcome->json.Add("shown_sample", name);
  outcome->text += fmt::format("\non {}:\n", Printable(name));
  ShowLocated(*worst->located, outcome);
}

}  // namespace

absl::StatusOr<Outcome> LocateOnSamples(const LoadOptions& load,
                                        const InputOptions& inputs,
                                        const SampleChoice& choice,
                                        LocateOptions options) {
  NODEWISE_ASSIGN_OR_RETURN(const SampleFolder folder,
                            ListSamples(choice.folder));
  Outcome outcome;
  NODEWISE_ASSIGN_OR_RETURN(
      const Session loaded,
      LoadWithoutInputs(load, InputsForSizes(folder.samples, inputs),
                        &outcome));
  if (outcome.status != Outcome::Status::kOk) return outcome;
  ShowTarget(loaded, inputs, &outcome);
  if (!folder.passed_over.empty()) {
    outcome.notes.push_back(
        fmt::format("{}: passed over what is no sample: {}", choice.folder,
                    ListOf(folder.passed_over, kMostNames)));
  }
  NODEWISE_ASSIGN_OR_RETURN(const ModelSpec model, SpecOf(load.model));
  const std::vector<InputSample> samples =
      SamplesOf(folder.samples, loaded.target->inputs(), inputs, model);
  KeepFreedMemory();
  Progress progress("samples");
  SamplesOptions ranking{choice.most_located, options.node_limit_ms,
                         progress.Updater()};
  const auto result =
      LocateSamplesInTarget({loaded.target, {}, loaded.stand_ins}, samples,
                            AllOperators(), options, ranking);
  if (!result.ok()) return At(loaded.target->name(), result.status());
  ShowRanked(*result, samples, &outcome);
  ShowRecurring(*result, &outcome);
  ShowFailed(*result, samples, &outcome);
  AddDocument(*result, samples, &outcome.json);
  ShowWorst(*result, samples, &outcome);
  SetStatus(*result, samples, &outcome);
  return outcome;
}

}  // namespace nodewise
