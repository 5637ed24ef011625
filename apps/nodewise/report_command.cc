#include <string>

#include "apps/nodewise/command.h"
#include "apps/nodewise/output_files.h"
#include "nodewise/report/archive.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// An archive has what was found out, so that it can be shown long after the
// network and its files are gone.
class ShowArchive : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        {"ARCHIVE", "",
         "what a verb has written with --archive, or printed with --json",
         &archive_},
        {"--svg", "FILE", "writes a picture of the graph around the culprits",
         &svg_},
    });
  }

  absl::StatusOr<Report> Run() override {
    // A file that cannot be written is refused before anything is read.
    NODEWISE_RETURN_IF_ERROR(At("--svg", CheckFilePath(svg_)));
    NODEWISE_ASSIGN_OR_RETURN(const Archive archive, ReadArchive(archive_));
    Report report = ReportOf(archive);
    if (svg_.empty()) return report;
    // The text of an archive without a graph is worth showing all the same.
    const auto picture = PictureOf(archive);
    if (!picture.ok()) {
      report.AddError(At(archive_, picture.status()));
      return report;
    }
    NODEWISE_RETURN_IF_ERROR(
        WriteAskedFile(svg_, *picture, "written", &report));
    return report;
  }

 private:
  std::string archive_, svg_;
};

}  // namespace

const CommandRow kReportCommand = {
    "report", "shows again what was found out, from an archive",
    R"(examples:
  nodewise locate net --reference model.onnx --random-inputs 1 --archive a.json
  nodewise report a.json
  nodewise report a.json --svg culprit.svg

Nothing runs. An archive is the document of --json; --archive keeps more in it.

Exit status: 0 it was shown, 2 it was not.
)",
    &MakeCommand<ShowArchive>};

}  // namespace nodewise
