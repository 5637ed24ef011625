// If, Loop and Scan have bodies that are drawn as networks are, but smaller: a
// body runs up to three times, and its operations count as one step of a
// network.

#include <utility>

#include "contrib/lab/autotest/networks/network_builder.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr int kMostStepsOfBody = 3;
constexpr int kMostCaptures = 2;
constexpr int64_t kMostTrips = 3;
constexpr int kScanSince = 9;

struct Body {
  NetworkBuilder builder;
  ValueIds captures;
};

BuilderOptions OptionsOfBody(const NetworkBuilder& outer) {
  BuilderOptions options = outer.options();
  options.is_body = true;
  // Bodies have the opsets of the network around them.
  std::erase_if(options.rows,
                [](const OperatorDef* row) { return !row->domain.empty(); });
  return options;
}

absl::Status Fill(NetworkBuilder& outer, Body* body) {
  for (int64_t i = outer.Between(0, kMostCaptures); i > 0; --i) {
    const std::optional<PoolTensor> tensor = outer.Any();
    if (!tensor.has_value()) break;
    NODEWISE_RETURN_IF_ERROR(body->builder.AddBodyInput(*tensor).status());
    body->captures.push_back(tensor->id);
  }
  if (body->builder.options().rows.empty()) return absl::OkStatus();
  for (int64_t i = outer.Between(1, kMostStepsOfBody); i > 0; --i) {
    const Choices::Group group(outer.choices());
    // A step that fails is left out, as in the network around it.
    (void)AddOperator(body->builder, /*may_be_open=*/false);
  }
  return absl::OkStatus();
}

MadeValue OutputOf(Body* body, const PoolTensor& like) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            body->builder.Feed({true, like.dtype, like.shape}));
  // An output that is an input, or a constant, is something else to compilers.
  return body->builder.Add("Identity", {}, {made});
}

absl::StatusOr<Subgraph> Finish(Body* body, ValueIds outputs) {
  Network& network = body->builder.network();
  NODEWISE_RETURN_IF_ERROR(network.SetOutputs(std::move(outputs)));
  network.RemoveUnused();
  return Subgraph{ShareNetwork(std::move(network)),
                  static_cast<uint32_t>(body->captures.size())};
}

// States and results get the type of a tensor that the network has already, or
// else that of two floats.
PoolTensor TensorToPassOn(NetworkBuilder& builder) {
  return builder.Any().value_or(PoolTensor{kNoValue, kFloat32, {2}});
}

// Both branches make outputs of the same types, and read what each has
// captured.
absl::Status AddIf(NetworkBuilder& builder) {
  const PoolTensor like = TensorToPassOn(builder);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId condition,
                            builder.AddInput({true, kBool, {}}));
  ValueIds inputs = {condition};
  std::vector<NamedAttr> attributes;
  const int64_t outputs = builder.Between(1, 2);
  for (const char* name : {"else_branch", "then_branch"}) {
    const Choices::Group group(builder.choices());
    Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
    NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
    ValueIds made;
    for (int64_t i = 0; i < outputs; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(made.emplace_back(), OutputOf(&body, like));
    }
    NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(made)));
    attributes.push_back({name, std::move(graph)});
    inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  }
  return builder
      .AddAll("If", attributes, std::move(inputs), static_cast<size_t>(outputs))
      .status();
}

MadeValue AddInputLike(NetworkBuilder& builder, const PoolTensor& like) {
  if (like.id != kNoValue) return like.id;
  return builder.AddInput({true, like.dtype, like.shape});
}

// A loop with one state, and now and then with what each trip makes. It ends
// after so many trips; its condition is handed on as it is.
absl::Status AddLoop(NetworkBuilder& builder) {
  const PoolTensor like = TensorToPassOn(builder);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId state, AddInputLike(builder, like));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId trips,
      builder.AddNumber(kInt64,
                        static_cast<double>(builder.Between(0, kMostTrips))));
  Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
  NODEWISE_RETURN_IF_ERROR(
      body.builder.AddBodyInput({kNoValue, kInt64, {}}).status());
  NODEWISE_ASSIGN_OR_RETURN(ValueId goes_on,
                            body.builder.AddBodyInput({kNoValue, kBool, {}}));
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(like).status());
  NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
  NODEWISE_ASSIGN_OR_RETURN(goes_on,
                            body.builder.Add("Identity", {}, {goes_on}));
  ValueIds outputs = {goes_on};
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, like));
  const bool scans = builder.Chance();
  if (scans) {
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, like));
  }
  NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(outputs)));
  ValueIds inputs = {trips, kNoValue, state};
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  return builder
      .AddAll("Loop", {{"body", std::move(graph)}}, std::move(inputs),
              scans ? 2 : 1)
      .status();
}

// The scan takes apart a tensor that the network has already, along its side 0.
absl::Status AddScan(NetworkBuilder& builder) {
  const std::optional<PoolTensor> scanned = builder.Any();
  if (builder.options().opset < kScanSince || !scanned.has_value() ||
      scanned->shape.empty()) {
    return NotFound("nothing to scan");
  }
  const PoolTensor like = TensorToPassOn(builder);
  Body body{NetworkBuilder(OptionsOfBody(builder), builder.choices()), {}};
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(like).status());
  const PoolTensor part{kNoValue,
                        scanned->dtype,
                        {scanned->shape.begin() + 1, scanned->shape.end()}};
  NODEWISE_RETURN_IF_ERROR(body.builder.AddBodyInput(part).status());
  NODEWISE_RETURN_IF_ERROR(Fill(builder, &body));
  ValueIds outputs;
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, like));
  NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), OutputOf(&body, part));
  NODEWISE_ASSIGN_OR_RETURN(Subgraph graph, Finish(&body, std::move(outputs)));
  std::vector<NamedAttr> attributes = {{"body", std::move(graph)},
                                       {"num_scan_inputs", int64_t{1}}};
  if (builder.Chance(30)) {
    attributes.push_back({"scan_input_directions", Sides{1}});
  }
  if (builder.Chance(30)) {
    attributes.push_back({"scan_output_directions", Sides{1}});
  }
  ValueIds inputs = {like.id, scanned->id};
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  return builder.AddAll("Scan", attributes, std::move(inputs), 2).status();
}

}  // namespace

absl::Status AddControlFlow(NetworkBuilder& builder) {
  constexpr absl::Status (*kKinds[])(NetworkBuilder & builder) = {
      &AddIf, &AddLoop, &AddScan};
  return builder.choices()->One(kKinds)(builder);
}

}  // namespace nodewise
