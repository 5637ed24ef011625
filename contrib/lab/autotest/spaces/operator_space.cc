
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_split.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "contrib/lab/autotest/spaces/spaces.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr absl::Span<const OperatorSpace> (*kFamilies[])() = {
    &ClassicSpaces, &FillSpaces,     &RandomSpaces,    &ImageSpaces,
    &MathSpaces,    &MoveSpaces,     &PointwiseSpaces, &ProductSpaces,
    &ReduceSpaces,  &SequenceSpaces, &WindowSpaces};

// Most attributes that are floats are factors, slopes or small additions:
// numbers around 1 that every float type holds, both signs, and 0. The first
// is the one that shrinking tends to.
constexpr std::initializer_list<float> kFactors = {1,    0,      -1, 0.5,  2,
                                                   0.25, -0.125, 3,  1e-3F};
constexpr int64_t kMostVariadic = 4;
constexpr int64_t kMostRank = 4;

// Draws a value beside the default of an attribute that is a number.
struct OtherValue {
  ConfigurationDraw& draw;

  // 0 and 1 are flags, most of the time, and take no third value.
  AttrValue operator()(int64_t x) const {
    return x == 0 || x == 1 ? draw.Between(0, 1) : draw.Between(x - 2, x + 2);
  }
  AttrValue operator()(float /*x*/) const { return draw.One(kFactors); }
  // Lists and words have no neighbours that a signature would tell.
  template <typename T>
  AttrValue operator()(const T& x) const {
    return x;
  }
};

// Returns a value that the attribute takes, to tell its kind. The row of an
// operator has no types of attributes, so this is found out by trying.
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
    // Without a default, the type of an attribute that is not required stays
    // unknown.
    if (!value.has_value()) continue;
    if (!field.is_required && !draw.Chance()) continue;
    draw.Attr(std::string(field.name), std::visit(OtherValue{draw}, *value));
  }
}

// The space of an operator that has none of its own. One type and one shape
// serve all inputs, since that is legal for most operators; the rules of an
// operator that wants something else refuse the draw, and one that refuses too
// often is worth a space.
void DrawFromSignature(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Legal();
  const Ints shape = draw.Sides(0, kMostRank);
  const bool broadcasts = draw.Chance(60);
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
        draw.Chance() ? add() : draw.NoInput();
        break;
      case Param::Kind::kVariadic:
        for (int64_t i = draw.Between(1, kMostVariadic); i > 0; --i) add();
        break;
    }
  }
  DrawAttributes(draw);
}

void Draw(const OperatorDef& def, ConfigurationDraw& draw) {
  for (const auto family : kFamilies) {
    const OperatorSpace* const space = FindSpace(family(), def.name);
    if (space != nullptr) return space->draw(draw);
  }
  DrawFromSignature(draw);
}

std::vector<std::string> KindsOf(const Network& network) {
  std::vector<std::string> kinds;
  for (const OperationId id : network.order()) {
    kinds.emplace_back(network.operation(id).kind());
  }
  return kinds;
}

}  // namespace

const OperatorSpace* FindSpace(absl::Span<const OperatorSpace> spaces,
                               std::string_view name) {
  const absl::string_view wanted(name.data(), name.size());
  for (const OperatorSpace& space : spaces) {
    for (const absl::string_view one : absl::StrSplit(space.operators, ' ')) {
      if (one == wanted) return &space;
    }
  }
  return nullptr;
}

NDArray AttrTensor(DLDataType dtype, const Ints& shape,
                   const std::vector<double>& numbers) {
  return TensorOfDoubles(dtype, shape, numbers).value_or(NDArray());
}

// Findings are sorted into causes by this title. Longer networks all count as
// one kind, or each of them would be a cause of its own.
std::string TitleOf(const OperatorCase& made) {
  constexpr size_t kMostNamed = 3;
  if (!made.configuration.is_network()) {
    return std::string(made.configuration.def->name);
  }
  const std::vector<std::string> kinds = KindsOf(SubjectOf(made));
  return kinds.size() > kMostNamed ? "network"
                                   : fmt::format("{}", fmt::join(kinds, "_"));
}

std::string ToString(const OperatorCase& made) {
  if (!made.configuration.is_network()) return ToString(made.configuration);
  return fmt::format("network {}: {}", made.configuration.opset,
                     fmt::join(KindsOf(SubjectOf(made)), ", "));
}

// An operator that is only known to be refused says so before it looks at its
// inputs, so it is asked about none at all.
bool HasSpace(const OperatorDef& def) {
  if (def.evaluate == nullptr || def.domain.starts_with("nodewise") ||
      std::ranges::any_of(def.fields, &AttrField::is_graph)) {
    return false;
  }
  const OpAttrs defaults = OpAttrs::Defaults(def);
  return !absl::IsUnimplemented(def.check(defaults.get(), Inputs({})));
}

absl::StatusOr<OperatorCase> DrawCase(const OperatorDef& def,
                                      Choices* choices) {
  ConfigurationDraw draw(def, choices);
  return DrawCase(draw);
}

absl::StatusOr<OperatorCase> DrawCase(ConfigurationDraw& draw) {
  Draw(draw.def(), draw);
  // Choices::UpTo() gives 0 from there on, so what has been drawn is not random
  // any more, and the space would look as if it only ever drew small cases.
  if (draw.choices()->is_exhausted()) {
    return ResourceExhausted(
        "the space of {} makes more than {} choices for one case",
        draw.def().name, Choices::kMost);
  }
  OperatorCase made;
  NODEWISE_ASSIGN_OR_RETURN(made.configuration, draw.Finish());
  NODEWISE_ASSIGN_OR_RETURN(Network network, NetworkOf(made.configuration));
  SetNetwork(std::move(network), &made);
  return made;
}

absl::StatusOr<OperatorCase> DrawCase(const OperatorDef& def, bool is_backward,
                                      Choices* choices) {
  NODEWISE_ASSIGN_OR_RETURN(OperatorCase made, DrawCase(def, choices));
  if (!is_backward) return made;
  return BackwardOf(made);
}

absl::StatusOr<ValueSet> DrawSet(const OperatorCase& made, Choices* choices) {
  const Choices::Group group(choices);
  ValueSet set;
  const bool wants_exact = choices->UpTo(1) == 1;
  // A third of the sets have special floats, but only a twelfth for whole
  // networks, where one special number spreads to many results.
  const uint64_t share = made.configuration.is_network() ? 12 : 3;
  const uint64_t kind = choices->UpTo(share * (kSpecialKinds - 1));
  auto special = kind < kSpecialKinds ? static_cast<SpecialKind>(kind)
                                      : SpecialKind::kNone;
  // It is not specified what a gradient makes of infinities. Whether huge ones
  // overflow depends on how operations are computed together.
  if (made.backward != nullptr ||
      (special == SpecialKind::kHuge && made.configuration.is_network())) {
    special = SpecialKind::kNone;
  }
  if (wants_exact && made.exact != nullptr) {
    std::vector<NDArray> given;
    for (const CaseInput& input : made.configuration.inputs) {
      if (!input.is_given || input.is_constant) continue;
      // Places and counts have a range of their own.
      NDArray& place = given.emplace_back(input.fixed);
      if (place.defined() ||
          (!input.domain.is_whole && input.domain.least <= -3 &&
           input.domain.most >= 3)) {
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(
          place, DrawTensor(input.dtype, input.shape, input.domain, choices));
    }
    auto exact = made.exact->Draw(choices->Bits(), given);
    if (exact.ok()) return ValueSet{*std::move(exact), true};
  }
  NODEWISE_ASSIGN_OR_RETURN(set.inputs,
                            DrawInputs(made.configuration, choices, special));
  if (made.backward == nullptr) return set;
  NODEWISE_ASSIGN_OR_RETURN(set.inputs,
                            WithCotangents(*made.backward, *made.network,
                                           std::move(set.inputs), choices));
  return set;
}

}  // namespace nodewise
