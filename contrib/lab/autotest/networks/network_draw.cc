#include "nodewise/autotest/network_draw.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "contrib/lab/autotest/networks/network_builder.h"
#include "nodewise/interp/exact_tensors.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A network of so many steps can still be read, and is cut to few operations in
// a short time. Most networks end before: each step after the first may be the
// last.
constexpr int kMostSteps = 8;
constexpr int kGoesOn = 85;  // Per cent of steps.
// Per cent of steps; the others are control flow.
constexpr uint64_t kOperatorSteps = 72;
constexpr uint64_t kPatternSteps = 22;
// How many draws the operator's rules may refuse before a step is given up.
constexpr int kMostRefused = 4;
// How often a network may have sizes that only a run tells, which few
// candidates take.
constexpr int kOpenSizes = 5;

// Two of three networks are exact: whole numbers make every order of their sums
// the same, so that results are right bit for bit or wrong. Operators that
// round are left out of these.
BuilderOptions DrawOptions(const NetworkScope& scope, Choices* choices) {
  BuilderOptions options;
  // Half of all networks have the first opset, which counts as the simplest.
  const uint64_t place =
      choices->UpTo(1) == 0 ? 0 : choices->UpTo(scope.opsets.size() - 1);
  options.opset = scope.opsets[place];
  options.is_exact = choices->UpTo(2) > 0;
  for (const OperatorDef* row : scope.rows) {
    const bool holds = !row->domain.empty() || (row->since <= options.opset &&
                                                options.opset < row->until);
    if (holds && (!options.is_exact || MayBeExact(*row))) {
      options.rows.push_back(row);
    }
  }
  return options;
}

// Looks at the outputs alone: where their sizes are known, those of the values
// between mostly are, too.
bool HasKnownSizes(const Network& network) {
  const auto outputs = network.outputs();
  return std::ranges::all_of(
      outputs, [&](ValueId id) { return network.value(id).type.is_static(); });
}

}  // namespace

// A network has one version of each domain: the first operator of a domain
// decides on it, and others join only if they hold in it. All draws of a step
// prefer the type and the shape of one tensor, so that what the operator reads
// can be that.
absl::Status AddOperator(NetworkBuilder& builder, bool may_be_open) {
  const BuilderOptions& options = builder.options();
  const OperatorDef& def =
      *options.rows[builder.choices()->UpTo(options.rows.size() - 1)];
  int opset = options.opset;
  if (!def.domain.empty()) {
    const int there = builder.network().opset(std::string(def.domain));
    opset = there == 0 ? def.since : there;
    if (opset < def.since || opset >= def.until) {
      return NotFound("another version of its domain");
    }
  }
  const std::optional<PoolTensor> base = builder.Any();
  absl::Status last;
  for (int attempt = 0; attempt < kMostRefused; ++attempt) {
    ConfigurationDraw draw(def, opset, builder.choices());
    if (base.has_value()) draw.Prefer(base->dtype, base->shape);
    if (options.is_exact) draw.PreferWhole();
    const auto made = DrawCase(draw);
    last = made.status();
    if (!made.ok()) continue;
    if (!HasKnownSizes(*made->network) && !may_be_open) {
      last = NotFound("sizes that only a run tells");
      continue;
    }
    return builder.AddCase(*made);
  }
  return last;
}

absl::StatusOr<OperatorCase> DrawNetwork(const NetworkScope& scope,
                                         Choices* choices) {
  if (scope.opsets.empty()) return InvalidArgument("no opset");
  NetworkBuilder builder(DrawOptions(scope, choices), choices);
  if (builder.options().rows.empty()) {
    return InvalidArgument("no operator of this opset");
  }
  const bool may_be_open = builder.Chance(kOpenSizes);
  for (int step = 0; step < kMostSteps; ++step) {
    const Choices::Group group(choices);
    if (step > 0 && !builder.Chance(kGoesOn)) break;
    // A step that fails is left out, but operations that it has added stay.
    const uint64_t kind = choices->UpTo(99);
    if (kind < kOperatorSteps) {
      (void)AddOperator(builder, may_be_open);
    } else if (kind < kOperatorSteps + kPatternSteps) {
      (void)AddPattern(builder);
    } else {
      (void)AddControlFlow(builder);
    }
  }
  return builder.Finish();
}

std::unique_ptr<CaseSource> NetworkSource(NetworkScope scope) {
  return std::make_unique<CaseSource>(
      CaseSource{[](uint64_t) { return "networks"; },
                 [scope = std::move(scope)](uint64_t, Choices* choices) {
                   return DrawNetwork(scope, choices);
                 }});
}

}  // namespace nodewise
