#include "contrib/tensors/tensor_names.h"

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostNames = 8;

}  // namespace

absl::Status TensorNotFound(const std::string& where, const TensorKey& key,
                            const std::vector<std::string>& names) {
  const std::string name = key.Name();
  if (names.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: has no tensors, expected {}", where, name));
  }
  return absl::NotFoundError(fmt::format(
      "{}: has no tensor {}, expected one of its {} ({}){}", where, name,
      names.size(), ListOf(names, kMostNames), DidYouMean(name, names)));
}

bool IsNameOf(const std::string& name, const TensorKey& key) {
  if (name == key.Name()) return true;
  return key.role == TensorRole::kOutput && key.slot == 0 &&
         name == key.node + ":0";
}

}  // namespace nodewise
