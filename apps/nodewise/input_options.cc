#include "apps/nodewise/input_options.h"

#include <utility>

#include "apps/nodewise/model_options.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<InputFile> ParseInput(const std::string& argument) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--input", argument, "NAME=FILE"));
  return InputFile{std::move(parts.name), std::move(parts.value)};
}

}  // namespace

void AddInputOptions(OptionList* options, InputOptions* inputs) {
  options->AddTexts("--input", "NAME=FILE",
                    "an input from a .npy, .npz, .params or .pb file; once for "
                    "each input",
                    &inputs->inputs);
  options->AddTexts("--inputs", "FILE",
                    "inputs by their names from a .npz or .params file; may be "
                    "given again",
                    &inputs->inputs_files);
  options->AddNumber("--random-inputs", "SEED",
                     "draws the inputs that are not given; one seed gives the "
                     "same values everywhere",
                     {&inputs->seed});
}

absl::StatusOr<std::vector<InputFile>> InputFilesOf(
    const InputOptions& options) {
  std::vector<InputFile> files;
  for (const std::string& argument : options.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(InputFile file, ParseInput(argument));
    files.push_back(std::move(file));
  }
  for (const std::string& file : options.inputs_files) {
    files.push_back({"", file});
  }
  return files;
}

std::vector<RunInput> CollectInputs(
    const InputOptions& options, const InputList& list, const InputFiles& files,
    DiagnosticList* diagnostics,
    std::function<std::string(const std::string& name, const TensorType& type)>
        how_to_size) {
  InputCollector collector(list, files, diagnostics);
  for (const std::string& argument : options.inputs) {
    const auto file = ParseInput(argument);
    if (file.ok()) {
      collector.Give(*file);
    } else {
      diagnostics->Add(DiagnosticOf(file.status()));
    }
  }
  for (const std::string& file : options.inputs_files) {
    collector.Give({"", file});
  }
  InputCollector::Hints hints;
  hints.how_to_give = [](const std::string& name) {
    return fmt::format("--input {}=FILE, --inputs FILE or --random-inputs SEED",
                       name);
  };
  hints.how_to_size = std::move(how_to_size);
  collector.Complete(options.seed, hints);
  return collector.Inputs();
}

}  // namespace nodewise
