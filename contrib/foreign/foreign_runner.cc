#include "nodewise/foreign/foreign_runner.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/foreign/foreign_protocol.h"
#include "fmt/format.h"
#include "nodewise/foreign/foreign_process.h"
#include "nodewise/graph/named_outputs.h"
#include "nodewise/ir/network.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/onnx/user_model.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/clock.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::vector<UserModel::Value> ValuesOf(absl::Span<const AskedTensor> asked) {
  std::vector<UserModel::Value> values;
  for (const AskedTensor& each : asked) {
    values.push_back({each.name, each.type});
  }
  return values;
}

// A model for a foreign runtime: a network with more outputs than it had, and
// with inputs in place of what is patched. It is the file that the network was
// read from, with no more changed than that, as far as the file has the values;
// else it is written from the network.
class ForeignModel {
 public:
  // Takes the place of values by patches. `file` may be null, and must outlive
  // the object. Fails with kNotFound for a patch that names nothing, and with
  // kInvalidArgument for one that does not fit, is for a constant or is given
  // twice.
  static absl::StatusOr<ForeignModel> Create(
      const Network& network, const UserModel* file,
      const std::vector<TensorPatch>& patches) {
    ForeignModel model(network, file);
    for (const TensorPatch& patch : patches) {
      NODEWISE_RETURN_IF_ERROR(At(patch.where, model.Apply(patch)));
    }
    // A value inside a function cannot be replaced from outside.
    for (const UserModel::Value& value : model.given_) {
      if (file != nullptr && !file->Makes(value.name)) model.file_ = nullptr;
    }
    return model;
  }

  // Returns the file that the model is, or null for one that is written anew.
  const UserModel* file() const { return file_; }

  // The values that are patched, as what they are now. Among them may be
  // inputs and outputs of the network.
  const std::vector<NamedTensor>& patched() const { return patched_; }
  const NDArray* FindPatched(const std::string& value) const {
    for (const NamedTensor& patched : patched_) {
      if (patched.name == value) return &patched.tensor;
    }
    return nullptr;
  }

  // The inputs that the model has, of these and the patched ones.
  std::vector<NamedTensor> InputsOf(absl::Span<const NamedTensor> given) const {
    std::vector<NamedTensor> inputs;
    for (const ValueId id : network_.inputs()) {
      const std::string& name = network_.value(id).name;
      const NDArray* tensor = FindPatched(name);
      for (const NamedTensor& input : given) {
        if (tensor == nullptr && input.name == name) tensor = &input.tensor;
      }
      if (tensor != nullptr) inputs.push_back({name, *tensor});
    }
    return inputs;
  }

  // Returns what can be asked for of these values, in their order, each once:
  // not what is an input, or patched, or not in the file.
  std::vector<AskedTensor> Ask(absl::Span<const std::string> values) const {
    std::vector<AskedTensor> asked;
    std::set<std::string> taken;
    for (const std::string& name : values) {
      const auto id = network_.FindValue(name);
      if (!id.ok() || !taken.insert(name).second) continue;
      const NetworkValue& value = network_.value(*id);
      const bool is_there = file_ == nullptr || file_->Makes(name);
      if (value.kind != NetworkValue::Kind::kInput && is_there) {
        asked.push_back({name, value.type});
      }
    }
    return asked;
  }

  // Returns the bytes of a model with these outputs, and of the file with its
  // own, too. Fails as ExportOnnx() and UserModel::With().
  absl::StatusOr<std::string> Write(absl::Span<const AskedTensor> outputs) {
    if (file_ != nullptr) return file_->With(ValuesOf(outputs), given_);
    NODEWISE_RETURN_IF_ERROR(SetOutputs(outputs, &network_));
    return ExportOnnx(network_);
  }

  // Returns the bytes of a model that ends at these outputs. Fails as
  // ExportOnnx() and UserModel::EndingAt().
  absl::StatusOr<std::string> WriteEndingAt(
      absl::Span<const AskedTensor> outputs) const {
    if (file_ != nullptr) return file_->EndingAt(ValuesOf(outputs), given_);
    Network part = network_;
    NODEWISE_RETURN_IF_ERROR(SetOutputs(outputs, &part));
    part.RemoveUnused();
    return ExportOnnx(part);
  }

 private:
  ForeignModel(const Network& network, const UserModel* file)
      : network_(network), file_(file) {}
  absl::Status Apply(const TensorPatch& patch) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId id,
                              network_.FindValue(patch.entry));
    const NetworkValue value = network_.value(id);
    if (FindPatched(patch.entry) != nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("{}: value {}: is given twice, expected once", patch.from,
                      patch.entry));
    }
    if (value.kind == NetworkValue::Kind::kConstant) {
      return absl::InvalidArgumentError(
          fmt::format("value {}: is a constant, expected an input or what an "
                      "operation makes",
                      value.name));
    }
    const TensorType type = TensorType::Of(*patch.tensor);
    if (!AreCompatible(type, value.type)) {
      return absl::InvalidArgumentError(
          fmt::format("value {}: is {}, expected {}", value.name,
                      ToString(type), ToString(value.type)));
    }
    patched_.push_back({value.name, patch.tensor});
    if (value.kind == NetworkValue::Kind::kInput) return absl::OkStatus();
    given_.push_back({value.name, type});
    std::string free = value.name + "_before";
    while (network_.HasValue(free)) free += '_';
    NODEWISE_RETURN_IF_ERROR(network_.Rename(id, std::move(free)));
    NODEWISE_ASSIGN_OR_RETURN(const ValueId input,
                              network_.AddInput(value.name, type));
    const ValueId from[] = {id};
    const ValueId to[] = {input};
    return network_.ReplaceUses(from, to);
  }

  static absl::Status SetOutputs(absl::Span<const AskedTensor> outputs,
                                 Network* network) {
    std::vector<ValueId> ids;
    for (const AskedTensor& output : outputs) {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId id,
                                network->FindValue(output.name));
      ids.push_back(id);
    }
    return network->SetOutputs(std::move(ids));
  }

  Network network_;
  const UserModel* file_;
  std::vector<NamedTensor> patched_;
  std::vector<UserModel::Value> given_;  // Patched values that operations make.
};

// What a program may leave beside the tensors that it was asked for.
constexpr uint64_t kSpareBytes = uint64_t{1} << 24;

// One run of the program, and what it left.
class ForeignRun {
 public:
  static absl::StatusOr<ForeignRun> Create(const ForeignTarget& target,
                                           std::vector<AskedTensor> asked) {
    NODEWISE_ASSIGN_OR_RETURN(ForeignFolder folder, ForeignFolder::Create());
    return ForeignRun(target, std::move(asked), std::move(folder));
  }

  absl::StatusOr<std::string> WriteModel(const std::string& bytes,
                                         const UserModel* file) const {
    return folder_.WriteModel(bytes, file);
  }

  absl::Status Run(const std::string& model,
                   absl::Span<const NamedTensor> inputs, uint64_t repeats) {
    const ForeignRequest request{model, inputs, asked_, repeats};
    NODEWISE_ASSIGN_OR_RETURN(const std::string path,
                              WriteRequest(request, folder_));
    ForeignProcess process;
    process.name = target_.command.name;
    process.arguments = target_.command.arguments;
    process.arguments.push_back(path);
    process.time_limit_ms = target_.limits.time_ms;
    process.most_printed_bytes = target_.limits.printed_bytes;
    process.most_file_bytes = target_.limits.answer_bytes;
    process.folder = folder_.outputs_path();
    process.most_folder_bytes = MostBytes();
    process.most_folder_files = asked_.size() + kSpareForeignFiles;
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_RETURN_IF_ERROR(RunForeignProcess(process));
    const int64_t duration_ns = ClockNanoseconds() - start_ns;
    auto answer = ReadAnswer(folder_, request, target_.limits.answer_bytes);
    if (!answer.ok()) return At(target_.command.name, answer.status());
    answer_ = *std::move(answer);
    // Without times of its own only the whole program can be timed, and what
    // it took is shared out.
    if (answer_.durations_ns.empty()) {
      answer_.durations_ns.assign(repeats,
                                  duration_ns / static_cast<int64_t>(repeats));
    }
    return absl::OkStatus();
  }

  const std::vector<AskedTensor>& asked() const { return asked_; }
  const std::vector<int64_t>& durations_ns() const {
    return answer_.durations_ns;
  }
  const std::string& runtime() const { return answer_.runtime; }
  // Empty if the program has handed out the tensor.
  const std::string& WhyAbsent(size_t asked) const {
    const AnsweredTensor& said = answer_.tensors[asked];
    return said.why_absent.empty() && !said.differs_in_form ? said.misfit
                                                            : said.why_absent;
  }
  // Fails if an output is of another type than it should be.
  absl::Status CheckOutput(size_t asked) const {
    const AnsweredTensor& said = answer_.tensors[asked];
    const bool is_taken = said.misfit.empty() ||
                          (said.differs_in_form && target_.takes_other_forms);
    if (is_taken) return absl::OkStatus();
    return absl::DataLossError(
        fmt::format("{}: output {}", target_.command.name, said.misfit));
  }
  absl::StatusOr<NDArray> Read(size_t asked) const {
    const AnsweredTensor& said = answer_.tensors[asked];
    auto tensor = folder_.ReadOutput(said.file, said.shape, said.dtype);
    if (tensor.ok() && said.differs_in_form) {
      return InForm(*tensor, asked_[asked].type);
    }
    if (tensor.ok()) return tensor;
    return At(
        fmt::format("{}: tensor {}", target_.command.name, asked_[asked].name),
        tensor.status());
  }

 private:
  static absl::StatusOr<NDArray> InForm(const NDArray& tensor,
                                        const TensorType& type) {
    if (tensor.dtype() == type.dtype) {
      return tensor.View(*type.sizes(), type.dtype);
    }
    NODEWISE_ASSIGN_OR_RETURN(NDArray made,
                              NDArray::Empty(*type.sizes(), type.dtype, kCpu));
    const std::vector<double> numbers = ToDoubles(tensor);
    StoreDoubles(numbers.data(), 0, CountOf(made), made);
    return made;
  }

  ForeignRun(const ForeignTarget& target, std::vector<AskedTensor> asked,
             ForeignFolder folder)
      : target_(target), asked_(std::move(asked)), folder_(std::move(folder)) {}

  // How much the folder of outputs may hold: no more than the tensors need, if
  // their sizes are known.
  uint64_t MostBytes() const {
    uint64_t bytes = kSpareBytes;
    for (const AskedTensor& asked : asked_) {
      if (!asked.type.is_static() || !asked.type.has_dtype()) {
        return target_.limits.answer_bytes;
      }
      const auto more = TensorBytes(*asked.type.sizes(), asked.type.dtype);
      bytes += more.value_or(0);
    }
    return std::min(bytes, target_.limits.answer_bytes);
  }

  const ForeignTarget& target_;
  std::vector<AskedTensor> asked_;
  ForeignFolder folder_;
  ForeignAnswer answer_;
};

class ForeignRunner : public Runner {
 public:
  ForeignRunner(ForeignTarget target, std::shared_ptr<const UserModel> file)
      : target_(std::move(target)),
        name_("foreign " + target_.name),
        network_(*target_.network),
        inputs_(ListInputs(network_)),
        file_(std::move(file)) {
    std::vector<NamedTensor> outputs;
    for (const ValueId id : network_.outputs()) {
      value_outputs_.push_back(network_.value(id).name);
      outputs.push_back({value_outputs_.back(), NDArray()});
    }
    MakeNamesUnique(&outputs);
    for (NamedTensor& output : outputs) {
      outputs_.push_back(std::move(output.name));
    }
  }

  // Finds the values that are handed out, in the order of the run.
  absl::Status Init() {
    const std::vector<std::string> all = ObservableValues(network_);
    std::set<std::string> observed(all.begin(), all.end());
    if (target_.observed.has_value()) {
      for (const std::string& name : *target_.observed) {
        if (observed.contains(name)) continue;
        return absl::InvalidArgumentError(fmt::format(
            "{}: value {}: is not a value between operations that can be "
            "observed, expected one",
            target_.name, name));
      }
      observed = {target_.observed->begin(), target_.observed->end()};
    }
    observed.insert(value_outputs_.begin(), value_outputs_.end());
    for (const OperationId operation : network_.order()) {
      for (const ValueId id : network_.operation(operation).outputs) {
        if (id == kNoValue) continue;
        const std::string& name = network_.value(id).name;
        if (observed.contains(name)) handed_.push_back(name);
      }
    }
    return absl::OkStatus();
  }

  const std::string& name() const override { return name_; }
  const InputList& inputs() const override { return *inputs_; }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  bool Can(Capability capability) const override {
    return capability == Capability::kTensors ||
           capability == Capability::kPatches;
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    NODEWISE_ASSIGN_OR_RETURN(
        ForeignModel model,
        ForeignModel::Create(network_, file_.get(), options.patches));
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      inputs.push_back({inputs_->Name(i), std::move(tensors[i])});
    }
    inputs = model.InputsOf(inputs);
    Found given;
    for (const NamedTensor& input : inputs)
      given.tensors[input.name] = input.tensor;
    Found found = given;
    RunResult result;
    if (options.sink == nullptr) {
      NODEWISE_RETURN_IF_ERROR(
          RunUnseen(&model, inputs, options, &found, &result));
    }
    for (uint64_t i = 0; options.sink != nullptr && i < options.repeats; ++i) {
      found = given;
      NODEWISE_RETURN_IF_ERROR(
          RunSeen(&model, inputs, options, &found, &result));
    }
    NODEWISE_RETURN_IF_ERROR(NameOutputs(found, &result));
    return result;
  }

 private:
  // Which model the program is given.
  enum class WrittenModel : uint8_t {
    kAsRead,       // The user's file.
    kWithOutputs,  // One with further outputs.
    kEndingThere,  // One that has what is asked for as its outputs, and no
                   // operation behind it.
  };

  // The values that are known, by name, and why others are not.
  struct Found {
    std::map<std::string, NDArray> tensors;
    std::map<std::string, std::string> absent;
  };

  absl::Status RunUnseen(ForeignModel* model,
                         absl::Span<const NamedTensor> inputs,
                         const RunOptions& options, Found* found,
                         RunResult* result) const {
    const bool is_as_read =
        options.patches.empty() && !target_.model_file.empty();
    NODEWISE_ASSIGN_OR_RETURN(
        auto run,
        Execute(model, value_outputs_,
                is_as_read ? WrittenModel::kAsRead : WrittenModel::kWithOutputs,
                inputs, options.repeats));
    if (run == nullptr) return absl::OkStatus();
    result->durations_ns = run->durations_ns();
    result->runtime = run->runtime();
    for (size_t i = 0; i < run->asked().size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(run->CheckOutput(i));
      if (!run->WhyAbsent(i).empty()) {
        found->absent[run->asked()[i].name] = run->WhyAbsent(i);
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(KeepOutput(*run, i, found).status());
    }
    return absl::OkStatus();
  }

  // Runs the program as often as it takes to see all values, a part of them
  // each time.
  absl::Status RunSeen(ForeignModel* model,
                       absl::Span<const NamedTensor> inputs,
                       const RunOptions& options, Found* found,
                       RunResult* result) const {
    for (const NamedTensor& input : inputs) {
      NODEWISE_RETURN_IF_ERROR(Hand(input.name, input.tensor, "", options));
    }
    std::vector<std::string> wanted;
    for (const std::string& name : handed_) {
      if (!options.select || options.select(name)) wanted.push_back(name);
    }
    if (target_.ends_at_each) {
      return RunToEach(model, inputs, wanted, options, found, result);
    }
    const size_t most =
        target_.most_at_once == 0 ? wanted.size() : target_.most_at_once;
    int64_t duration_ns = 0;
    size_t begin = 0;
    do {
      const size_t end = std::min(wanted.size(), begin + most);
      const std::set<std::string> part(wanted.begin() + begin,
                                       wanted.begin() + end);
      NODEWISE_ASSIGN_OR_RETURN(auto run,
                                Execute(model, WithOutputs(part),
                                        WrittenModel::kWithOutputs, inputs, 1));
      for (size_t i = 0; run != nullptr && i < run->asked().size(); ++i) {
        NODEWISE_RETURN_IF_ERROR(TakeSeen(*run, i, part, options, found));
      }
      NODEWISE_RETURN_IF_ERROR(HandHidden(*model, part, options));
      if (run != nullptr) {
        duration_ns += run->durations_ns()[0];
        result->runtime = run->runtime();
      }
      begin = end;
    } while (begin < wanted.size());
    result->durations_ns.push_back(duration_ns);
    return absl::OkStatus();
  }

  // Runs the model as it is for its outputs, and a part of it for each value.
  absl::Status RunToEach(ForeignModel* model,
                         absl::Span<const NamedTensor> inputs,
                         const std::vector<std::string>& wanted,
                         const RunOptions& options, Found* found,
                         RunResult* result) const {
    RunOptions once;
    once.patches = options.patches;
    NODEWISE_RETURN_IF_ERROR(RunUnseen(model, inputs, once, found, result));
    for (const std::string& name : wanted) {
      const auto output = found->tensors.find(name);
      if (output != found->tensors.end()) {
        NODEWISE_RETURN_IF_ERROR(Hand(name, output->second, "", options));
        continue;
      }
      const std::set<std::string> part = {name};
      auto run = Execute(model, {name}, WrittenModel::kEndingThere, inputs, 1);
      if (absl::IsUnavailable(run.status())) {
        NODEWISE_RETURN_IF_ERROR(Hand(
            name, NDArray(), std::string(MessageOf(run.status())), options));
        continue;
      }
      if (!run.ok()) return run.status();
      for (size_t i = 0; *run != nullptr && i < (*run)->asked().size(); ++i) {
        NODEWISE_RETURN_IF_ERROR(TakeSeen(**run, i, part, options, found));
      }
      NODEWISE_RETURN_IF_ERROR(HandHidden(*model, part, options));
    }
    return absl::OkStatus();
  }

  // The outputs are always asked for, so that the runtime computes the same in
  // every part.
  std::vector<std::string> WithOutputs(
      const std::set<std::string>& values) const {
    std::vector<std::string> names;
    const std::set<std::string> outputs(value_outputs_.begin(),
                                        value_outputs_.end());
    for (const std::string& name : handed_) {
      if (values.contains(name) || outputs.contains(name)) {
        names.push_back(name);
      }
    }
    for (const std::string& name : value_outputs_) names.push_back(name);
    return names;
  }

  // Null if there is nothing to compute.
  absl::StatusOr<std::unique_ptr<ForeignRun>> Execute(
      ForeignModel* model, const std::vector<std::string>& values,
      WrittenModel written, absl::Span<const NamedTensor> inputs,
      uint64_t repeats) const {
    std::vector<AskedTensor> asked = model->Ask(values);
    if (asked.empty()) return nullptr;
    NODEWISE_ASSIGN_OR_RETURN(ForeignRun made,
                              ForeignRun::Create(target_, asked));
    auto run = std::make_unique<ForeignRun>(std::move(made));
    std::string path;
    if (written == WrittenModel::kAsRead) {
      std::error_code error;
      path = std::filesystem::absolute(target_.model_file, error);
    } else {
      NODEWISE_ASSIGN_OR_RETURN(const std::string bytes,
                                written == WrittenModel::kEndingThere
                                    ? model->WriteEndingAt(asked)
                                    : model->Write(asked));
      NODEWISE_ASSIGN_OR_RETURN(path, run->WriteModel(bytes, model->file()));
    }
    const int64_t start_ns = ClockNanoseconds();
    const absl::Status ran = run->Run(path, inputs, repeats);
    Count(model->patched().empty() ? written : WrittenModel::kEndingThere,
          ClockNanoseconds() - start_ns);
    NODEWISE_RETURN_IF_ERROR(ran);
    return run;
  }

  void Count(WrittenModel written, int64_t nanoseconds) const {
    if (target_.meter == nullptr) return;
    ProgramRuns run;
    run.nanoseconds = nanoseconds;
    switch (written) {
      case WrittenModel::kAsRead:
        run.as_read = 1;
        break;
      case WrittenModel::kWithOutputs:
        run.observed = 1;
        break;
      case WrittenModel::kEndingThere:
        run.changed = 1;
        break;
    }
    target_.meter->Add(run);
  }

  // Says which values the file does not have where they can be asked for.
  absl::Status HandHidden(const ForeignModel& model,
                          const std::set<std::string>& wanted,
                          const RunOptions& options) const {
    if (model.file() == nullptr) return absl::OkStatus();
    for (const std::string& name : wanted) {
      if (model.file()->Makes(name) || model.FindPatched(name) != nullptr) {
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(Hand(
          name, NDArray(),
          "it is inside a function, a branch or a loop of the file", options));
    }
    return absl::OkStatus();
  }

  bool IsOutput(const std::string& name) const {
    return std::ranges::find(value_outputs_, name) != value_outputs_.end();
  }

  // Reads a tensor, and keeps it if it is an output of the network.
  absl::StatusOr<NDArray> KeepOutput(const ForeignRun& run, size_t i,
                                     Found* found) const {
    const std::string& name = run.asked()[i].name;
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, run.Read(i));
    if (IsOutput(name)) found->tensors[name] = tensor;
    return tensor;
  }

  absl::Status TakeSeen(const ForeignRun& run, size_t i,
                        const std::set<std::string>& wanted,
                        const RunOptions& options, Found* found) const {
    const std::string& name = run.asked()[i].name;
    const bool is_wanted = wanted.contains(name);
    // Another part hands it out, or has done so.
    if (!is_wanted && (!IsOutput(name) || found->tensors.contains(name))) {
      return absl::OkStatus();
    }
    if (IsOutput(name)) NODEWISE_RETURN_IF_ERROR(run.CheckOutput(i));
    if (!run.WhyAbsent(i).empty()) {
      found->absent[name] = run.WhyAbsent(i);
      if (!is_wanted) return absl::OkStatus();
      return Hand(name, NDArray(), run.WhyAbsent(i), options);
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, KeepOutput(run, i, found));
    if (!is_wanted) return absl::OkStatus();
    return Hand(name, tensor, "", options);
  }

  absl::Status Hand(const std::string& name, const NDArray& tensor,
                    const std::string& why_absent,
                    const RunOptions& options) const {
    if (options.select && !options.select(name)) return absl::OkStatus();
    const TensorKey key{name, 0, TensorRole::kOutput, name_};
    TensorItem item{key};
    if (tensor.defined()) {
      item.tensor = tensor.tensor();
      item.lasting = tensor;
    }
    item.why_absent = why_absent;
    const auto id = network_.FindValue(name);
    item.is_network_input =
        id.ok() && network_.value(*id).kind == NetworkValue::Kind::kInput;
    return options.sink->Take(item);
  }

  absl::Status NameOutputs(const Found& found, RunResult* result) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto known = found.tensors.find(value_outputs_[i]);
      if (known == found.tensors.end()) {
        const auto why = found.absent.find(value_outputs_[i]);
        return absl::UnavailableError(fmt::format(
            "{}: has not handed out output {}{}, expected all",
            target_.command.name, value_outputs_[i],
            why == found.absent.end() ? "" : " (" + why->second + ")"));
      }
      // A sink, or another output, may have the same tensor.
      NODEWISE_ASSIGN_OR_RETURN(NDArray copy, known->second.CopyToHost());
      result->outputs.push_back({outputs_[i], std::move(copy)});
    }
    return absl::OkStatus();
  }

  const ForeignTarget target_;
  const std::string name_;
  const Network& network_;
  const std::unique_ptr<const InputList> inputs_;
  std::vector<std::string> value_outputs_;  // As the network calls them.
  std::vector<std::string> outputs_;        // Made unique.
  std::vector<std::string> handed_;
  const std::shared_ptr<const UserModel> file_;  // Null: there is none.
};

absl::StatusOr<std::unique_ptr<Runner>> MakeRunnerOf(
    ForeignTarget target, std::shared_ptr<const UserModel> file) {
  auto runner =
      std::make_unique<ForeignRunner>(std::move(target), std::move(file));
  NODEWISE_RETURN_IF_ERROR(runner->Init());
  return runner;
}

// Null if the path is empty.
absl::StatusOr<std::shared_ptr<const UserModel>> OpenUserModel(
    const std::string& path) {
  if (path.empty()) return nullptr;
  NODEWISE_ASSIGN_OR_RETURN(UserModel file, UserModel::Open(path));
  return std::make_shared<const UserModel>(std::move(file));
}

// The file that runners were made of last. A search makes a hundred of them,
// and the file may be large. Any thread may ask.
class LastUserModel {
 public:
  absl::StatusOr<std::shared_ptr<const UserModel>> Open(
      const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr || file_->path() != path) {
      NODEWISE_ASSIGN_OR_RETURN(file_, OpenUserModel(path));
    }
    return file_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const UserModel> file_;
};

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
    const auto found = std::ranges::find_if(
        made, [&](const NamedTensor& each) { return each.name == name; });
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
std::vector<std::string> ObservableValues(const Network& network) {
  const std::set<ValueId> outputs(network.outputs().begin(),
                                  network.outputs().end());
  std::vector<std::string> names;
  for (const OperationId operation : network.order()) {
    for (const ValueId id : network.operation(operation).outputs) {
      if (id == kNoValue || outputs.contains(id)) continue;
      const NetworkValue& value = network.value(id);
      // A model cannot have an output of a type that is not known. A value
      // without readers is often an optional output that runtimes leave
      // unfilled.
      if (value.type.has_dtype() && !value.uses.empty()) {
        names.push_back(value.name);
      }
    }
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Runner>> MakeForeignRunner(
    ForeignTarget target) {
  NODEWISE_ASSIGN_OR_RETURN(auto file, OpenUserModel(target.model_file));
  return MakeRunnerOf(std::move(target), std::move(file));
}

std::shared_ptr<const NetworkProgram> ProgramOf(ForeignTarget target) {
  NetworkProgram program;
  if (target.meter == nullptr) target.meter = std::make_shared<ProgramMeter>();
  program.runs = [meter = target.meter] { return meter->runs(); };
  program.name = target.name;
  program.command = target.command.arguments;
  program.make =
      [target = std::move(target), last = std::make_shared<LastUserModel>()](
          ProgramRequest request) -> absl::StatusOr<std::unique_ptr<Runner>> {
    ForeignTarget asked = target;
    asked.network = std::move(request.network);
    asked.model_file = std::move(request.model_file);
    asked.observed = std::move(request.observed);
    asked.ends_at_each = request.ends_at_each;
    std::shared_ptr<const UserModel> file;
    if (!asked.model_file.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(file, last->Open(asked.model_file));
    }
    return MakeRunnerOf(std::move(asked), std::move(file));
  };
  return std::make_shared<const NetworkProgram>(std::move(program));
}

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
