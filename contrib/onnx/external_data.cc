#include "contrib/onnx/external_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kExternal = 1;  // A value of data_location.

// Where the data of a tensor lies. Other entries (a checksum) are ignored.
struct Place {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

absl::StatusOr<uint64_t> ReadNumber(const proto::StringPair& entry) {
  uint64_t number = 0;
  const std::string& text = entry.value();
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && !text.empty()) return number;
  return absl::DataLossError(
      fmt::format("external data: {} is \"{}\", expected a number of bytes",
                  entry.key(), Shortened(text)));
}

absl::StatusOr<Place> PlaceOf(const proto::Tensor& tensor) {
  Place place;
  for (const proto::StringPair& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset") {
      NODEWISE_ASSIGN_OR_RETURN(place.offset, ReadNumber(entry));
    } else if (entry.key() == "length") {
      NODEWISE_ASSIGN_OR_RETURN(place.length, ReadNumber(entry));
    }
  }
  return place;
}

absl::Status BadLocation(std::string_view location, const char* why) {
  return absl::DataLossError(fmt::format(
      "external data: location \"{}\" {}, expected a file below the model's "
      "folder",
      Shortened(location), why));
}

// Judges the text alone, so that nothing outside is even looked at.
absl::Status CheckLocation(const std::string& location) {
  if (location.empty()) return BadLocation(location, "is empty");
  if (location.find('\0') != std::string::npos) {
    return BadLocation(location, "holds a NUL");
  }
  const fs::path path(location);
  if (path.is_absolute()) return BadLocation(location, "is absolute");
  if (std::any_of(path.begin(), path.end(),
                  [](const fs::path& part) { return part == ".."; })) {
    return BadLocation(location, "goes up");
  }
  return absl::OkStatus();
}

bool IsBelow(const fs::path& folder, const fs::path& path) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end())
             .first == folder.end();
}

absl::StatusOr<absl::Span<const uint8_t>> Cut(absl::Span<const uint8_t> bytes,
                                              const Place& place) {
  if (place.offset <= bytes.size() &&
      place.length.value_or(0) <= bytes.size() - place.offset) {
    return bytes.subspan(place.offset,
                         place.length.value_or(bytes.size() - place.offset));
  }
  return absl::DataLossError(fmt::format(
      "external data: bytes {} and on, {} of them, expected them within the "
      "{} of {}",
      place.offset, place.length.value_or(0), bytes.size(), place.location));
}

}  // namespace

std::optional<std::string> ExternalLocation(const proto::Tensor& tensor) {
  if (tensor.data_location() != kExternal) return std::nullopt;
  const auto place = PlaceOf(tensor);
  if (!place.ok() || !CheckLocation(place->location).ok()) return std::nullopt;
  return place->location;
}

absl::StatusOr<NDArray> TensorReader::Read(const proto::Tensor& tensor) {
  if (tensor.has_segment()) {
    return absl::UnimplementedError(
        "is a segment of a tensor, expected all of it");
  }
  if (tensor.data_location() == kExternal) return ReadExternal(tensor);
  if (tensor.data_location() != 0) {
    return absl::DataLossError(fmt::format(
        "data_location is {}, expected 0 (in the model) or 1 (in a file)",
        tensor.data_location()));
  }
  return MakeTensor(FieldsOf(tensor), owner_);
}

absl::StatusOr<NDArray> TensorReader::ReadExternal(
    const proto::Tensor& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const Place place, PlaceOf(tensor));
  NODEWISE_ASSIGN_OR_RETURN(const auto file, Open(place.location));
  TensorFields fields = FieldsOf(tensor);
  if (fields.has_raw) {
    return absl::DataLossError(
        "has both raw_data and external data, expected its data once");
  }
  fields.has_raw = true;
  NODEWISE_ASSIGN_OR_RETURN(fields.raw, Cut(file->bytes(), place));
  return MakeTensor(fields, std::const_pointer_cast<MappedFile>(file));
}

absl::StatusOr<std::shared_ptr<const MappedFile>> TensorReader::Open(
    const std::string& location) {
  NODEWISE_RETURN_IF_ERROR(CheckLocation(location));
  if (folder_.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "external data: is in {}, expected all data in the model, which is "
        "read from memory",
        Shortened(location)));
  }
  const auto open = files_.find(location);
  if (open != files_.end()) return open->second;
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  // Without a folder the location would be in the working directory.
  const fs::path path =
      error ? fs::path() : fs::canonical(folder / location, error);
  if (error) {
    return absl::NotFoundError(
        fmt::format("external data: {}: {}, expected the file beside the model",
                    Shortened(location), error.message()));
  }
  if (!IsBelow(folder, path)) {
    return BadLocation(location, "is a link that leads out");
  }
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto shared = std::make_shared<const MappedFile>(std::move(file));
  files_.emplace(location, shared);
  return shared;
}

}  // namespace nodewise
