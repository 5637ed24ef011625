#include "nodewise/support/status.h"

#include "fmt/format.h"

namespace nodewise {

// Here and not in the header, so that what formats is compiled once.
absl::Status FormattedStatus(absl::StatusCode code, fmt::string_view text,
                             fmt::format_args args) {
  return {code, fmt::vformat(text, args)};
}

}  // namespace nodewise
