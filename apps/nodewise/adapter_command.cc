#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/output_files.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/autotest/check_adapter.h"
#include "nodewise/autotest/learn_deviations.h"
#include "nodewise/foreign/known_programs.h"
#include "nodewise/locate/known_deviation.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/random/random.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/zoo/zoo_networks.h"

namespace nodewise {
namespace {

// Both lie beside the adapters.
constexpr const char* kTemplate = "adapter_template.py";
constexpr const char* kProtocol = "adapter_protocol.py";

// Everything about adapters themselves: whether one hides faults of its runtime
// or makes some, what is usual for that runtime, and a file to begin with.
class UseAdapter : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        {"ACTION", "",
         "check: changes operations behind the adapter, and looks whether "
         "these are named and no other; learn: measures how the runtime "
         "computes single operators otherwise than by their definitions; new: "
         "writes an adapter to begin with",
         &action_},
        {"PROGRAM", "",
         "ort, or another runtime of docs/adapters.md, or exec:COMMAND, an "
         "adapter; of check also with a model of yours, ort:MODEL.onnx; of "
         "new: the file to write",
         &program_},
        {"--faults", "N",
         "for check: how many operations are changed, one at a time (10)",
         NumberOption{&faults_, 1, 10'000}},
        {"--network", "NAME",
         "for check: a network to try: demo, convolutional, transformer, "
         "quantised, recurrent or several_outputs; may be given again (all)",
         &networks_},
        {"--spoil", "",
         "for check: exchanges what an operation makes for other numbers in "
         "the runtime, for one that has a file of its own, which no change of "
         "the model reaches",
         &spoils_},
        {"--inputs", "FILE",
         "for check with a model of yours: inputs by their names from a .npz "
         "or .params file (drawn)",
         &inputs_.inputs_files},
        {"--dim", "NAME=N",
         "for check with a model of yours: the size of a dimension by its "
         "name; may be given again",
         &dims_},
        {"--op", "NAME",
         "for learn: an operator to try; may be given again (all)", &names_},
        {"--configurations", "N",
         "for learn: how many uses of each operator are tried (32)",
         NumberOption{&configurations_, 1, 1'000'000}},
        {"--seed", "N", "draws other uses and numbers (1)",
         NumberOption{&seed_}},
        {"-o,--output", "FILE",
         "for learn: writes the rows to FILE, for locate --known", &output_},
    });
    AddForeignOptions(options, &foreign_);
  }

  absl::StatusOr<Report> Run() override {
    NODEWISE_RETURN_IF_ERROR(CheckGiven());
    if (action_ == "new") return New();
    return action_ == "check" ? Check() : Learn();
  }

 private:
  // Three actions share a list of options, of which each has its own.
  absl::Status CheckGiven() const {
    if (action_ != "learn" && action_ != "check" && action_ != "new") {
      return BadValue("ACTION", Printable(action_), "check, learn or new");
    }
    if (action_ == "new") NODEWISE_RETURN_IF_ERROR(CheckNoRuntime());
    const auto refuse = [&](const char* action, const GivenOptions& given) {
      if (action_ == action) return absl::OkStatus();
      return RefuseGiven(
          given, "",
          fmt::format(": means nothing for {}, expected {}", action_, action));
    };
    NODEWISE_RETURN_IF_ERROR(
        refuse("check", {{faults_.has_value(), "--faults"},
                         {!networks_.empty(), "--network"},
                         {spoils_, "--spoil"},
                         {!inputs_.inputs_files.empty(), "--inputs"},
                         {!dims_.empty(), "--dim"}}));
    return refuse("learn", {{!names_.empty(), "--op"},
                            {configurations_.has_value(), "--configurations"},
                            {!output_.empty(), "--output"}});
  }

  // Options about a runtime that runs mean nothing where none does.
  absl::Status CheckNoRuntime() const {
    const GivenOptions given = {
        {seed_.has_value(), "--seed"},
        {!foreign_.model.empty(), "--model"},
        {!foreign_.python.empty(), "--python"},
        {!foreign_.ort_provider.empty(), "--ort-provider"},
        {!foreign_.ort_level.empty(), "--ort-level"},
        {!foreign_.runtime_options.empty(), "--runtime-option"},
        {foreign_.limit_s.has_value(), "--foreign-limit"},
    };
    return RefuseGiven(given, "",
                       ": means nothing for new, expected check or learn");
  }

  // The protocol goes with the new adapter, which then runs wherever the two
  // are taken.
  absl::StatusOr<Report> New() const {
    namespace fs = std::filesystem;
    const std::string path =
        program_.ends_with(".py") ? program_ : program_ + ".py";
    const std::string protocol =
        (fs::path(path).parent_path() / kProtocol).string();
    NODEWISE_RETURN_IF_ERROR(CopyAdapterFile(kTemplate, path));
    // Several adapters in a folder share the protocol.
    const bool has_protocol = CheckReadable(protocol).ok();
    if (!has_protocol) {
      NODEWISE_RETURN_IF_ERROR(CopyAdapterFile(kProtocol, protocol));
    }
    // What to do next is a part of the answer.
    Report report;
    report.json.Add("file", path);
    report.text += fmt::format(
        "wrote {}{}\n\n"
        "It runs models in the evaluator of the package onnx. Put your runtime "
        "there, and\ntry it:\n"
        "  nodewise adapter check exec:'python3 {}'\n",
        Printable(path),
        has_protocol ? "" : fmt::format(" and {}", Printable(protocol)),
        Printable(path));
    return report;
  }

  // Touches no file that is there.
  static absl::Status CopyAdapterFile(const char* name,
                                      const std::string& path) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string from, AdapterFile(name));
    NODEWISE_ASSIGN_OR_RETURN(const MappedFile content, MappedFile::Open(from));
    NODEWISE_ASSIGN_OR_RETURN(GrowingFile file, GrowingFile::Create(path));
    NODEWISE_RETURN_IF_ERROR(
        file.Write(content.bytes().data(), content.bytes().size()));
    return file.Close();
  }

  struct Tried {
    std::shared_ptr<const NetworkProgram> program;
    std::vector<CheckedNetwork> networks;
  };

  // "ort:model.onnx" has one, "ort" and "exec:command" have none.
  bool HasModel() const {
    return !foreign_.model.empty() ||
           (NamesProgram(program_) && !program_.starts_with("exec:"));
  }

  // The inputs that were not given are drawn, as those of small networks are.
  absl::StatusOr<Tried> OwnModel(uint64_t seed, Report* report) const {
    if (!networks_.empty()) {
      return InvalidArgument(
          "--network: found a model, too, expected one of the two");
    }
    LoadOptions load;
    load.target.target = program_;
    load.model.dims = dims_;
    load.inputs = inputs_;
    load.inputs.seed = seed;
    NODEWISE_ASSIGN_OR_RETURN(Session session,
                              LoadForeign(load, foreign_, report));
    // The report already says what is wrong with the model.
    if (report->status != Report::Status::kOk) return Tried();
    // Some runtimes read the model's own file, beside its data, so it is named.
    CheckedNetwork own{program_, session.network, session.NamedInputs()};
    own.model_file = session.model_file;
    return Tried{session.program, {std::move(own)}};
  }

  absl::StatusOr<Tried> SmallNetworks(uint64_t seed) const {
    if (!inputs_.inputs_files.empty() || !dims_.empty()) {
      return InvalidArgument(
          "{}: found no model of yours, expected PROGRAM:MODEL.onnx, or "
          "--model with exec:COMMAND",
          dims_.empty() ? "--inputs" : "--dim");
    }
    NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program,
                              ProgramNamed("PROGRAM", program_, foreign_));
    // These networks run whole, as a user runs a model, and not one operation
    // at a time: then outputs may have other sides of 1 than they should, or
    // integers of another type.
    program.takes_other_forms = true;
    NODEWISE_ASSIGN_OR_RETURN(auto networks, Networks(seed));
    return Tried{ProgramOf(std::move(program)), std::move(networks)};
  }

  // Changes an operation of a network, runs both in the runtime, and looks
  // whether locate names what was changed.
  absl::StatusOr<Report> Check() const {
    AdapterCheckOptions options;
    options.seed = seed_.value_or(options.seed);
    options.faults = faults_.value_or(options.faults);
    options.spoils = spoils_;
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Tried tried,
                              HasModel() ? OwnModel(options.seed, &report)
                                         : SmallNetworks(options.seed));
    if (report.status != Report::Status::kOk) return report;
    // Deviations that are usual for the runtime are not held against it.
    const std::vector<KnownRuntime> known = BuiltInKnownRuntimes();
    options.known = [&](const std::string& runtime) {
      return RowsOf(known, runtime);
    };
    Progress progress("checking");
    options.progress = progress.Updater();
    NODEWISE_ASSIGN_OR_RETURN(
        const AdapterCheck check,
        CheckAdapter(tried.program, tried.networks, AllOperators(), options));
    // Opening a model may have left notes, which come first.
    Report checked = ReportOf(check, options);
    checked.notes.insert(checked.notes.begin(), report.notes.begin(),
                         report.notes.end());
    return checked;
  }

  absl::StatusOr<std::vector<CheckedNetwork>> Networks(uint64_t seed) const {
    std::vector<ZooNetwork> chosen;
    for (const std::string& name : networks_) {
      auto zoo = FindZooNetwork(name);
      if (!zoo.ok()) return At("--network", zoo.status());
      chosen.push_back(*zoo);
    }
    if (chosen.empty()) {
      chosen.assign(ZooNetworks().begin(), ZooNetworks().end());
    }
    std::vector<CheckedNetwork> networks;
    for (const ZooNetwork& zoo : chosen) {
      NODEWISE_ASSIGN_OR_RETURN(Network made, zoo.make(AllOperators(), seed));
      // Runtimes do not know operators that only nodewise has.
      SplitQuantization(made);
      CheckedNetwork checked{std::string(zoo.name),
                             std::make_shared<const Network>(std::move(made)),
                             {}};
      // Each input has a stream of its own by its name, so that a further input
      // changes no other.
      for (const ValueId id : checked.network->inputs()) {
        const NetworkValue& value = checked.network->value(id);
        RandomSource random(seed, value.name);
        NODEWISE_ASSIGN_OR_RETURN(
            NDArray tensor,
            RandomTensor(random, *value.type.sizes(), value.type.dtype));
        checked.inputs.push_back({value.name, std::move(tensor)});
      }
      networks.push_back(std::move(checked));
    }
    return networks;
  }

  // Compares single operators with their definitions. A difference of a known
  // class is not held against the runtime, and becomes a row.
  absl::StatusOr<Report> Learn() {
    // Names are checked before the program is started for the first time.
    NODEWISE_ASSIGN_OR_RETURN(const auto rows, Rows());
    NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program,
                              ProgramNamed("PROGRAM", program_, foreign_));
    NODEWISE_ASSIGN_OR_RETURN(std::string runtime, RuntimeOf(program));
    // Single operators run as they do in autotest.
    const auto candidate =
        ForeignCandidate(program_, program.command, program.limits);
    LearnOptions options;
    options.seed = seed_.value_or(options.seed);
    options.configurations = configurations_.value_or(options.configurations);
    // Assigned within the block, and needed behind it.
    absl::StatusOr<Learned> learned = Learned();
    {
      // The bar is erased before anything is printed.
      Progress progress("learning");
      options.progress = progress.Updater();
      learned = LearnDeviations(rows, std::move(runtime), *candidate, options);
    }
    if (!learned.ok()) return At(program_, learned.status());
    if (!output_.empty()) {
      NODEWISE_RETURN_IF_ERROR(WriteWholeFile(output_, TextOf(learned->known)));
    }
    return ReportOf(*learned, options, output_);
  }

  // A misspelt operator is an error even among others that exist.
  absl::StatusOr<std::vector<const OperatorDef*>> Rows() const {
    std::vector<const OperatorDef*> rows = RowsToLearn(AllOperators());
    if (names_.empty()) return rows;
    std::vector<std::string> known;
    for (const OperatorDef* row : rows) known.emplace_back(row->name);
    for (const std::string& name : names_) {
      if (std::ranges::count(known, name) > 0) continue;
      return BadValue("--op", Printable(name),
                      "an operator" + DidYouMean(name, known));
    }
    std::erase_if(rows, [this](const OperatorDef* row) {
      return std::ranges::count(names_, row->name) == 0;
    });
    return rows;
  }

  std::string action_, program_, output_;
  std::vector<std::string> names_, networks_, dims_;
  InputOptions inputs_;  // For the user's own model.
  bool spoils_ = false;
  std::optional<uint64_t> configurations_, seed_, faults_;
  ForeignOptions foreign_;
};

}  // namespace

const CommandRow kAdapterCommand = {
    "adapter", "tries an adapter, or measures what is usual for its runtime",
    R"(examples:
  nodewise adapter new my_runtime.py
  nodewise adapter check openvino --runtime-option precision=f32
  nodewise adapter check exec:'python3 my_runtime.py'
  nodewise adapter check torch:model.onnx --spoil \
      --runtime-option module=model.pt2
  nodewise adapter learn ort -o known.txt
  nodewise adapter learn exec:'python3 my_runtime.py' --op Tanh

Exit status: 0 if all deviations are of known classes, or all changed
operations were named and no other; 1 if not; 2 if it did not run.
)",
    &MakeCommand<UseAdapter>};

}  // namespace nodewise
