#include "contrib/onnx/attributes.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

const char* NameOf(AttributeType type) {
  constexpr const char* kNames[] = {
      "without a type", "a float",         "an integer",     "a string",
      "a tensor",       "a graph",         "floats",         "integers",
      "strings",        "several tensors", "several graphs", "a sparse tensor",
      "sparse tensors", "a type",          "several types"};
  const auto i = static_cast<size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "of an unknown type";
}

void Set(int64_t value, proto::Attribute* to) {
  to->set_type(static_cast<int>(AttributeType::kInt));
  to->set_i(value);
}
void Set(float value, proto::Attribute* to) {
  to->set_type(static_cast<int>(AttributeType::kFloat));
  to->set_f(value);
}
void Set(const std::string& value, proto::Attribute* to) {
  to->set_type(static_cast<int>(AttributeType::kString));
  to->set_s(value);
}
void Set(const std::vector<int64_t>& values, proto::Attribute* to) {
  to->set_type(static_cast<int>(AttributeType::kInts));
  to->mutable_ints()->Add(values.begin(), values.end());
}
void Set(const std::vector<float>& values, proto::Attribute* to) {
  to->set_type(static_cast<int>(AttributeType::kFloats));
  to->mutable_floats()->Add(values.begin(), values.end());
}
void Set(const std::vector<std::string>& values, proto::Attribute* to) {
  to->set_type(static_cast<int>(AttributeType::kStrings));
  for (const std::string& value : values) to->add_strings(value);
}

}  // namespace

AttributeType TypeOf(const proto::Attribute& attribute) {
  if (attribute.type() != 0) {
    return static_cast<AttributeType>(attribute.type());
  }
  if (attribute.has_f()) return AttributeType::kFloat;
  if (attribute.has_i()) return AttributeType::kInt;
  if (attribute.has_s()) return AttributeType::kString;
  if (attribute.has_t()) return AttributeType::kTensor;
  if (attribute.has_g()) return AttributeType::kGraph;
  if (attribute.floats_size() > 0) return AttributeType::kFloats;
  if (attribute.ints_size() > 0) return AttributeType::kInts;
  if (attribute.strings_size() > 0) return AttributeType::kStrings;
  return AttributeType::kUndefined;
}

absl::StatusOr<AttrValue> ReadAttribute(const proto::Attribute& attribute,
                                        TensorReader* tensors) {
  switch (const AttributeType type = TypeOf(attribute)) {
    case AttributeType::kFloat:
      return AttrValue(attribute.f());
    case AttributeType::kInt:
      return AttrValue(int64_t{attribute.i()});
    case AttributeType::kString:
      return AttrValue(attribute.s());
    case AttributeType::kFloats:
      return AttrValue(std::vector<float>(attribute.floats().begin(),
                                          attribute.floats().end()));
    case AttributeType::kInts:
      return AttrValue(std::vector<int64_t>(attribute.ints().begin(),
                                            attribute.ints().end()));
    case AttributeType::kStrings:
      return AttrValue(std::vector<std::string>(attribute.strings().begin(),
                                                attribute.strings().end()));
    case AttributeType::kTensor: {
      NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, tensors->Read(attribute.t()));
      return AttrValue(std::move(tensor));
    }
    default:
      return absl::UnimplementedError(fmt::format(
          "is {}, expected a number, a text, a list of these, a tensor or a "
          "graph",
          NameOf(type)));
  }
}

absl::Status WriteAttribute(const AttrValue& value, proto::Attribute* to) {
  if (const NDArray* const tensor = std::get_if<NDArray>(&value)) {
    to->set_type(static_cast<int>(AttributeType::kTensor));
    return WriteTensor(*tensor, to->mutable_t());
  }
  std::visit(
      [&](const auto& plain) {
        using T = std::decay_t<decltype(plain)>;
        if constexpr (!std::is_same_v<T, NDArray> &&
                      !std::is_same_v<T, Subgraph>) {
          Set(plain, to);
        }
      },
      value);
  return absl::OkStatus();
}

}  // namespace nodewise
