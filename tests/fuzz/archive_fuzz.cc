#include <cstddef>
#include <cstdint>
#include <string>

#include "nodewise/report/archive.h"
#include "nodewise/support/check.h"
#include "tests/fuzz/memory_limit.h"

namespace nodewise {
namespace {

constexpr TextLayout kTerminal = {.line_width = 80};

// Any file is an error, or can be shown in a terminal and whole, and its
// document can be read again.
void ReadAndShow(std::string text) {
  const MemoryLimit limit(4 * text.size());
  const auto archive = ParseArchive(std::move(text), "fuzz");
  if (!archive.ok()) return;
  const Report report = ReportOf(*archive);
  report.text.ToString(kTerminal);
  report.text.ToString({.has_all_lines = true});
  NODEWISE_CHECK(ParseArchive(archive->document, "again").ok());
  // It may have no graph to draw.
  PictureOf(*archive).IgnoreError();
}

}  // namespace
}  // namespace nodewise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nodewise::ReadAndShow({reinterpret_cast<const char*>(data), size});
  return 0;
}
