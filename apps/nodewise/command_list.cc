#include <array>

#include "apps/nodewise/command.h"

namespace nodewise {

absl::Span<const CommandRow> Commands() {
  // Not at namespace scope: the rows of other files might be made later.
  static const std::array rows = {
      kDemoCommand,     kRunCommand,     kProfileCommand, kDumpCommand,
      kCompareCommand,  kLocateCommand,  kAlignCommand,   kReproCommand,
      kVerifyCommand,   kInspectCommand, kConvertCommand, kExtractCommand,
      kAutotestCommand, kAdapterCommand, kReportCommand,
  };
  return rows;
}

}  // namespace nodewise
