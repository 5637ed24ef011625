#include "contrib/session/open_with_samples.h"

#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/runner/sample_folder.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file_reader.h"

namespace nodewise {
namespace {

constexpr size_t kMostNames = 4;

// Returns whether all files of a sample can be read, and adds them to `inputs`,
// by the name of the input where a file has one alone.
bool AddFilesOf(const std::string& sample, InputSpec* inputs) {
  bool is_sound = false;
  for (const std::string& path : TensorFilesOf(sample)) {
    const auto file = TensorFileReader::Open(path);
    is_sound = file.ok();
    for (size_t i = 0; is_sound && i < (*file)->names().size(); ++i) {
      is_sound = (*file)->Read(i).ok();
    }
    if (!is_sound) break;
    if (path.ends_with(".npz") || path.ends_with(".params")) {
      inputs->files.push_back({"", path});
    } else if ((*file)->names().size() == 1) {
      inputs->files.push_back({(*file)->names()[0], path});
    }
  }
  return is_sound;
}

InputSpec InputsForSizes(const std::vector<std::string>& samples,
                         const InputSpec& shared) {
  for (const std::string& sample : samples) {
    InputSpec inputs = shared;
    if (AddFilesOf(sample, &inputs)) return inputs;
  }
  return shared;
}

absl::StatusOr<std::vector<NamedTensor>> ReadSample(const std::string& sample,
                                                    const InputList& list,
                                                    InputSpec inputs,
                                                    const ModelSpec& model) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<InputFile> own,
                            FilesOfSample(sample, list));
  inputs.files.insert(inputs.files.end(), own.begin(), own.end());
  inputs.hints.how_to_give =
      [shared = inputs.hints.how_to_give](const std::string& name) {
        return "in the sample" + (shared == nullptr ? "" : ", " + shared(name));
      };
  InputFiles reader;
  SetFrozen(model, &reader);
  DiagnosticList diagnostics;
  const std::vector<RunInput> given =
      CollectInputs(inputs, list, reader, &diagnostics);
  NODEWISE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return NameInputs(list, given);
}

}  // namespace

absl::StatusOr<Session> OpenWithSamples(const TargetSpec& spec,
                                        DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(const SampleFolder folder,
                            ListSamples(spec.samples));
  TargetSpec sized = spec;
  sized.inputs = InputsForSizes(folder.samples, spec.inputs);
  InputFiles files;
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenWithoutInputs(sized, &files, diagnostics));
  if (session.target == nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: stays a model, expected one that becomes a graph for samples",
        session.name));
  }
  for (const std::string& path : folder.samples) {
    session.samples.push_back(
        {path, [path, target = session.target, inputs = spec.inputs,
                model = spec.model] {
           return ReadSample(path, target->inputs(), inputs, model);
         }});
  }
  if (!folder.passed_over.empty()) {
    session.notes.push_back(
        fmt::format("{}: passed over what is not a sample: {}", spec.samples,
                    ListOf(folder.passed_over, kMostNames)));
  }
  return session;
}

}  // namespace nodewise
