#include "apps/network-debugger/sample_files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/runner/input_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_group.h"

namespace nodewise {
namespace {

class SampleReader {
 public:
  explicit SampleReader(const Network& network) : list_(ListInputs(network)) {}

  absl::Status Read(const std::string& path) {
    NODEWISE_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                              ReadTensorGroup(path));
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
    return absl::InvalidArgumentError(
        fmt::format("{}: has no tensor for {}, expected one for each input of "
                    "the model",
                    sample_.from, ListOf(Missing())));
  }

 private:
  absl::Status Add(const std::string& path, NamedTensor tensor) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t input, list_->Find(tensor.name));
    if (!list_->Fits(input, tensor.tensor)) {
      return absl::InvalidArgumentError(fmt::format(
          "tensor {} is {}, expected {}", Printable(tensor.name),
          TypeToString(tensor.tensor.shape(), tensor.tensor.dtype()),
          list_->TypeText(input)));
    }
    const std::string key = list_->Key(input);
    if (Has(key)) {
      return absl::InvalidArgumentError(fmt::format(
          "tensor {} was there before, in {}, and {} is missing",
          Printable(tensor.name), sample_.from.empty() ? path : sample_.from,
          ListOf(Missing())));
    }
    sample_.inputs.push_back({key, std::move(tensor.tensor)});
    return absl::OkStatus();
  }

  bool Has(const std::string& key) const {
    return std::any_of(
        sample_.inputs.begin(), sample_.inputs.end(),
        [&](const NamedTensor& given) { return given.name == key; });
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

absl::StatusOr<std::vector<SampleInputs>> ReadSamples(
    absl::Span<const std::string> files, const Network& network) {
  SampleReader reader(network);
  for (const std::string& file : files) {
    NODEWISE_RETURN_IF_ERROR(reader.Read(file));
  }
  return reader.Finish();
}

}  // namespace nodewise
