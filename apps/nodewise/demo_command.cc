#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "apps/nodewise/command.h"
#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/demo/demo_network.h"
#include "nodewise/demo/silent_build.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/foreign/c_compiler.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/lower.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// Makes a model, compiles it with one operation exchanged, as a faulty compiler
// would, and has locate name that operation from the two files alone.
class Demonstrate : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        {"--seed", "N",
         "draws the weights, the input and which operation is compiled wrongly "
         "(1)",
         NumberOption{&seed_}},
        {"-o,--output", "DIR",
         "where the model, the artefact and the culprit go (nodewise_demo)",
         &folder_},
    });
  }

  absl::StatusOr<Report> Run() override {
    // The files are there to be looked at, so they lie in the current folder.
    if (folder_.empty()) folder_ = "nodewise_demo";
    // Seeds count from 1, and take one exchange after the other.
    exchange_ = DemoExchanges()[(seed() - 1) % DemoExchanges().size()];
    // The network is so small that threads would wait for each other.
    SetNumThreads(1);
    KeepFreedMemory();
    NODEWISE_RETURN_IF_ERROR(MakeFolder());
    NODEWISE_RETURN_IF_ERROR(WriteModel());
    NODEWISE_RETURN_IF_ERROR(Compile());
    NODEWISE_ASSIGN_OR_RETURN(const Answer answer, Ask());
    Report report = DemoReport(answer);
    if (keeps_archive()) AddDigestsOf(answer.target, &report);
    return report;
  }

 private:
  uint64_t seed() const { return seed_.value_or(1); }
  std::string At(const char* name) const { return fs::path(folder_) / name; }

  absl::Status MakeFolder() const {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!error) return absl::OkStatus();
    return Unavailable("{}: cannot make the folder: {}", folder_,
                       error.message());
  }

  // A seed makes the same model each time, so an old one can be made again.
  absl::Status WriteModel() const {
    NODEWISE_ASSIGN_OR_RETURN(const Network model,
                              MakeDemoNetwork(AllOperators(), seed()));
    NODEWISE_ASSIGN_OR_RETURN(const std::string onnx, ExportOnnx(model));
    return ReplaceFile(At("model.onnx"), onnx);
  }

  // Compiles another network than the model, as another compiler would leave
  // it.
  absl::Status Compile() {
    NODEWISE_ASSIGN_OR_RETURN(
        const Network wrong,
        MakeExchangedDemo(AllOperators(), seed(), exchange_));
    // Every operation has C, so that none is left to functions of ours, which
    // would say what they compute.
    LowerOptions plain;
    plain.makers = {CKernels()};
    NODEWISE_ASSIGN_OR_RETURN(Lowered lowered, Lower(wrong, "net", plain));
    // The compiler is tried right away, so that one which is there and does not
    // work counts as none.
    const auto compiler = CCompiler::Create();
    if (compiler.ok()) return CompileC(**compiler, lowered);
    why_no_compiler_ = std::string(MessageOf(compiler.status()));
    return Withhold(std::move(lowered));
  }

  absl::Status CompileC(const CCompiler& compiler, const Lowered& lowered) {
    // Names of operators are taken out: locate must find the culprit by what
    // nodes compute, as in an artefact that says nothing of itself.
    NODEWISE_ASSIGN_OR_RETURN(const SilentBuild build,
                              SilencedC(lowered.graph, AllOperators()));
    NODEWISE_ASSIGN_OR_RETURN(const std::string library,
                              compiler.Compile(build.source, "-O2"));
    // The compiler leaves its library in a temporary folder, which may be on
    // another file system, so that it is copied and not renamed.
    const fs::path place = fs::path(At("net")) / "lib.so";
    std::error_code error;
    fs::remove(place, error);  // What a demonstration before this one has left.
    NODEWISE_RETURN_IF_ERROR(
        WriteArtefactFolder(At("net"), {std::string(build.graph.text.text), ""},
                            Params{lowered.params}));
    fs::copy_file(library, place, error);
    std::error_code ignored;
    fs::remove(library, ignored);
    if (!error) return absl::OkStatus();
    return Unavailable("{}: cannot be written: {}", place.string(),
                       error.message());
  }

  // Without a compiler the functions that are built in play the part of a
  // library; they cannot be written to a folder.
  absl::Status Withhold(Lowered lowered) {
    SilentBuild build = MakeSilentBuild(std::move(lowered.graph),
                                        BuiltInFunctions(AllOperators()));
    NODEWISE_ASSIGN_OR_RETURN(
        in_memory_,
        GraphTarget::FromArtefact("net",
                                  {std::move(build.graph), build.library,
                                   Params{std::move(lowered.params)}},
                                  {kCpu}));
    return absl::OkStatus();
  }

  // The question is the one that the command line in the report would ask.
  absl::StatusOr<Answer> Ask() {
    TargetSpec spec;
    spec.path = At("net");
    spec.graph = in_memory_;
    spec.inputs.seed = seed();
    DiagnosticList faults;
    Question question;
    NODEWISE_ASSIGN_OR_RETURN(question.target, OpenTarget(spec, &faults));
    question.reference = ModelReference(At("model.onnx"));
    // Functions in memory cannot be put into a folder.
    if (in_memory_ != nullptr) return Diagnose(question);
    // A folder for culprits must be new.
    std::error_code error;
    question.repro_folder = At("culprits");
    for (int i = 2; fs::exists(question.repro_folder, error); ++i) {
      question.repro_folder = At(fmt::format("culprits_{}", i).c_str());
    }
    return Diagnose(question);
  }

  // The report of locate, with what was done before it, and the truth behind
  // it.
  Report DemoReport(const Answer& answer) const {
    Report report;
    report.text += fmt::format(
        "A model was compiled, and its results are wrong: one of its 60 "
        "operations\nbecame another one. {}\n"
        "locate gets the model and the artefact, and nothing else:\n\n",
        in_memory_ == nullptr
            ? "The artefact is C code, compiled by the C\ncompiler of this "
              "machine; names of operators were removed."
            : "No C compiler was found here, so the\nartefact stays in memory: "
              "built-in functions that do not say what they compute.");
    if (in_memory_ == nullptr) {
      report.text += fmt::format("  {}\n\n", CommandLine());
    }
    // The status is not that of locate: here finding a culprit is what is fine.
    const Report told = ReportOf(answer);
    report.text += told.text;
    report.json = told.json;
    report.notes = told.notes;
    report.errors = told.errors;
    if (!why_no_compiler_.empty()) report.notes.push_back(why_no_compiler_);
    ShowTruth(answer, &report);
    return report;
  }

  // A folder's name may hold blanks.
  std::string CommandLine() const {
    return fmt::format(
        "nodewise locate {} --reference {} --random-inputs {} --repro DIR",
        ShellWord(At("net")), ShellWord(At("model.onnx")), seed());
  }

  // An answer that names several culprits leaves the search to the reader.
  bool IsFound(const Answer& answer) const {
    if (answer.culprits.size() != 1) return false;
    const std::vector<std::string>& named = answer.culprits[0].operations;
    return std::ranges::count(named, exchange_.operation) > 0;
  }

  void ShowTruth(const Answer& answer, Report* report) const {
    const bool is_found = IsFound(answer);
    report->json.Add("artefact", At("net"));
    report->json.Add("changed", exchange_.operation);
    report->json.Add("found", is_found);
    report->text +=
        fmt::format("\nWhat was changed: {} computes {} instead of {}. {}\n",
                    exchange_.operation, exchange_.made, exchange_.meant,
                    is_found ? "That is what was named."
                             : "That is not what was named, alone.");
    if (is_found && in_memory_ == nullptr) {
      report->text +=
          "The folder that was written shows the failure wherever it is moved "
          "to.\n";
    }
    if (report->status != Report::Status::kError) {
      report->status =
          is_found ? Report::Status::kOk : Report::Status::kDiffers;
    }
    if (in_memory_ != nullptr) return;
    report->text += fmt::format(
        "\nMore with this artefact:\n"
        "  nodewise profile {0} --random-inputs {1}    where the time goes\n"
        "  nodewise inspect {0}                      what is in it\n",
        ShellWord(At("net")), seed());
  }

  std::optional<uint64_t> seed_;
  std::string folder_;
  DemoExchange exchange_{};
  std::shared_ptr<const GraphTarget> in_memory_;  // Without a C compiler.
  std::string why_no_compiler_;
};

}  // namespace

const CommandRow kDemoCommand = {
    "demo", "shows the main job: an artefact that is wrong, and its culprit",
    R"(examples:
  nodewise demo
  nodewise demo --seed 3 -o d

Exit status: 0 if the operation that was changed is named and no other, 1 if
not, 2 if it did not run.
)",
    &MakeCommand<Demonstrate>,
    /*runs_code=*/true};

}  // namespace nodewise
