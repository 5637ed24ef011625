#include "nodewise/runner/bind_sizes.h"

#include <string>
#include <utility>

namespace nodewise {

void BindSizes(absl::Span<const VmInputType> given, Network* network) {
  for (const VmInputType& type : given) {
    const auto id = network->FindValue(type.name);
    if (!id.ok()) continue;
    const auto is_open = [&](size_t side) {
      const TensorType& known = network->value(*id).type;
      return network->value(*id).kind == NetworkValue::Kind::kInput &&
             known.has_rank() && known.shape->size() == type.shape.size() &&
             !(*known.shape)[side].is_known();
    };
    for (size_t i = 0; i < type.shape.size(); ++i) {
      if (!is_open(i)) continue;
      TensorType wanted = network->value(*id).type;
      const std::string name = (*wanted.shape)[i].name();
      (*wanted.shape)[i] = Dim(type.shape[i]);
      if (name.empty()) {
        network->SetInputType(*id, std::move(wanted)).IgnoreError();
      } else {
        network->BindDim(name, type.shape[i]).IgnoreError();
      }
    }
  }
}

void BindSizes(absl::Span<const NamedTensor> given, Network* network) {
  std::vector<VmInputType> types;
  for (const NamedTensor& each : given) {
    const absl::Span<const int64_t> shape = each.tensor.shape();
    types.push_back(
        {each.name, {shape.begin(), shape.end()}, each.tensor.dtype()});
  }
  BindSizes(types, network);
}

}  // namespace nodewise
