#include <algorithm>

#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/progress.h"
#include "fmt/format.h"
#include "nodewise/autotest/learn_deviations.h"
#include "nodewise/autotest/learned_report.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

class UseAdapter : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->AddPositional("ACTION",
                           "learn: measures how the runtime computes single "
                           "operators otherwise than by their definitions",
                           &action_);
    options->AddPositional("PROGRAM", "ort, or exec:COMMAND, an adapter",
                           &program_);
    options->AddTexts("--op", "NAME",
                      "an operator to try; may be given again (all)", &names_);
    options->AddNumber("--configurations", "N",
                       "how many uses of each operator are tried (32)",
                       {&configurations_, 1, 1'000'000});
    options->AddNumber("--seed", "N", "draws other uses and numbers (1)",
                       {&seed_});
    options->AddText("-o,--output", "FILE",
                     "writes the rows to FILE, for locate --known", &output_);
    AddForeignOptions(options, &foreign_);
  }

  absl::StatusOr<Report> Run() override {
    if (action_ != "learn") {
      return absl::InvalidArgumentError(fmt::format(
          "ACTION: found \"{}\", expected learn", Printable(action_)));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto rows, Rows());
    NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program,
                              ProgramNamed("PROGRAM", program_, foreign_));
    NODEWISE_ASSIGN_OR_RETURN(std::string runtime, RuntimeOf(program));
    const auto candidate =
        ForeignCandidate(program_, program.command, program.limits);
    LearnOptions options;
    options.seed = seed_.value_or(options.seed);
    options.configurations = configurations_.value_or(options.configurations);
    absl::StatusOr<Learned> learned = Learned();
    {
      Progress progress("learning");
      options.progress = [&](size_t done, size_t all) {
        progress.Update(done, all);
      };
      learned = LearnDeviations(rows, std::move(runtime), *candidate, options);
    }
    if (!learned.ok()) return At(program_, learned.status());
    if (!output_.empty()) NODEWISE_RETURN_IF_ERROR(Write(learned->known));
    return ReportOf(*learned, options, output_);
  }

 private:
  absl::StatusOr<std::vector<const OperatorDef*>> Rows() const {
    std::vector<const OperatorDef*> rows = RowsToLearn(AllOperators());
    if (names_.empty()) return rows;
    std::vector<std::string> known;
    for (const OperatorDef* row : rows) known.emplace_back(row->name);
    for (const std::string& name : names_) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      return absl::InvalidArgumentError(
          fmt::format("--op: found \"{}\", expected an operator{}",
                      Printable(name), DidYouMean(name, known)));
    }
    std::erase_if(rows, [this](const OperatorDef* row) {
      return std::find(names_.begin(), names_.end(), row->name) == names_.end();
    });
    return rows;
  }

  absl::Status Write(const KnownRuntime& known) const {
    NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(output_));
    NODEWISE_RETURN_IF_ERROR(file.Write(TextOf(known)));
    return file.Commit();
  }

  std::string action_, program_, output_;
  std::vector<std::string> names_;
  std::optional<uint64_t> configurations_, seed_;
  ForeignOptions foreign_;
};

}  // namespace

const CommandRow kAdapterCommand = {
    "adapter", "measures what is usual for a runtime",
    "examples:\n"
    "  nodewise adapter learn ort -o known.txt\n"
    "  nodewise adapter learn exec:'python3 my_runtime.py' --op Tanh\n"
    "\n"
    "Exit status: 0 if all deviations are of known classes, 1 if an operator\n"
    "is wrong, 2 if it did not run.\n",
    [] { return std::unique_ptr<Command>(new UseAdapter()); }};

}  // namespace nodewise
