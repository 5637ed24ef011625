// The kinds of faults that were written for the measurement alone: each makes
// what it says, and can be planted into networks of the usual kinds.

#include "tests/measure/held_out_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/zoo/zoo_networks.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A lowered network, a planter of it, and the inputs that it is run with.
struct Planted {
  Lowered lowered;
  std::vector<NamedTensor> inputs;
  std::unique_ptr<const Planter> planter;
};

Planted PlanterOf(const Network& network, std::vector<NamedTensor> inputs = {},
                  Ref<Library> library = ReferenceFunctions()) {
  Planted made{Lower(network, "net").value(), std::move(inputs), nullptr};
  PlanterOptions options;
  options.operators = AllOperators();
  options.params = made.lowered.params;
  options.inputs = made.inputs;
  auto planter =
      Planter::Create(made.lowered.graph, std::move(library), options);
  EXPECT_THAT(planter, IsOk());
  made.planter = *std::move(planter);
  return made;
}

FaultSource SourceOf(std::string_view name) {
  for (FaultSource& source : HeldOutFaults()) {
    if (source.name == name) return std::move(source);
  }
  ADD_FAILURE() << name;
  return {};
}

// What all nodes of a graph make in a run.
std::vector<NDArray> AllMade(Graph graph, const Ref<Library>& library,
                             const Planted& planted) {
  graph.heads.clear();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (uint32_t slot = 0; slot < graph.OutputsOf(NodeId{n}); ++slot) {
      const EntryId entry = graph.EntryOf(NodeId{n}, slot);
      graph.entries[Index(entry)].storage_id =
          static_cast<int32_t>(Index(entry));
      if (graph.IsFunction(NodeId{n})) graph.heads.push_back({n, slot});
    }
  }
  auto executor = GraphExecutor::Create(graph, library).value();
  EXPECT_THAT(executor->LoadParams(Params{planted.lowered.params}), IsOk());
  for (const NamedTensor& input : planted.inputs) {
    EXPECT_THAT(executor->SetInput(input.name, *input.tensor), IsOk());
  }
  EXPECT_THAT(executor->Run(), IsOk());
  std::vector<NDArray> made;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    made.push_back(executor->GetOutput(i)->CopyToHost().value());
  }
  return made;
}

// The result of a network of one node, with the fault.
std::vector<float> FaultyResult(std::string_view kind, const Network& network,
                                const NamedTensor& input) {
  const Planted sound = PlanterOf(network, {input});
  const auto planted = SourceOf(kind).plant(*sound.planter, 1);
  EXPECT_THAT(planted, IsOk());
  EXPECT_THAT(planted->fault.effect, testing::Optional(testing::Gt(0)));
  return ValuesOf(AllMade(planted->graph, planted->library, sound).back());
}

NDArray Ones(const std::vector<int64_t>& shape) {
  NDArray made = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (int64_t i = 0; i < CountOf(made); ++i) made.As<float>()[i] = 1;
  return made;
}

TEST(HeldOutFaultsTest, NamesAreTheirOwnAndNothingIsRequired) {
  std::set<std::string_view> names;
  for (const FaultKindRow& row : FaultKinds()) names.insert(row.name);
  for (const FaultSource& source : HeldOutFaults()) {
    EXPECT_TRUE(names.insert(source.name).second) << source.name;
    EXPECT_TRUE(source.is_held_out);
    EXPECT_FALSE(source.is_required || source.is_dangerous);
  }
  EXPECT_EQ(HeldOutFaults().size(), 6U);
}

TEST(HeldOutFaultsTest, TheRestOfASumIsNotAdded) {
  NetBuilder b;
  b.Out(b.Op("MatMul", {b.In("x", {1, 7}), b.Const("w", Ones({7, 1}))}));
  EXPECT_THAT(FaultyResult("rest-not-summed", b.net, {"x", Ones({1, 7})}),
              ElementsAre(4));
}

TEST(HeldOutFaultsTest, ASumStaysAtAPowerOfTwo) {
  NetBuilder b;
  b.Out(b.Op("MatMul", {b.In("x", {1, 7}), b.Const("w", Ones({7, 1}))}));
  EXPECT_THAT(FaultyResult("saturated-sums", b.net, {"x", Ones({1, 7})}),
              ElementsAre(testing::AnyOf(2, 4)));
}

TEST(HeldOutFaultsTest, AnIndexBeginsAtZeroAgain) {
  NetBuilder b;
  b.Out(b.Op("Neg", {b.In("x", {34})}));
  const NDArray x = Ones({34});
  x.As<float>()[0] = 5;
  x.As<float>()[1] = 6;
  const std::vector<float> made = FaultyResult("index-wraps", b.net, {"x", x});
  EXPECT_EQ(made[31], -1);
  EXPECT_EQ(made[32], -5);
  EXPECT_EQ(made[33], -6);
}

TEST(HeldOutFaultsTest, WhatIsMadeLaterIsMadeOfTheResult) {
  NetBuilder b;
  b.Out(b.Op("Transpose", {b.In("x", {2, 2})}));
  const NDArray x = Ones({2, 2});
  for (int i = 0; i < 4; ++i) x.As<float>()[i] = static_cast<float>(i);
  // 0 2 have been stored over 0 1 when the second row, 1 3, is read.
  EXPECT_THAT(FaultyResult("input-overwritten", b.net, {"x", x}),
              ElementsAre(0, 2, 2, 3));
}

TEST(HeldOutFaultsTest, ANumberForEachRowIsReadAsOneForEachColumn) {
  NetBuilder b;
  const NDArray bias = Ones({2, 1});
  bias.As<float>()[1] = 2;
  b.Out(b.Op("Add", {b.In("x", {2, 3}), b.Const("bias", bias)}));
  EXPECT_THAT(FaultyResult("wrong-broadcast", b.net, {"x", Ones({2, 3})}),
              ElementsAre(2, 3, 2, 3, 2, 3));
}

TEST(HeldOutFaultsTest, ABiasByChannelIsAddedAsIfChannelsLayLast) {
  NetBuilder b;
  const NDArray bias = Ones({2});
  bias.As<float>()[1] = 2;
  b.Out(b.Op("Conv",
             {b.In("x", {1, 1, 1, 3}), b.Const("weight", Ones({2, 1, 1, 1})),
              b.Const("bias", bias)}));
  EXPECT_THAT(FaultyResult("wrong-broadcast", b.net, {"x", Ones({1, 1, 1, 3})}),
              ElementsAre(2, 3, 2, 3, 2, 3));
}

TEST(HeldOutFaultsTest, TheShiftOfANormIsAddedBehindTheActivation) {
  NetBuilder b;
  const NDArray shift = Ones({2});
  shift.As<float>()[0] = -3;
  const NDArray mean = Ones({2});
  const ValueId norm = b.Op("BatchNormalization",
                            {b.In("x", {1, 2, 1}), b.Const("scale", Ones({2})),
                             b.Const("shift", shift), b.Const("mean", mean),
                             b.Const("variance", Ones({2}))},
                            {{"epsilon", 0.0F}})[0];
  b.Out(b.Op("Relu", {norm}));
  EXPECT_THAT(FaultyResult("early-activation", b.net, {"x", Ones({1, 2, 1})}),
              ElementsAre(-3, 1));
}

TEST(HeldOutFaultsTest, ABiasIsAddedBehindTheActivation) {
  NetBuilder b;
  const NDArray bias = Ones({2});
  bias.As<float>()[0] = -3;
  const ValueId sum =
      b.Op("Gemm", {b.In("x", {1, 1}), b.Const("w", Ones({1, 2})),
                    b.Const("bias", bias)})[0];
  b.Out(b.Op("Relu", {sum}));
  EXPECT_THAT(FaultyResult("early-activation", b.net, {"x", Ones({1, 1})}),
              ElementsAre(-2, 2));
}

TEST(HeldOutFaultsTest, WhatANodeLacksIsSaid) {
  NetBuilder b;
  b.Out(b.Op("Neg", {b.In("x", {3})}));
  const Planted sound = PlanterOf(b.net);
  const auto expect_lacks = [&](const char* kind, const char* what) {
    EXPECT_THAT(
        SourceOf(kind).plant(*sound.planter, 1),
        FailsWith(absl::StatusCode::kFailedPrecondition, HasSubstr(what)));
  };
  expect_lacks("rest-not-summed", "it adds up nothing");
  expect_lacks("saturated-sums", "it adds up nothing");
  expect_lacks("index-wraps", "it reads no more than 32 elements");
  expect_lacks("input-overwritten", "no effect: it makes the same bits");
  expect_lacks("wrong-broadcast", "it repeats no tensor");
  expect_lacks("early-activation", "no activation behind a bias");
}

// Where the first node stands that does not make the same bits.
size_t FirstOther(const std::vector<NDArray>& a,
                  const std::vector<NDArray>& b) {
  size_t i = 0;
  while (i < a.size() &&
         std::memcmp(a[i].data(), b[i].data(), a[i].bytes()) == 0) {
    ++i;
  }
  return i;
}

std::vector<NamedTensor> DrawnInputs(const Network& network) {
  std::vector<NamedTensor> inputs;
  for (const ValueId id : network.inputs()) {
    const NetworkValue& value = network.value(id);
    RandomSource random(1, value.name);
    inputs.push_back(
        {value.name,
         RandomTensor(random, *value.type.sizes(), value.type.dtype).value()});
  }
  return inputs;
}

// The place of each node's first output in what AllMade() returns.
size_t PlaceOf(const Graph& graph, NodeId node) {
  size_t place = 0;
  for (uint32_t n = 0; n < Index(node); ++n) {
    if (graph.IsFunction(NodeId{n})) place += graph.OutputsOf(NodeId{n});
  }
  return place;
}

TEST(HeldOutFaultsTest, OneSeedAlwaysPlantsTheSame) {
  const Network network =
      FindZooNetwork("several_outputs")->make(AllOperators(), 1).value();
  const Planted one = PlanterOf(network), other = PlanterOf(network);
  for (const FaultSource& source : HeldOutFaults()) {
    SCOPED_TRACE(source.name);
    const auto a = source.plant(*one.planter, 3);
    const auto b = source.plant(*other.planter, 3);
    ASSERT_THAT(a, IsOk());
    ASSERT_THAT(b, IsOk());
    EXPECT_EQ(a->fault.node, b->fault.node);
    EXPECT_EQ(a->fault.what, b->fault.what);
    EXPECT_EQ(a->fault.effect, b->fault.effect);
  }
}

TEST(HeldOutFaultsTest, EveryKindSpoilsItsNodeInSeveralNetworks) {
  std::map<std::string_view, int> networks_with, places_of;
  for (const ZooNetwork& row : ZooNetworks()) {
    const Network network = row.make(AllOperators(), 1).value();
    const Planted sound = PlanterOf(network, DrawnInputs(network),
                                    BuiltInFunctions(AllOperators()));
    const auto made =
        AllMade(sound.lowered.graph, BuiltInFunctions(AllOperators()), sound);
    for (const FaultSource& source : HeldOutFaults()) {
      std::set<std::string> places;
      for (uint64_t seed = 1; seed <= 2; ++seed) {
        const auto planted = source.plant(*sound.planter, seed);
        if (absl::IsFailedPrecondition(planted.status())) continue;
        ASSERT_THAT(planted, IsOk());
        const PlantedFault& fault = planted->fault;
        SCOPED_TRACE(fault.further_kind + ": " + fault.name + ": " +
                     fault.what);
        EXPECT_EQ(fault.further_kind, source.name);
        EXPECT_THAT(fault.effect, testing::Optional(testing::Gt(0)));
        const size_t first =
            FirstOther(made, AllMade(planted->graph, planted->library, sound));
        const size_t begin = PlaceOf(planted->graph, fault.node);
        EXPECT_GE(first, begin);
        EXPECT_LT(first, begin + planted->graph.OutputsOf(fault.node));
        places.insert(fault.name + fault.what);
      }
      networks_with[source.name] += !places.empty();
      places_of[source.name] += static_cast<int>(places.size());
    }
  }
  for (const FaultSource& source : HeldOutFaults()) {
    EXPECT_GE(networks_with[source.name], 2) << source.name;
    EXPECT_GE(places_of[source.name], 3) << source.name;
  }
}

}  // namespace
}  // namespace nodewise
