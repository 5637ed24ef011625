#include "nodewise/autotest/operator_space.h"

#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/backward_network.h"
#include "contrib/lab/autotest/space_families.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/backward.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr absl::Span<const OperatorSpace> (*kFamilies[])() = {
    &AttentionSpaces, &ClassicSpaces,   &FillSpaces,   &ImageSpaces,
    &IndexSpaces,     &MathSpaces,      &NormSpaces,   &PointwiseSpaces,
    &ProductSpaces,   &QuantizedSpaces, &RandomSpaces, &ReduceSpaces,
    &SequenceSpaces,  &ShapeSpaces,     &WindowSpaces};

void Draw(const OperatorDef& def, ConfigurationDraw& draw) {
  for (const auto family : kFamilies) {
    for (const OperatorSpace& space : family()) {
      if (space.name == def.name) return space.draw(draw);
    }
  }
  DrawFromSignature(draw);
}

}  // namespace

namespace {

std::vector<std::string> KindsOf(const Network& network) {
  std::vector<std::string> kinds;
  for (const OperationId id : network.order()) {
    kinds.emplace_back(network.operation(id).kind());
  }
  return kinds;
}

}  // namespace

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

bool HasSpace(const OperatorDef& def) {
  if (def.evaluate == nullptr || def.domain.starts_with("nodewise")) {
    return false;
  }
  if (std::any_of(def.fields.begin(), def.fields.end(),
                  [](const AttrField& field) { return field.is_graph; })) {
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
  if (draw.choices()->is_exhausted()) {
    return absl::ResourceExhaustedError(
        fmt::format("the space of {} makes more than {} choices for one case",
                    draw.def().name, Choices::kMost));
  }
  OperatorCase made;
  NODEWISE_ASSIGN_OR_RETURN(made.configuration, draw.Take());
  NODEWISE_ASSIGN_OR_RETURN(Network network, NetworkOf(made.configuration));
  made.network = std::make_shared<const Network>(std::move(network));
  made.exact = ExactSource::Of(*made.network);
  return made;
}

absl::StatusOr<OperatorCase> DrawCase(const OperatorDef& def, bool is_backward,
                                      Choices* choices) {
  NODEWISE_ASSIGN_OR_RETURN(OperatorCase made, DrawCase(def, choices));
  if (!is_backward) return made;
  return BackwardOf(made);
}

std::vector<std::string_view> OperatorsWithSpaces() {
  std::vector<std::string_view> names;
  for (const auto family : kFamilies) {
    for (const OperatorSpace& space : family()) names.push_back(space.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nodewise
