#include "nodewise/foreign/foreign_runner.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "contrib/foreign/foreign_protocol.h"
#include "fmt/format.h"
#include "nodewise/foreign/foreign_process.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/onnx/user_model.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"

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
    return FindTensor(patched_, value);
  }

  // The inputs that the model has, of these and the patched ones.
  std::vector<NamedTensor> InputsOf(absl::Span<const NamedTensor> given) const {
    std::vector<NamedTensor> inputs;
    for (const ValueId id : network_.inputs()) {
      const std::string& name = network_.value(id).name;
      const NDArray* tensor = FindPatched(name);
      if (tensor == nullptr) tensor = FindTensor(given, name);
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
      // Outputs are among the values that are asked for, and several outputs
      // may be one value.
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
    // The file is copied, since the model for the next value ends at another
    // place.
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
      return InvalidArgument("{}: value {}: is given twice, expected once",
                             patch.from, patch.entry);
    }
    NODEWISE_RETURN_IF_ERROR(CheckPatch(patch, value));
    patched_.push_back({value.name, patch.tensor});
    if (value.kind == NetworkValue::Kind::kInput) return absl::OkStatus();
    // The operation goes on making the value under another name, and an input
    // of the old name takes its place, so that its readers need not be told.
    const TensorType type = TensorType::From(*patch.tensor);
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
      NODEWISE_ASSIGN_OR_RETURN(ids.emplace_back(),
                                network->FindValue(output.name));
    }
    return network->SetOutputs(std::move(ids));
  }

  Network network_;
  const UserModel* file_;
  std::vector<NamedTensor> patched_;
  std::vector<UserModel::Value> given_;  // Patched values that operations make.
};

// A program may leave so much beside the tensors that it was asked for: its
// answer, and logs or caches that runtimes write without being asked.
constexpr uint64_t kSpareBytes = uint64_t{1} << 24;
constexpr size_t kSpareFiles = 64;

// Runs the program on a request, for so many tensors that take so many bytes.
absl::Status RunCommand(const ForeignCommand& command,
                        const ForeignLimits& limits, const std::string& request,
                        const ForeignFolder& folder, uint64_t most_bytes,
                        size_t tensors) {
  ForeignProcess process{command.name,        command.arguments,
                         limits.time_ms,      limits.printed_bytes,
                         limits.answer_bytes, folder.outputs_path(),
                         most_bytes,          tensors + kSpareFiles};
  process.arguments.push_back(request);
  return RunForeignProcess(process);
}

struct ForeignRun {
  const ForeignTarget& target;
  std::vector<AskedTensor> asked;
  ForeignFolder folder;
  ForeignAnswer answer = {};

  absl::Status Run(const std::string& model,
                   absl::Span<const NamedTensor> inputs, uint64_t repeats) {
    const ForeignRequest request{model, inputs, asked, repeats};
    NODEWISE_ASSIGN_OR_RETURN(const std::string path,
                              WriteRequest(request, folder));
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_RETURN_IF_ERROR(RunCommand(target.command, target.limits, path,
                                        folder, MostBytes(), asked.size()));
    const int64_t duration_ns = ClockNanoseconds() - start_ns;
    auto read = ReadAnswer(folder, request, target.limits.answer_bytes);
    if (!read.ok()) return At(target.command.name, read.status());
    answer = *std::move(read);
    // Without times of its own only the whole program can be timed, and what
    // it took is shared out.
    if (answer.durations_ns.empty()) {
      answer.durations_ns.assign(repeats,
                                 duration_ns / static_cast<int64_t>(repeats));
    }
    return absl::OkStatus();
  }

  // Empty if the program has handed out the tensor.
  const std::string& AbsenceReason(size_t i) const {
    const AnsweredTensor& said = answer.tensors[i];
    return said.why_absent.empty() && !said.differs_in_form ? said.misfit
                                                            : said.why_absent;
  }
  absl::Status CheckOutput(size_t i) const {
    const AnsweredTensor& said = answer.tensors[i];
    const bool is_taken = said.misfit.empty() ||
                          (said.differs_in_form && target.takes_other_forms);
    if (is_taken) return absl::OkStatus();
    return DataLoss("{}: output {}", target.command.name, said.misfit);
  }
  absl::StatusOr<NDArray> Read(size_t i) const {
    const AnsweredTensor& said = answer.tensors[i];
    auto tensor = folder.ReadOutput(said.file, said.shape, said.dtype);
    if (!tensor.ok()) {
      return At(
          fmt::format("{}: tensor {}", target.command.name, asked[i].name),
          tensor.status());
    }
    return said.differs_in_form ? InForm(*tensor, asked[i].type) : tensor;
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

  // How much the folder of outputs may hold: no more than the tensors need, if
  // their sizes are known.
  uint64_t MostBytes() const {
    uint64_t bytes = kSpareBytes;
    for (const AskedTensor& each : asked) {
      if (!each.type.is_static() || !each.type.has_dtype()) {
        return target.limits.answer_bytes;
      }
      bytes += TensorBytes(*each.type.sizes(), each.type.dtype).value_or(0);
    }
    return std::min(bytes, target.limits.answer_bytes);
  }
};

// Which model the program is given.
enum class WrittenModel : uint8_t {
  kAsRead,       // The user's file.
  kWithOutputs,  // One with further outputs.
  kEndingThere,  // One that has what is asked for as its outputs, and no
                 // operation behind it.
};

// A run of the network, which may take many of the program.
struct NetworkRun {
  ForeignModel model;
  const RunOptions& options;
  std::vector<NamedTensor> inputs = {};
  RunResult result = {};
  // The values that are known, by name, and why others are not.
  std::map<std::string, NDArray> tensors = {};
  std::map<std::string, std::string> absent = {};

  // Forgets what a repeat before has found.
  void Begin() {
    tensors.clear();
    absent.clear();
    for (const NamedTensor& input : inputs) tensors[input.name] = input.tensor;
  }
};

class ForeignRunner : public Runner {
 public:
  ForeignRunner(ForeignTarget target, std::shared_ptr<const UserModel> file)
      : target_(std::move(target)),
        name_("foreign " + target_.name),
        network_(*target_.network),
        inputs_(ListInputs(network_)),
        file_(std::move(file)) {
    for (const ValueId id : network_.outputs()) {
      value_outputs_.push_back(network_.value(id).name);
    }
    outputs_ = UniqueNames(value_outputs_);
  }

  // Finds the values that are handed out, in the order of the run.
  absl::Status Init() {
    const std::vector<std::string> all = ObservableValues(network_);
    std::set<std::string> observed(all.begin(), all.end());
    if (target_.observed.has_value()) {
      for (const std::string& name : *target_.observed) {
        if (observed.contains(name)) continue;
        return InvalidArgument(
            "{}: value {}: is not a value between operations that can be "
            "observed, expected one",
            target_.name, name);
      }
      // Only now: the names were checked against all that can be observed.
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
    NetworkRun run{std::move(model), options};
    run.inputs =
        run.model.InputsOf(NameGivenTensors(*inputs_, std::move(tensors)));
    run.Begin();
    if (options.sink == nullptr) {
      NODEWISE_RETURN_IF_ERROR(RunUnobserved(options.repeats, &run));
    }
    for (uint64_t i = 0; options.sink != nullptr && i < options.repeats; ++i) {
      run.Begin();
      NODEWISE_RETURN_IF_ERROR(RunObserved(&run));
    }
    NODEWISE_RETURN_IF_ERROR(NameOutputs(&run));
    return std::move(run.result);
  }

 private:
  using Names = std::set<std::string>;

  absl::Status RunUnobserved(uint64_t repeats, NetworkRun* run) const {
    const bool is_as_read =
        run->options.patches.empty() && !target_.model_file.empty();
    NODEWISE_ASSIGN_OR_RETURN(
        const auto ran,
        Execute(value_outputs_,
                is_as_read ? WrittenModel::kAsRead : WrittenModel::kWithOutputs,
                repeats, run));
    if (ran == nullptr) return absl::OkStatus();
    run->result.durations_ns = ran->answer.durations_ns;
    run->result.runtime = ran->answer.runtime;
    for (size_t i = 0; i < ran->asked.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(ran->CheckOutput(i));
      if (!ran->AbsenceReason(i).empty()) {
        run->absent[ran->asked[i].name] = ran->AbsenceReason(i);
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(KeepOutput(*ran, i, run).status());
    }
    return absl::OkStatus();
  }

  // Runs the program as often as it takes to see all values, a part of them
  // each time.
  absl::Status RunObserved(NetworkRun* run) const {
    for (const NamedTensor& input : run->inputs) {
      NODEWISE_RETURN_IF_ERROR(
          Emit(input.name, input.tensor, "", run->options));
    }
    std::vector<std::string> wanted;
    for (const std::string& name : handed_) {
      if (run->options.Selects(name)) wanted.push_back(name);
    }
    if (target_.ends_at_each) return RunForEachValue(wanted, run);
    const size_t most =
        target_.most_at_once == 0 ? wanted.size() : target_.most_at_once;
    int64_t duration_ns = 0;
    size_t begin = 0;
    do {
      const size_t end = std::min(wanted.size(), begin + most);
      const Names part(wanted.begin() + begin, wanted.begin() + end);
      NODEWISE_ASSIGN_OR_RETURN(
          const auto ran,
          Execute(WithOutputs(part), WrittenModel::kWithOutputs, 1, run));
      NODEWISE_RETURN_IF_ERROR(EmitAll(ran.get(), part, run));
      if (ran != nullptr) {
        duration_ns += ran->answer.durations_ns[0];
        run->result.runtime = ran->answer.runtime;
      }
      begin = end;
    } while (begin < wanted.size());
    run->result.durations_ns.push_back(duration_ns);
    return absl::OkStatus();
  }

  // Runs the model as it is for its outputs, and a part of it for each value.
  absl::Status RunForEachValue(const std::vector<std::string>& wanted,
                               NetworkRun* run) const {
    NODEWISE_RETURN_IF_ERROR(RunUnobserved(1, run));
    for (const std::string& name : wanted) {
      const auto output = run->tensors.find(name);
      if (output != run->tensors.end()) {
        NODEWISE_RETURN_IF_ERROR(Emit(name, output->second, "", run->options));
        continue;
      }
      const auto ran = Execute({name}, WrittenModel::kEndingThere, 1, run);
      if (absl::IsUnavailable(ran.status())) {
        NODEWISE_RETURN_IF_ERROR(Emit(name, NDArray(),
                                      std::string(MessageOf(ran.status())),
                                      run->options));
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(ran.status());
      NODEWISE_RETURN_IF_ERROR(EmitAll(ran->get(), {name}, run));
    }
    return absl::OkStatus();
  }

  // The outputs are always asked for, so that the runtime computes the same in
  // every part.
  std::vector<std::string> WithOutputs(const Names& values) const {
    std::vector<std::string> names;
    for (const std::string& name : handed_) {
      if (values.contains(name) || IsOutput(name)) names.push_back(name);
    }
    names.insert(names.end(), value_outputs_.begin(), value_outputs_.end());
    return names;
  }

  // Runs the program for these values; returns null if there is nothing to
  // compute.
  absl::StatusOr<std::unique_ptr<ForeignRun>> Execute(
      const std::vector<std::string>& values, WrittenModel written,
      uint64_t repeats, NetworkRun* run) const {
    std::vector<AskedTensor> asked = run->model.Ask(values);
    if (asked.empty()) return nullptr;
    NODEWISE_ASSIGN_OR_RETURN(ForeignFolder folder, ForeignFolder::Create());
    auto ran = std::make_unique<ForeignRun>(
        ForeignRun{target_, std::move(asked), std::move(folder)});
    std::string path;
    if (written == WrittenModel::kAsRead) {
      std::error_code error;
      path = std::filesystem::absolute(target_.model_file, error);
    } else {
      NODEWISE_ASSIGN_OR_RETURN(const std::string bytes,
                                written == WrittenModel::kEndingThere
                                    ? run->model.WriteEndingAt(ran->asked)
                                    : run->model.Write(ran->asked));
      NODEWISE_ASSIGN_OR_RETURN(
          path, ran->folder.WriteModel(bytes, run->model.file()));
    }
    const int64_t start_ns = ClockNanoseconds();
    const absl::Status status = ran->Run(path, run->inputs, repeats);
    Count(run->model.patched().empty() ? written : WrittenModel::kEndingThere,
          ClockNanoseconds() - start_ns);
    NODEWISE_RETURN_IF_ERROR(status);
    return ran;
  }

  void Count(WrittenModel written, int64_t nanoseconds) const {
    // A run counts also if it fails, since it took its time.
    if (target_.meter == nullptr) return;
    ProgramRuns run;
    run.nanoseconds = nanoseconds;
    if (written == WrittenModel::kAsRead) {
      run.as_read = 1;
    } else {
      (written == WrittenModel::kWithOutputs ? run.observed : run.changed) = 1;
    }
    target_.meter->Add(run);
  }

  // Hands out what is wanted of a run, which is null if there was nothing to
  // compute, and says which values the file does not have where they can be
  // asked for.
  absl::Status EmitAll(const ForeignRun* ran, const Names& wanted,
                       NetworkRun* run) const {
    for (size_t i = 0; ran != nullptr && i < ran->asked.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(EmitOne(*ran, i, wanted, run));
    }
    const ForeignModel& model = run->model;
    for (const std::string& name : wanted) {
      // An imported network has values of functions and branches inlined; the
      // file has them where no output can reach.
      const bool is_hidden = model.file() != nullptr &&
                             !model.file()->Makes(name) &&
                             model.FindPatched(name) == nullptr;
      if (!is_hidden) continue;
      NODEWISE_RETURN_IF_ERROR(
          Emit(name, NDArray(),
               "it is inside a function, a branch or a loop of the file",
               run->options));
    }
    return absl::OkStatus();
  }

  bool IsOutput(const std::string& name) const {
    return std::ranges::find(value_outputs_, name) != value_outputs_.end();
  }

  absl::StatusOr<NDArray> KeepOutput(const ForeignRun& ran, size_t i,
                                     NetworkRun* run) const {
    const std::string& name = ran.asked[i].name;
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, ran.Read(i));
    if (IsOutput(name)) run->tensors[name] = tensor;
    return tensor;
  }

  absl::Status EmitOne(const ForeignRun& ran, size_t i, const Names& wanted,
                       NetworkRun* run) const {
    const std::string& name = ran.asked[i].name;
    const bool is_wanted = wanted.contains(name);
    // Another part of the network hands the output out, or has done so.
    if (!is_wanted && (!IsOutput(name) || run->tensors.contains(name))) {
      return absl::OkStatus();
    }
    if (IsOutput(name)) NODEWISE_RETURN_IF_ERROR(ran.CheckOutput(i));
    const std::string& why_absent = ran.AbsenceReason(i);
    NDArray tensor;
    if (why_absent.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(tensor, KeepOutput(ran, i, run));
    } else {
      run->absent[name] = why_absent;
    }
    if (!is_wanted) return absl::OkStatus();
    return Emit(name, tensor, why_absent, run->options);
  }

  absl::Status Emit(const std::string& name, const NDArray& tensor,
                    const std::string& why_absent,
                    const RunOptions& options) const {
    if (!options.Selects(name)) return absl::OkStatus();
    const TensorKey key{name, 0, TensorRole::kOutput, name_};
    TensorItem item = ItemOf(key, tensor);
    item.why_absent = why_absent;
    const auto id = network_.FindValue(name);
    item.is_network_input =
        id.ok() && network_.value(*id).kind == NetworkValue::Kind::kInput;
    return options.sink->Consume(item);
  }

  absl::Status NameOutputs(NetworkRun* run) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto known = run->tensors.find(value_outputs_[i]);
      if (known == run->tensors.end()) {
        const auto why = run->absent.find(value_outputs_[i]);
        return Unavailable(
            "{}: has not handed out output {}{}, expected all",
            target_.command.name, value_outputs_[i],
            why == run->absent.end() ? "" : " (" + why->second + ")");
      }
      // A sink, or another output, may have the same tensor.
      NODEWISE_ASSIGN_OR_RETURN(NDArray copy, known->second.CopyToHost());
      run->result.outputs.push_back({outputs_[i], std::move(copy)});
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

struct AskedCase {
  std::vector<NamedTensor> inputs;
  std::vector<std::string> values;  // By output of the network.
  std::vector<AskedTensor> asked;   // Each once, and no inputs.
  std::string model;                // The path of its file.
};

absl::StatusOr<AskedCase> PrepareCase(const ForeignCase& each,
                                      const ForeignModel& model) {
  const Network& network = *each.network;
  AskedCase asked;
  if (each.inputs.size() != network.inputs().size()) {
    return InvalidArgument("a case has {} inputs, expected {}",
                           each.inputs.size(), network.inputs().size());
  }
  for (size_t i = 0; i < each.inputs.size(); ++i) {
    asked.inputs.push_back(
        {network.value(network.inputs()[i]).name, each.inputs[i]});
  }
  for (const ValueId id : network.outputs()) {
    asked.values.push_back(network.value(id).name);
  }
  asked.asked = model.Ask(asked.values);
  return asked;
}

absl::StatusOr<std::vector<AskedCase>> PrepareCases(
    absl::Span<const ForeignCase> cases, const ForeignFolder& folder) {
  std::vector<AskedCase> all;
  for (size_t i = 0; i < cases.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(
        ForeignModel model,
        ForeignModel::Create(*cases[i].network, nullptr, {}));
    NODEWISE_ASSIGN_OR_RETURN(AskedCase asked, PrepareCase(cases[i], model));
    // Cases of one network in a row share the file of its model.
    if (i > 0 && cases[i].network == cases[i - 1].network) {
      asked.model = all.back().model;
    } else {
      NODEWISE_ASSIGN_OR_RETURN(const std::string bytes,
                                model.Write(asked.asked));
      NODEWISE_ASSIGN_OR_RETURN(
          asked.model, folder.Write(fmt::format("model_{}.onnx", i), bytes));
    }
    all.push_back(std::move(asked));
  }
  return all;
}

absl::StatusOr<std::vector<NDArray>> OutputsOf(
    const AskedCase& asked, const std::vector<AnsweredTensor>& answered,
    const ForeignFolder& folder) {
  std::vector<NamedTensor> made = asked.inputs;
  for (size_t i = 0; i < answered.size(); ++i) {
    const std::string& name = asked.asked[i].name;
    const AnsweredTensor& said = answered[i];
    if (!said.why_absent.empty()) {
      return Unavailable("has not handed out output {}: {}", name,
                         said.why_absent);
    }
    auto tensor = folder.ReadOutput(said.file, said.shape, said.dtype);
    if (!tensor.ok()) return At("tensor " + name, tensor.status());
    made.push_back({name, *std::move(tensor)});
  }
  std::vector<NDArray> outputs;
  for (const std::string& name : asked.values) {
    // Two outputs may be one value, so each gets a copy of its own.
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(),
                              FindTensor(made, name)->CopyToHost());
  }
  return outputs;
}

absl::StatusOr<bool> QueryCaseSupport(const ForeignCommand& command,
                                      const ForeignLimits& limits,
                                      const ForeignCase& one) {
  NODEWISE_ASSIGN_OR_RETURN(const ForeignFolder folder,
                            ForeignFolder::Create());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<AskedCase> asked,
                            PrepareCases({&one, 1}, folder));
  // An answer to a usual request says it, so no program is asked about
  // something that it may not know.
  const ForeignRequest request{asked[0].model, asked[0].inputs, asked[0].asked};
  NODEWISE_ASSIGN_OR_RETURN(const std::string path,
                            WriteRequest(request, folder));
  NODEWISE_RETURN_IF_ERROR(RunCommand(command, limits, path, folder,
                                      limits.answer_bytes,
                                      asked[0].asked.size()));
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

bool SupportsForeignCases(const ForeignCommand& command,
                          const ForeignLimits& limits, const ForeignCase& one) {
  return QueryCaseSupport(command, limits, one).value_or(false);
}

absl::StatusOr<std::vector<absl::StatusOr<std::vector<NDArray>>>>
RunForeignCases(const ForeignCommand& command, const ForeignLimits& limits,
                absl::Span<const ForeignCase> cases) {
  NODEWISE_ASSIGN_OR_RETURN(const ForeignFolder folder,
                            ForeignFolder::Create());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<AskedCase> asked,
                            PrepareCases(cases, folder));
  std::vector<ForeignRequest> requests;
  size_t tensors = 0;
  for (const AskedCase& each : asked) {
    requests.push_back({each.model, each.inputs, each.asked});
    tensors += each.asked.size();
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::string path,
                            WriteCases(requests, folder));
  NODEWISE_RETURN_IF_ERROR(
      RunCommand(command, limits, path, folder, limits.answer_bytes, tensors));
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
