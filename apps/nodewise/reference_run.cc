#include "apps/nodewise/reference_run.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "apps/nodewise/outputs.h"
#include "fmt/format.h"
#include "nodewise/graph/named_outputs.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Names the options that give the unknown sides of an input their sizes.
std::string HowToBind(const NetworkValue& input) {
  if (!input.type.has_rank()) return "";
  std::string options;
  for (size_t i = 0; i < input.type.shape->size(); ++i) {
    const Dim& side = (*input.type.shape)[i];
    if (side.is_known()) continue;
    fmt::format_to(std::back_inserter(options), " --dim {}=N",
                   NameOfSide(input.name, i, side));
  }
  return ":" + options;
}

class NetworkInputs : public InputTaker {
 public:
  explicit NetworkInputs(const Network& network)
      : network_(network), tensors_(network.inputs().size()) {}

  std::vector<NDArray>& tensors() { return tensors_; }

  size_t size() const override { return tensors_.size(); }
  std::string Name(size_t input) const override { return value(input).name; }
  std::string Type(size_t input) const override {
    return ToString(value(input).type);
  }
  bool IsNeeded(size_t) const override { return true; }
  absl::StatusOr<size_t> Find(const std::string& name) const override {
    std::vector<std::string> names;
    for (size_t i = 0; i < size(); ++i) {
      if (Name(i) == name) return i;
      names.push_back(Name(i));
    }
    return absl::NotFoundError(
        fmt::format("input {}: the model has none of that name{}", name,
                    DidYouMean(name, names)));
  }
  bool Fits(size_t input, const NDArray& tensor) const override {
    return AreCompatible(TensorType::Of(*tensor), value(input).type);
  }
  absl::Status Set(size_t input, const NDArray& tensor) override {
    tensors_[input] = tensor;
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Draw(size_t input,
                               RandomSource& source) const override {
    const TensorType& type = value(input).type;
    if (!type.is_static()) {
      return absl::InvalidArgumentError(
          fmt::format("is {}, expected all sizes, to draw it{}", ToString(type),
                      HowToBind(value(input))));
    }
    return RandomTensor(source, *type.sizes(), type.dtype);
  }

 private:
  const NetworkValue& value(size_t input) const {
    return network_.value(network_.inputs()[input]);
  }

  const Network& network_;
  std::vector<NDArray> tensors_;
};

// Gives the outputs unique names: a value may be an output twice.
std::vector<NamedTensor> Named(const Network& network,
                               std::vector<NDArray> tensors) {
  std::vector<NamedTensor> outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    outputs.push_back(
        {network.value(network.outputs()[i]).name, std::move(tensors[i])});
  }
  MakeNamesUnique(&outputs);
  return outputs;
}

void ShowInputs(const std::string& path, const Network& network,
                const std::vector<InputSource>& sources,
                const InputOptions& options,
                const std::vector<NDArray>& tensors, Outcome* outcome) {
  outcome->text += fmt::format("{}: {}, {}\n", Printable(path),
                               CountOf(network.order().size(), "operation"),
                               CountOf(network.outputs().size(), "output"));
  outcome->json.BeginObject("target");
  outcome->json.Add("model", path);
  outcome->json.EndObject();
  if (options.seed.has_value()) outcome->json.Add("seed", *options.seed);
  TextTable table;
  outcome->json.BeginArray("inputs");
  for (const InputSource& source : sources) {
    const NDArray& tensor = tensors[source.input];
    const std::string& name =
        network.value(network.inputs()[source.input]).name;
    table.AddRow({"input", name, TypeToString(tensor.shape(), tensor.dtype()),
                  "from " + source.from});
    outcome->json.BeginObject();
    outcome->json.Add("name", name);
    outcome->json.Add("dtype", ToString(tensor.dtype()));
    outcome->json.Add("shape", tensor.shape());
    outcome->json.Add("from", source.from);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += table.ToString(0, 0);
}

std::vector<NamedTensor> Fail(const DiagnosticList& diagnostics,
                              Outcome* outcome) {
  outcome->AddErrors(diagnostics);
  return {};
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> RunReference(
    const std::string& path, const ModelOptions& model,
    const InputOptions& inputs, const std::string& output, Outcome* outcome) {
  DiagnosticList diagnostics;
  const auto network = LoadModel(path, model, &diagnostics);
  if (!network.ok()) {
    if (!diagnostics.HasErrors()) return network.status();
    return Fail(diagnostics, outcome);
  }
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    outcome->notes.push_back(diagnostic.ToString());
  }
  NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output, network->outputs().size()));
  DiagnosticList input_diagnostics;
  NetworkInputs taker(*network);
  const auto sources =
      SetInputs(InputFiles(inputs), &taker, &input_diagnostics);
  if (input_diagnostics.HasErrors()) {
    return Fail(input_diagnostics, outcome);
  }
  KeepFreedMemory();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  auto tensors = Interpret(*network, taker.tensors());
  if (!tensors.ok()) return At(path, tensors.status());
  const double milliseconds =
      std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  ShowInputs(path, *network, sources, inputs, taker.tensors(), outcome);
  std::vector<NamedTensor> outputs = Named(*network, *std::move(tensors));
  ShowOutputs(outputs, outcome);
  outcome->text +=
      fmt::format("computed by the reference in {:.3f} ms\n", milliseconds);
  outcome->json.Add("reference_ms", milliseconds);
  return outputs;
}

}  // namespace nodewise
