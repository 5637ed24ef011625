#include "nodewise/locate/layer_comparator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nodewise/planter/planter.h"
#include "nodewise/support/machine.h"
#include "tests/contrib/locate/spoiled_library.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kThreshold = 1e-5;

// Sums that cancel differ with any two kernels; positive ones do not cancel.
constexpr bool kPositive = true;

NDArray Waves(const std::vector<int64_t>& shape, bool is_positive = false) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  const size_t count = tensor.bytes() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    const float wave = std::sin(0.3F * static_cast<float>(i + 1));
    tensor.As<float>()[i] = is_positive ? std::fabs(wave) : wave;
  }
  return tensor;
}

// x -> mix (MatMul) -> halves (Split, two outputs) -> left and right (Tanh
// each) -> joined (Add).
LayerModule SplittingNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 6});
  const ValueId w = b.Const("w", Waves({6, 8}));
  const ValueId m = b.Op("MatMul", {x, w}, {}, {"m"}, "mix")[0];
  const auto halves = b.Op("Split", {m}, {{"axis", 1}, {"num_outputs", 2}},
                           {"l", "h"}, "halves");
  const ValueId left = b.Op("Tanh", {halves[0]}, {}, {"lt"}, "left")[0];
  const ValueId right = b.Op("Tanh", {halves[1]}, {}, {"rt"}, "right")[0];
  b.Out({b.Op("Add", {left, right}, {}, {"y"}, "joined")[0]});
  LayerModule mod = MakeLayerModule(b.net, "net", /*fuse=*/false).value();
  mod.inputs = {{"x", Waves({2, 6})}};
  return mod;
}

// Spoils the node of that name in the module, and returns the functions that
// compute it so.
LayerBackend PlantIn(const std::string& name, LayerModule* mod,
                     Ref<Library> sound = ReferenceFunctions()) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    auto planted = PlantScale(mod->graph, sound, seed).value();
    if (planted.fault.name != name) continue;
    mod->graph = std::move(planted.graph);
    return LayerBackend("planted", planted.library);
  }
  ADD_FAILURE() << "no seed plants into " << name;
  return "Interpreter";
}

std::vector<std::string> NamesOf(const std::vector<LayerResult>& layers,
                                 NodeVerdict verdict) {
  std::vector<std::string> names;
  for (const LayerResult& result : layers) {
    if (result.verdict == verdict) names.push_back(result.layer.name);
  }
  return names;
}

// What holds for all comparators.
template <typename Comparator>
class LayerComparatorTest : public testing::Test {};
using Comparators =
    testing::Types<IntermediateLayerComparator, RecursiveLayerComparator>;
TYPED_TEST_SUITE(LayerComparatorTest, Comparators);

// GL-26, GL-32
TYPED_TEST(LayerComparatorTest, TheReferenceMatchesItself) {
  const LayerModule mod = SplittingNet();
  TypeParam comparator(mod, "Interpreter", "Interpreter", 0);
  const auto match = comparator.verify();
  ASSERT_THAT(match, IsOk());
  EXPECT_TRUE(*match);
  EXPECT_THAT(comparator.culprits(), IsEmpty());
  EXPECT_EQ(comparator.layers().size(), 5U);
  EXPECT_GT(comparator.cost().seconds, 0);
}

// GL-24, GL-25, GL-28
TYPED_TEST(LayerComparatorTest, AnotherBackendMatchesWithinTheThreshold) {
  const LayerModule mod = SplittingNet();
  TypeParam comparator(mod, "interpreter", "oneDNN", kThreshold);
  const auto match = comparator.verify();
  ASSERT_THAT(match, IsOk());
  EXPECT_TRUE(*match);
}

// GL-01, GL-33, GL-36, GL-37, GL-40
TYPED_TEST(LayerComparatorTest, OnlyTheLayerThatIsWrongAloneIsBroken) {
  for (const std::string name : {"mix", "halves", "right", "joined"}) {
    SCOPED_TRACE(name);
    LayerModule mod = SplittingNet();
    const LayerBackend planted = PlantIn(name, &mod);
    TypeParam comparator(mod, "Interpreter", planted, kThreshold);
    const auto match = comparator.verify();
    ASSERT_THAT(match, IsOk());
    EXPECT_FALSE(*match);
    EXPECT_THAT(NamesOf(comparator.culprits(), NodeVerdict::kBroken),
                ElementsAre(name));
    for (const LayerResult& result : comparator.layers()) {
      EXPECT_EQ(result.alone.empty(), result.verdict == NodeVerdict::kHealthy);
    }
  }
}

// GL-35
TYPED_TEST(LayerComparatorTest, LayersBehindABrokenOneInherit) {
  LayerModule mod = SplittingNet();
  const LayerBackend planted = PlantIn("mix", &mod);
  TypeParam comparator(mod, "Interpreter", planted, kThreshold);
  ASSERT_THAT(comparator.verify(), IsOk());
  EXPECT_THAT(NamesOf(comparator.layers(), NodeVerdict::kInherits),
              ElementsAre("halves", "left", "right", "joined"));
  EXPECT_THAT(comparator.layers()[1].reason, HasSubstr("what it read was off"));
}

// GL-01
TYPED_TEST(LayerComparatorTest, TwoBrokenLayersAreBothFound) {
  LayerModule mod = SplittingNet();
  const LayerBackend first = PlantIn("mix", &mod);
  const LayerBackend both = PlantIn("left", &mod, first.Functions().value());
  TypeParam comparator(mod, "Interpreter", both, kThreshold);
  ASSERT_THAT(comparator.verify(), IsOk());
  EXPECT_THAT(NamesOf(comparator.layers(), NodeVerdict::kBroken),
              ElementsAre("mix", "left"));
}

// GL-42
TYPED_TEST(LayerComparatorTest, AllOutputsOfALayerAreComparedByTheirNumber) {
  LayerModule mod = SplittingNet();
  const LayerBackend planted = PlantIn("halves", &mod);
  TypeParam comparator(mod, "Interpreter", planted, kThreshold);
  ASSERT_THAT(comparator.verify(), IsOk());
  const LayerResult& halves = comparator.layers()[1];
  ASSERT_EQ(halves.alone.size(), 2U);
  EXPECT_EQ(halves.alone[0].key.Name(), "halves");
  EXPECT_EQ(halves.alone[1].key.Name(), "halves:1");
}

// GL-29
TYPED_TEST(LayerComparatorTest, TheThresholdDecides) {
  LayerModule mod = SplittingNet();
  const LayerBackend planted = PlantIn("mix", &mod);
  TypeParam comparator(mod, "Interpreter", planted, 100);
  const auto match = comparator.verify();
  ASSERT_THAT(match, IsOk());
  EXPECT_TRUE(*match);
}

TYPED_TEST(LayerComparatorTest, BoundsFindWhatATypesToleranceLetsPass) {
  LayerModule mod = SplittingNet();
  const LayerBackend planted = PlantIn("mix", &mod);
  TypeParam comparator(mod, "Interpreter", planted, Rule());
  ASSERT_THAT(comparator.verify(), IsOk());
  EXPECT_THAT(NamesOf(comparator.culprits(), NodeVerdict::kBroken),
              ElementsAre("mix"));
  EXPECT_THAT(comparator.culprits()[0].reason, HasSubstr("bound"));
}

// GL-27
TYPED_TEST(LayerComparatorTest, ItCanBeUsedAgainWithOtherInputs) {
  LayerModule mod = SplittingNet();
  const LayerBackend planted = PlantIn("mix", &mod);
  TypeParam comparator(mod, "Interpreter", planted, kThreshold);
  ASSERT_THAT(comparator.verify(), IsOk());
  NDArray zeros = Waves({2, 6});
  std::fill_n(zeros.template As<float>(), 12, 0.0F);
  const auto match = comparator.verify({{"x", zeros}});
  ASSERT_THAT(match, IsOk());
  EXPECT_TRUE(*match);
  EXPECT_THAT(comparator.culprits(), IsEmpty());
}

TYPED_TEST(LayerComparatorTest, ABackendThatThereIsNotIsNamedWithTheOthers) {
  const LayerModule mod = SplittingNet();
  TypeParam comparator(mod, "Interpreter", "Interpretr", kThreshold);
  EXPECT_THAT(comparator.verify(),
              FailsWith(absl::StatusCode::kNotFound,
                        HasSubstr("backend Interpretr: there is none of that "
                                  "name, expected one of Interpreter, ")));
}

TYPED_TEST(LayerComparatorTest, AnInputThatDoesNotFitIsAnError) {
  LayerModule mod = SplittingNet();
  mod.inputs = {{"x", Waves({2, 5})}};
  TypeParam comparator(mod, "Interpreter", "Interpreter", kThreshold);
  EXPECT_THAT(comparator.verify(),
              FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("x")));
}

TYPED_TEST(LayerComparatorTest, ALayerThatDoesNotSayWhatItComputesIsAnError) {
  LayerModule mod = SplittingNet();
  mod.graph.nodes.back().attrs.clear();
  TypeParam comparator(mod, "Interpreter", "Interpreter", kThreshold);
  EXPECT_THAT(comparator.verify(), FailsWith(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("has no attribute")));
}

// x -> a -> b -> c, and y = a + c: a is needed until the end, but c is put in
// its place.
TYPED_TEST(LayerComparatorTest, AFaultOfTheStoragePlanIsNotAMatch) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 6});
  const ValueId first = b.Op("Tanh", {x}, {}, {"at"}, "a")[0];
  const ValueId second = b.Op("Softmax", {first}, {}, {"bt"}, "b")[0];
  const ValueId third = b.Op("Softmax", {second}, {}, {"ct"}, "c")[0];
  b.Out({b.Op("Add", {first, third}, {}, {"yt"}, "y")[0]});
  LayerModule mod = MakeLayerModule(b.net, "net", /*fuse=*/false).value();
  mod.inputs = {{"x", Waves({2, 6})}};
  const GraphIndex index(mod.graph);
  const auto storage_of = [&](const std::string& name) -> int32_t& {
    return mod.graph.entries[Index(index.FindEntry(name).value())].storage_id;
  };
  storage_of("c") = storage_of("a");
  TypeParam comparator(mod, "Interpreter", "Interpreter", kThreshold);
  const auto match = comparator.verify();
  ASSERT_THAT(match, IsOk());
  EXPECT_FALSE(*match);
  EXPECT_THAT(NamesOf(comparator.layers(), NodeVerdict::kInconclusive),
              ElementsAre("y"));
  EXPECT_THAT(comparator.layers().back().reason, HasSubstr("in memory"));
}

// The functions of the reference, of which that of "halves" does something.
LayerBackend WithHalves(SpoiledLibrary::Spoil spoil) {
  return LayerBackend(
      "spoiled",
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "split", std::move(spoil)));
}

// GL-35
TYPED_TEST(LayerComparatorTest, ALayerThatEndsTheProcessIsNamedAmongTheOthers) {
  struct Row {
    SpoiledLibrary::Spoil spoil;
    NodeVerdict verdict;
    std::string reason;
  };
  const Row table[] = {
      {[](const DLTensor&) { std::raise(SIGSEGV); }, NodeVerdict::kCrashes,
       "SIGSEGV"},
      {[](const DLTensor&) { std::_Exit(0); }, NodeVerdict::kCrashes, "exit"},
      {[](const DLTensor&) {
         std::this_thread::sleep_for(std::chrono::minutes(1));
       },
       NodeVerdict::kHangs, "300 ms"},
  };
  for (const Row& row : table) {
    SCOPED_TRACE(row.reason);
    const LayerModule mod = SplittingNet();
    TypeParam comparator(mod, "Interpreter", WithHalves(row.spoil), kThreshold);
    comparator.set_node_limit_ms(300);
    const auto match = comparator.verify();
    ASSERT_THAT(match, IsOk());
    EXPECT_FALSE(*match);
    EXPECT_THAT(NamesOf(comparator.culprits(), row.verdict),
                ElementsAre("halves"));
    EXPECT_THAT(comparator.culprits()[0].reason, HasSubstr(row.reason));
    EXPECT_THAT(NamesOf(comparator.layers(), NodeVerdict::kHealthy),
                ElementsAre("mix", "left", "right", "joined"));
    const LocateResult located = LocatedLayers(mod, comparator);
    ASSERT_EQ(located.culprits.size(), 1U);
    EXPECT_THAT(located.stand_ins, ElementsAre("halves"));
  }
}

TYPED_TEST(LayerComparatorTest, BesideALayerThatCrashesABrokenOneIsFound) {
  LayerModule mod = SplittingNet();
  const LayerBackend both = PlantIn(
      "right", &mod,
      WithHalves([](const DLTensor&) { std::abort(); }).Functions().value());
  TypeParam comparator(mod, "Interpreter", both, kThreshold);
  ASSERT_THAT(comparator.verify(), IsOk());
  EXPECT_THAT(NamesOf(comparator.culprits(), NodeVerdict::kCrashes),
              ElementsAre("halves"));
  EXPECT_THAT(NamesOf(comparator.culprits(), NodeVerdict::kBroken),
              ElementsAre("right"));
}

// Notes what it is told.
class NotingObserver : public LayerObserver {
 public:
  absl::Status Begins(const Layer& layer) override {
    notes.push_back("begins " + layer.name + " " + layer.kind);
    return absl::OkStatus();
  }
  absl::Status IsBroken(const BrokenLayer& broken) override {
    notes.push_back("is broken");
    roles = broken.result.layer.inputs;
    outputs = broken.result.layer.outputs;
    // What is handed over must do for a test case.
    made =
        Interpret(broken.network, {broken.inputs.begin(), broken.inputs.end()})
            .value();
    expected.assign(broken.outputs.begin(), broken.outputs.end());
    return absl::OkStatus();
  }
  absl::Status Ends(const LayerResult& result) override {
    notes.push_back("ends " + result.layer.name);
    return result.layer.name == stop_at ? absl::CancelledError("enough")
                                        : absl::OkStatus();
  }

  std::vector<std::string> notes, roles, outputs;
  std::vector<NDArray> made, expected;
  std::string stop_at;
};

// GL-30, GL-31
TYPED_TEST(LayerComparatorTest, AnObserverSeesEveryLayerAndTheBrokenOnes) {
  LayerModule mod = SplittingNet();
  const LayerBackend planted = PlantIn("halves", &mod);
  TypeParam comparator(mod, "Interpreter", planted, kThreshold);
  NotingObserver observer;
  comparator.set_observer(&observer);
  ASSERT_THAT(comparator.verify(), IsOk());
  EXPECT_THAT(observer.notes,
              ElementsAre("begins mix MatMul", "ends mix",
                          "begins halves Split", "is broken", "ends halves",
                          "begins left Tanh", "ends left", "begins right Tanh",
                          "ends right", "begins joined Add", "ends joined"));
  EXPECT_THAT(observer.roles, ElementsAre("input"));
  EXPECT_THAT(observer.outputs, ElementsAre("outputs", "outputs_1"));
  ASSERT_EQ(observer.made.size(), 2U);
  EXPECT_TRUE(HaveSameBits(observer.made[1], observer.expected[1]));
}

TYPED_TEST(LayerComparatorTest, AnErrorOfTheObserverEndsTheComparison) {
  const LayerModule mod = SplittingNet();
  TypeParam comparator(mod, "Interpreter", "Interpreter", kThreshold);
  NotingObserver observer;
  observer.stop_at = "mix";
  comparator.set_observer(&observer);
  EXPECT_THAT(comparator.verify(),
              FailsWith(absl::StatusCode::kCancelled, "enough"));
  EXPECT_EQ(observer.notes.size(), 2U);
}

TEST(LayerTest, AFusedLayerHasTheRolesOfItsOperators) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 6});
  const ValueId w = b.Const("w", Waves({6, 8}));
  const ValueId bias = b.Const("bias", Waves({8}));
  const ValueId m = b.Op("MatMul", {x, w}, {}, {"m"}, "mix")[0];
  const ValueId a = b.Op("Add", {m, bias}, {}, {"a"}, "sum")[0];
  b.Out({b.Op("Relu", {a}, {}, {"y"}, "relu")[0]});
  const LayerModule mod = MakeLayerModule(b.net, "net").value();
  const GraphIndex index(mod.graph);
  const auto layer =
      DescribeLayer(index, index.FindNode("relu").value(), AllOperators());
  ASSERT_THAT(layer, IsOk());
  EXPECT_EQ(layer->kind, "MatMul+Add+Relu");
  EXPECT_THAT(layer->inputs, ElementsAre("A", "B", "B_2"));
  EXPECT_THAT(layer->outputs, ElementsAre("Y"));
}

// GL-41
TEST(RecursiveLayerComparatorTest, NeedsNoMoreThanAFewLiveSets) {
  constexpr int kLayers = 12;
  constexpr int64_t kElements = 1 << 20;
  constexpr uint64_t kMiB = 1 << 20;
  NetBuilder b;
  ValueId x = b.In("x", {kElements});
  for (int i = 0; i < kLayers; ++i) x = b.Op("Neg", {x})[0];
  b.Out({x});
  LayerModule mod = MakeLayerModule(b.net, "net", /*fuse=*/false).value();
  mod.inputs = {{"x", Waves({kElements})}};
  RecursiveLayerComparator recursive(mod, "Interpreter", "Interpreter", 0);
  ASSERT_THAT(recursive.verify(), IsOk());
  IntermediateLayerComparator intermediate(mod, "Interpreter", "Interpreter",
                                           0);
  ASSERT_THAT(intermediate.verify(), IsOk());
  // What one layer reads and what it makes are alive at once.
  const uint64_t live = 2 * kElements * sizeof(float);
  EXPECT_LT(recursive.cost().peak_bytes, 4 * live + 32 * kMiB);
  EXPECT_LT(recursive.cost().peak_bytes, intermediate.cost().peak_bytes);
  EXPECT_GT(recursive.cost().seconds, intermediate.cost().seconds);
}

// Convolutions of several sizes, judged by bounds. What is measured is all that
// is resident beside the parameters, which are 0.2 MiB.
TEST(RecursiveLayerComparatorTest, BoundsNeedNoMoreThanAFewLiveSetsEither) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr int64_t kSide = 160;
  NetBuilder b;
  ValueId x = b.In("x", {1, 16, kSide, kSide});
  const std::pair<int64_t, int64_t> layers[] = {{16, 3}, {32, 1}, {8, 5}};
  int64_t from = 16;
  for (const auto& [to, kernel] : layers) {
    const std::string name = "w" + std::to_string(kernel);
    const ValueId w = b.Const(name, Waves({to, from, kernel, kernel}));
    const int64_t pad = kernel / 2;
    x = b.Op("Conv", {x, w}, {{"pads", std::vector<int64_t>(4, pad)}})[0];
    x = b.Op("Relu", {x})[0];
    from = to;
  }
  b.Out({x});
  LayerModule mod = MakeLayerModule(b.net, "net").value();
  mod.inputs = {{"x", Waves({1, 16, kSide, kSide})}};
  RecursiveLayerComparator recursive(mod, "Interpreter", "OneDNN", Rule());
  ASSERT_THAT(recursive.verify(), IsOk());
  // 16 channels that one layer reads and 32 that it makes.
  const uint64_t live = 48 * kSide * kSide * sizeof(float);
  EXPECT_LT(recursive.cost().peak_bytes, 4 * live + 32 * kMiB);
}

// A chain of products whose weights are far larger than what they are
// multiplied with, at an address that no compiler would choose.
LayerModule HeavyNet() {
  constexpr int64_t kSide = 2048;
  NetBuilder b;
  ValueId x = b.In("x", {1, kSide});
  for (int i = 0; i < 4; ++i) {
    const ValueId w =
        b.Const("w" + std::to_string(i), Waves({kSide, kSide}, kPositive));
    x = b.Op("MatMul", {x, w})[0];
  }
  b.Out({x});
  LayerModule mod = MakeLayerModule(b.net, "net").value();
  for (NamedTensor& param : mod.params.tensors) {
    param.tensor = CopyAtOffset(param.tensor, 4);
  }
  mod.inputs = {{"x", Waves({1, kSide}, kPositive)}};
  return mod;
}

TEST(RecursiveLayerComparatorTest, ParametersAreReadWhereTheyLie) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory that is freed";
  constexpr uint64_t kMiB = 1 << 20;
  const LayerModule mod = HeavyNet();  // 64 MiB.
  RecursiveLayerComparator recursive(mod, "Interpreter", "OneDNN", Rule());
  const auto match = recursive.verify();
  ASSERT_THAT(match, IsOk());
  EXPECT_TRUE(*match);
  const LayerCost& cost = recursive.cost();
  EXPECT_EQ(cost.live_bytes, 2 * 2048 * sizeof(float));
  EXPECT_LT(cost.peak_bytes, 4 * cost.live_bytes + 32 * kMiB);
}

// Has the reference's functions, which write over their second input.
class ScribblingLibrary : public Library {
 public:
  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound_->Bind(request));
    return PackedFunc::FromBody(
        [function](const PackedArgs& args) -> absl::StatusOr<Value> {
          NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
          NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const read, arg.AsTensor());
          static_cast<float*>(read->data)[0] = 100;
          return function.CallPacked(args);
        });
  }

 private:
  const Ref<Library> sound_ = ReferenceFunctions();
};

// Each run of the candidate has a process of its own.
TEST(RecursiveLayerComparatorTest, NoLayerWritesToTheModulesParameters) {
  LayerModule mod = SplittingNet();
  const NDArray before = mod.params.tensors[0].tensor.CopyToHost().value();
  const auto library = Ref<Library>(MakeRef<ScribblingLibrary>());
  RecursiveLayerComparator recursive(
      mod, "Interpreter", LayerBackend("scribbling", library), kThreshold);
  const auto match = recursive.verify();
  ASSERT_THAT(match, IsOk());
  EXPECT_FALSE(*match);
  EXPECT_TRUE(HaveSameBits(mod.params.tensors[0].tensor, before));
}

}  // namespace
}  // namespace nodewise
