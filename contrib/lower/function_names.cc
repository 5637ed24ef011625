#include "contrib/lower/function_names.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "nodewise/ir/network_text.h"

namespace nodewise {
namespace {

// More kinds make a name that no table has room for.
constexpr size_t kMostKinds = 6;

// Kinds are words of ONNX or of a model, in which there may be anything.
std::string WordOf(std::string_view kind) {
  std::string word;
  for (const char c : kind) {
    const auto byte = static_cast<unsigned char>(c);
    word += std::isalnum(byte) != 0 && byte < 128
                ? static_cast<char>(std::tolower(byte))
                : '_';
  }
  return word;
}

std::string KindsOf(const Region& region) {
  std::string kinds = "nodewise";
  size_t count = 0;
  const std::vector<OperationId> operations = SourceOperations(region);
  for (const OperationId id : operations) {
    if (count++ == kMostKinds) break;
    kinds += '_' + WordOf(region.network.operation(id).kind());
  }
  const size_t more = operations.size() - std::min(count, kMostKinds);
  return more == 0 ? kinds : fmt::format("{}_and_{}", kinds, more);
}

// The region's text without the names in it.
std::string ContentOf(const Region& region) {
  NetworkData data = region.network.data();
  data.name.clear();
  for (auto& value : data.values) {
    if (value.has_value()) value->name.clear();
  }
  for (auto& operation : data.operations) {
    if (operation.has_value()) operation->name.clear();
  }
  std::string content = NetworkToText(data);
  for (const TensorType& type : region.outputs) content += ToString(type);
  for (const bool is_constant : region.is_constant) {
    content += is_constant ? 'c' : 'x';
  }
  return content;
}

}  // namespace

std::string FunctionNames::NameOf(const Region& region) {
  std::string& name = names_[ContentOf(region)];
  if (name.empty()) {
    const std::string kinds = KindsOf(region);
    const int use = uses_[kinds]++;
    name = use == 0 ? kinds : fmt::format("{}_{}", kinds, use);
  }
  return name;
}

}  // namespace nodewise
