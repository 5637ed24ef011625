#include "nodewise/foreign/foreign_cases.h"

#include <algorithm>
#include <string>
#include <utility>

#include "contrib/foreign/foreign_folder.h"
#include "contrib/foreign/foreign_model.h"
#include "contrib/foreign/foreign_protocol.h"
#include "fmt/format.h"
#include "nodewise/foreign/foreign_process.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A case as the program is asked about it.
struct AskedCase {
  std::vector<NamedTensor> inputs;
  std::vector<std::string> values;  // By output of the network.
  std::vector<AskedTensor> asked;   // Each once, and no inputs.
  std::string model;                // The path of its file.
};

absl::StatusOr<AskedCase> Ask(const ForeignCase& each, ForeignModel* model) {
  const Network& network = *each.network;
  AskedCase asked;
  if (each.inputs.size() != network.inputs().size()) {
    return absl::InvalidArgumentError(
        fmt::format("a case has {} inputs, expected {}", each.inputs.size(),
                    network.inputs().size()));
  }
  for (size_t i = 0; i < each.inputs.size(); ++i) {
    asked.inputs.push_back(
        {network.value(network.inputs()[i]).name, each.inputs[i]});
  }
  for (const ValueId id : network.outputs()) {
    asked.values.push_back(network.value(id).name);
  }
  asked.asked = model->Ask(asked.values);
  return asked;
}

// All cases, with the files of their models.
absl::StatusOr<std::vector<AskedCase>> AskAll(
    absl::Span<const ForeignCase> cases, const ForeignFolder& folder) {
  std::vector<AskedCase> all;
  for (size_t i = 0; i < cases.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(
        ForeignModel model,
        ForeignModel::Create(*cases[i].network, nullptr, {}));
    NODEWISE_ASSIGN_OR_RETURN(AskedCase asked, Ask(cases[i], &model));
    if (i > 0 && cases[i].network == cases[i - 1].network) {
      asked.model = all.back().model;
    } else {
      NODEWISE_ASSIGN_OR_RETURN(const std::string bytes,
                                model.Write(asked.asked));
      NODEWISE_ASSIGN_OR_RETURN(asked.model,
                                folder.Write(fmt::format("model_{}.onnx", i),
                                             bytes.data(), bytes.size()));
    }
    all.push_back(std::move(asked));
  }
  return all;
}

absl::Status Start(const ForeignCommand& command, const ForeignLimits& limits,
                   const std::string& request, const ForeignFolder& folder,
                   size_t tensors) {
  ForeignProcess process;
  process.name = command.name;
  process.arguments = command.arguments;
  process.arguments.push_back(request);
  process.time_limit_ms = limits.time_ms;
  process.most_printed_bytes = limits.printed_bytes;
  process.most_file_bytes = limits.answer_bytes;
  process.folder = folder.outputs_path();
  process.most_folder_bytes = limits.answer_bytes;
  process.most_folder_files = tensors + kSpareForeignFiles;
  return RunForeignProcess(process);
}

// Returns the outputs of a network in their order.
absl::StatusOr<std::vector<NDArray>> OutputsOf(
    const AskedCase& asked, const std::vector<AnsweredTensor>& answered,
    const ForeignFolder& folder) {
  std::vector<NamedTensor> made = asked.inputs;
  for (size_t i = 0; i < answered.size(); ++i) {
    const std::string& name = asked.asked[i].name;
    const AnsweredTensor& said = answered[i];
    if (!said.why_absent.empty()) {
      return absl::UnavailableError(fmt::format(
          "has not handed out output {}: {}", name, said.why_absent));
    }
    auto tensor = folder.ReadOutput(said.file, said.shape, said.dtype);
    if (!tensor.ok()) return At("tensor " + name, tensor.status());
    made.push_back({name, *std::move(tensor)});
  }
  std::vector<NDArray> outputs;
  for (const std::string& name : asked.values) {
    const auto found = std::find_if(
        made.begin(), made.end(),
        [&](const NamedTensor& each) { return each.name == name; });
    // Two outputs may be one value, so each gets a copy of its own.
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                              found->tensor.CopyToHost());
  }
  return outputs;
}

absl::StatusOr<bool> AskWhetherItTakesCases(const ForeignCommand& command,
                                            const ForeignLimits& limits,
                                            const ForeignCase& one) {
  NODEWISE_ASSIGN_OR_RETURN(const ForeignFolder folder,
                            ForeignFolder::Create());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<AskedCase> asked,
                            AskAll({&one, 1}, folder));
  const ForeignRequest request{asked[0].model, asked[0].inputs, asked[0].asked};
  NODEWISE_ASSIGN_OR_RETURN(const std::string path,
                            WriteRequest(request, folder));
  NODEWISE_RETURN_IF_ERROR(
      Start(command, limits, path, folder, asked[0].asked.size()));
  NODEWISE_ASSIGN_OR_RETURN(const ForeignAnswer answer,
                            ReadAnswer(folder, request, limits.answer_bytes));
  return answer.takes_cases;
}

}  // namespace

bool TakesForeignCases(const ForeignCommand& command,
                       const ForeignLimits& limits, const ForeignCase& one) {
  return AskWhetherItTakesCases(command, limits, one).value_or(false);
}

absl::StatusOr<std::vector<absl::StatusOr<std::vector<NDArray>>>>
RunForeignCases(const ForeignCommand& command, const ForeignLimits& limits,
                absl::Span<const ForeignCase> cases) {
  NODEWISE_ASSIGN_OR_RETURN(const ForeignFolder folder,
                            ForeignFolder::Create());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<AskedCase> asked,
                            AskAll(cases, folder));
  std::vector<ForeignRequest> requests;
  size_t tensors = 0;
  for (const AskedCase& each : asked) {
    requests.push_back({each.model, each.inputs, each.asked});
    tensors += each.asked.size();
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::string path,
                            WriteCases(requests, folder));
  NODEWISE_RETURN_IF_ERROR(Start(command, limits, path, folder, tensors));
  auto answer = ReadCases(folder, requests, limits.answer_bytes);
  if (!answer.ok()) return At(command.name, answer.status());
  std::vector<absl::StatusOr<std::vector<NDArray>>> results;
  for (size_t i = 0; i < asked.size(); ++i) {
    auto outputs = (*answer)[i].ok()
                       ? OutputsOf(asked[i], *(*answer)[i], folder)
                       : (*answer)[i].status();
    if (!outputs.ok()) outputs = At(command.name, outputs.status());
    results.push_back(std::move(outputs));
  }
  return results;
}

}  // namespace nodewise
