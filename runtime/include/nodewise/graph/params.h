#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// A .params file: names and tensors as TVM's save_param_dict writes them
// (docs/formats/params.md). The tensors borrow the bytes they were read from,
// at any alignment, and must not be written to.
struct Params {
  std::vector<NamedTensor> tensors;  // In the order of the file.
  size_t trailing_bytes = 0;         // Bytes found after the last tensor.

  // Returns the last tensor of that name (as TVM does), or null.
  const NDArray* Find(std::string_view name) const;
};

// Maps the file; the tensors keep it mapped. Everything is checked before
// anything is handed out: a file cut short, an impossible count or a size that
// does not fit its shape is kDataLoss with the byte where it stands.
absl::StatusOr<Params> OpenParams(const std::string& path);

// Does what OpenParams() does, with bytes in memory. `owner` keeps `bytes`
// alive; it may be null if the caller does that. `where` names the bytes in
// messages.
absl::StatusOr<Params> ParseParams(absl::Span<const uint8_t> bytes,
                                   std::string where,
                                   const std::shared_ptr<void>& owner);

// A .params file that may be cut short, as a process that was killed while it
// wrote leaves it.
struct PartialParams {
  Params params;  // The tensors that are complete.
  // The names in the header that have no complete tensor, in order. If the
  // header itself is cut short, its complete names.
  std::vector<std::string> missing;
  bool is_cut = false;
  uint64_t cut_at = 0;  // The size of the file, if it is cut.
};

// Do what OpenParams and ParseParams do, but bytes that end too early are not
// an error. Fail with kDataLoss if they are damaged and not just cut.
absl::StatusOr<PartialParams> OpenPartialParams(const std::string& path);
absl::StatusOr<PartialParams> ParsePartialParams(
    absl::Span<const uint8_t> bytes, std::string where,
    const std::shared_ptr<void>& owner);

// Writes a valid file with the complete tensors of one that may be cut short.
// `to` may be the same path, and is written only if `from` can be read.
absl::Status RecoverParams(const std::string& from, const std::string& to);

// Returns the names alone; the tensors' bytes need not be there.
absl::StatusOr<std::vector<std::string>> ParseParamNames(
    absl::Span<const uint8_t> bytes, std::string where);

// Returns whether the bytes begin as a .params file does.
bool LooksLikeParams(absl::Span<const uint8_t> bytes);

// Writes tensor after tensor, without gathering them in memory. Tensors on
// other devices are fetched one at a time. The file appears when complete.
absl::Status WriteParams(const std::string& path,
                         absl::Span<const NamedTensor> tensors);

// Returns the bytes of such a file.
absl::StatusOr<std::string> SerializeParams(
    absl::Span<const NamedTensor> tensors);

// Returns what precedes the tensors in a file that has these names.
std::string ParamsHeader(absl::Span<const std::string> names);

}  // namespace nodewise
