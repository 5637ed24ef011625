#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr float kFactors[] = {1, 0, -1, 0.5, 2, 0.25, -0.125, 3, 1e-3F};
constexpr int64_t kMostVariadic = 4;
constexpr int64_t kMostRank = 4;

// Draws a value beside the default of an attribute that is a number.
struct OtherValue {
  ConfigurationDraw& draw;

  AttrValue operator()(int64_t x) const {
    return x == 0 || x == 1 ? draw.Between(0, 1) : draw.Between(x - 2, x + 2);
  }
  AttrValue operator()(float /*x*/) const {
    return draw.One(
        std::vector<float>(std::begin(kFactors), std::end(kFactors)));
  }
  template <typename T>
  AttrValue operator()(const T& x) const {
    return x;
  }
};

// Returns a value that the attribute takes, to tell its kind.
std::optional<AttrValue> SomeValueOf(const OperatorDef& def,
                                     const AttrField& field) {
  const std::shared_ptr<void> op = def.make();
  for (const AttrValue& value :
       {AttrValue(int64_t{1}), AttrValue(1.0F),
        AttrValue(std::vector<int64_t>{1}), AttrValue(std::vector<float>{1})}) {
    if (field.set(op.get(), value).ok()) return value;
  }
  return std::nullopt;
}

void DrawAttributes(ConfigurationDraw& draw) {
  const OpAttrs defaults = OpAttrs::Defaults(draw.def());
  for (const AttrField& field : draw.def().fields) {
    if (field.is_graph || field.is_tensor || field.is_types) continue;
    std::optional<AttrValue> value = field.get(defaults.get());
    if (!value.has_value() && field.is_required) {
      value = SomeValueOf(draw.def(), field);
    }
    if (!value.has_value()) {
      // Its kind is unknown: a float is likely where nothing is required.
      continue;
    }
    if (!field.is_required && !draw.Often()) continue;
    draw.Attr(std::string(field.name), std::visit(OtherValue{draw}, *value));
  }
}

}  // namespace

void DrawFromSignature(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Legal();
  const std::vector<int64_t> shape = draw.Sides(0, kMostRank);
  const bool broadcasts = draw.Often(60);
  const auto add = [&] {
    draw.Input(dtype, broadcasts ? draw.PartOf(shape) : shape);
  };
  for (const Param& param : draw.def().inputs) {
    const Choices::Group group(draw.choices());
    switch (param.kind) {
      case Param::Kind::kRequired:
        add();
        break;
      case Param::Kind::kOptional:
        if (draw.Often()) {
          add();
        } else {
          draw.NoInput();
        }
        break;
      case Param::Kind::kVariadic:
        for (int64_t i = draw.Between(1, kMostVariadic); i > 0; --i) add();
        break;
    }
  }
  DrawAttributes(draw);
}

}  // namespace nodewise
