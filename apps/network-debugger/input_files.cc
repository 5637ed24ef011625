#include "apps/network-debugger/input_files.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/archive.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {
namespace {

// Where ModelProto has its graph, and GraphProto its constants; both are
// messages, which protobuf writes as a tag, a length and the bytes.
constexpr uint8_t kGraphTag = 7 << 3 | 2;
constexpr uint8_t kInitializerTag = 5 << 3 | 2;

// Archives of PyTorch's may have thousands of members.
constexpr size_t kNamedMembers = 8;

// The length is a varint: seven bits a byte, the lowest first, and the highest
// bit says that more follow.
void AppendMessage(uint8_t tag, std::string_view message, std::string* bytes) {
  bytes->push_back(static_cast<char>(tag));
  size_t size = message.size();
  for (; size >= 0x80; size >>= 7) {
    bytes->push_back(static_cast<char>((size & 0x7f) | 0x80));
  }
  bytes->push_back(static_cast<char>(size));
  bytes->append(message);
}

// Archives of PyTorch's have a folder before the name of each member.
std::string_view LastPart(std::string_view name) {
  return name.substr(name.rfind('/') + 1);
}

// Glow stores a model's constants as members weight_0, weight_1 and so on,
// beside the graph and not in it.
class GlowArchive {
 public:
  GlowArchive(const FileArchive& archive, std::string where)
      : archive_(archive), where_(std::move(where)) {}

  // `model` is the name of the graph's member. The constants follow it as
  // further fields of a graph, which readers of the message join with the
  // first.
  absl::StatusOr<std::string> Read(const std::string& model) const {
    const std::string folder =
        model.substr(0, model.size() - LastPart(model).size());
    NODEWISE_ASSIGN_OR_RETURN(std::string bytes, archive_.Read(model));
    const auto count = CountWeights(folder);
    if (absl::IsNotFound(count.status())) return bytes;
    NODEWISE_RETURN_IF_ERROR(count.status());
    std::string weights;
    for (uint64_t i = 0; i < *count; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          const std::string weight,
          archive_.Read(fmt::format("{}weight_{}", folder, i)));
      AppendMessage(kInitializerTag, weight, &weights);
    }
    AppendMessage(kGraphTag, weights, &bytes);
    return bytes;
  }

 private:
  // Glow writes the number as text, and a line end may follow it.
  absl::StatusOr<uint64_t> CountWeights(const std::string& folder) const {
    NODEWISE_ASSIGN_OR_RETURN(std::string text,
                              archive_.Read(folder + "weights"));
    while (!text.empty() && text.back() <= ' ') text.pop_back();
    uint64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, count);
    if (error == std::errc() && stop == end) return count;
    return DataLoss(
        "{}: member weights holds \"{}\", expected the number of constants",
        where_, Printable(text.substr(0, 40)));
  }

  const FileArchive& archive_;
  const std::string where_;
};

// Empty also if several names fit: any choice between them would be a guess.
template <typename Predicate>
std::string OnlyName(const std::vector<std::string>& names, Predicate fits) {
  std::string found;
  for (const std::string& name : names) {
    if (!fits(name)) continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

// Glow's own name comes first; an archive of another tool is likely to have one
// model in it.
absl::StatusOr<std::string> ReadModelIn(const FileArchive& archive,
                                        const std::string& path) {
  const std::vector<std::string> names = archive.Names();
  const std::string model = OnlyName(
      names, [](const auto& name) { return LastPart(name) == "model"; });
  if (!model.empty()) return GlowArchive(archive, path).Read(model);
  std::string other =
      OnlyName(names, [](const auto& name) { return name.ends_with(".onnx"); });
  if (other.empty() && names.size() == 1) other = names[0];
  if (!other.empty()) return archive.Read(other);
  return InvalidArgument(
      "{}: holds {}, expected one member that is called model or *.onnx", path,
      names.empty() ? "nothing" : ListOf(names, kNamedMembers));
}

// Collects the tensors of file after file until every input has one; then a
// sample is complete, and the next file begins another.
class SampleReader {
 public:
  explicit SampleReader(const Network& network) : list_(ListInputs(network)) {}

  absl::Status Read(const std::string& path) {
    NODEWISE_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                              ReadTensorGroup(path));
    // A file of one tensor often has no name for it, or another one.
    if (tensors.size() == 1 && list_->size() == 1) {
      tensors[0].name = list_->Key(0);
    }
    for (NamedTensor& tensor : tensors) {
      const absl::Status status = Add(path, std::move(tensor));
      if (!status.ok()) return At(path, status);
    }
    sample_.from += sample_.from.empty() ? path : ", " + path;
    if (Missing().empty()) samples_.push_back(std::exchange(sample_, {}));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<SampleInputs>> Finish() {
    if (sample_.from.empty()) return std::move(samples_);
    return InvalidArgument(
        "{}: has no tensor for {}, expected one for each input of the model",
        sample_.from, ListOf(Missing()));
  }

 private:
  absl::Status Add(const std::string& path, NamedTensor tensor) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t input, list_->Find(tensor.name));
    if (!list_->Fits(input, tensor.tensor)) {
      return InvalidArgument(
          "tensor {} is {}, expected {}", Printable(tensor.name),
          TypeToString(tensor.tensor.shape(), tensor.tensor.dtype()),
          list_->TypeText(input));
    }
    const std::string key = list_->Key(input);
    if (Has(key)) {
      return InvalidArgument(
          "tensor {} was there before, in {}, and {} is missing",
          Printable(tensor.name), sample_.from.empty() ? path : sample_.from,
          ListOf(Missing()));
    }
    sample_.inputs.push_back({key, std::move(tensor.tensor)});
    return absl::OkStatus();
  }

  // A sample has so few inputs that a search through them is fast enough.
  bool Has(const std::string& key) const {
    return std::ranges::count(sample_.inputs, key, &NamedTensor::name) > 0;
  }

  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (size_t i = 0; i < list_->size(); ++i) {
      if (list_->IsNeeded(i) && !Has(list_->Key(i))) {
        missing.push_back(list_->Key(i));
      }
    }
    return missing;
  }

  const std::unique_ptr<const InputList> list_;
  SampleInputs sample_;  // Given by the files since the last complete one.
  std::vector<SampleInputs> samples_;
};

}  // namespace

absl::StatusOr<Network> LoadModelFile(const std::string& path,
                                      const ImportOptions& options,
                                      DiagnosticList* diagnostics) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (!FileArchive::IsOne(file.bytes())) {
    return ImportOnnx(path, AllOperators(), options, diagnostics);
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto archive,
                            FileArchive::Open(file.bytes(), path));
  NODEWISE_ASSIGN_OR_RETURN(const std::string model,
                            ReadModelIn(*archive, path));
  const absl::Span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t*>(model.data()), model.size());
  return ImportOnnx(bytes, path, "", AllOperators(), options, diagnostics);
}

absl::StatusOr<std::vector<SampleInputs>> ReadSamples(
    absl::Span<const std::string> files, const Network& network) {
  SampleReader reader(network);
  for (const std::string& file : files) {
    NODEWISE_RETURN_IF_ERROR(reader.Read(file));
  }
  return reader.Finish();
}

}  // namespace nodewise
