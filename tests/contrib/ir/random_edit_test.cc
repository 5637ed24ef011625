// Random edits, legal and not: after each, the network is valid, and refused
// edits have changed nothing.

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <sstream>

#include "nodewise/ir/network.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/random_cases.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using test_ops::AttrsOf;
using test_ops::Ops;
using test_ops::TextOf;

constexpr int kEdits = 30;

// A network, and random edits of it, legal or not.
class Editor {
 public:
  explicit Editor(uint64_t seed) : random_(seed) {
    Draw();
    Network body("body");
    const ValueId p =
        body.AddInput("p", TensorType(kFloat32, {Dim::Named("n")})).value();
    EXPECT_THAT(body.SetOutputs({p}), IsOk());
    body_ = ShareNetwork(std::move(body));
  }

  Network& net() { return net_; }

  // Returns the status of the edit.
  absl::Status EditOnce() {
    const int kind = Below(20);
    if (kind < 3) return net_.AddInput(Name("in"), Type()).status();
    if (kind < 5) return net_.AddConstant(Name("c"), Data()).status();
    if (kind < 11) return net_.AddOperation(Operation()).status();
    switch (kind) {
      case 11:
        return net_.SetOutputs(Values(Below(4)));
      case 12:
        return Below(2) == 0 ? net_.Rename(Value(), Name("v"))
                             : net_.Rename(AnyOperation(), Name("o"));
      case 13:
      case 14:
        return net_.ReplaceInput(AnyOperation(),
                                 static_cast<uint32_t>(Below(4)), Value());
      case 15: {
        const size_t count = static_cast<size_t>(Below(3));
        return net_.ReplaceUses(Values(count), Values(count));
      }
      case 16:
        return net_.RunAfter(AnyOperation(), AnyOperation());
      case 17:
        return Below(2) == 0 ? net_.SetInputType(Value(), Type())
                             : net_.BindDim("n", Below(4) - 1);
      case 18:
        return Below(2) == 0 ? net_.Freeze(Value(), Data())
                             : net_.RemoveInput(Value());
      default:
        if (Below(8) > 0) return net_.Remove(AnyOperation());
        net_.RemoveUnused();
        return absl::OkStatus();
    }
  }

  int Below(int limit) {
    return static_cast<int>(Draw() % static_cast<uint64_t>(limit));
  }

 private:
  uint64_t Draw() { return random_(); }

  // Sometimes one that does not exist, or one of the wrong kind.
  ValueId Value() {
    const int count = static_cast<int>(net_.data().values.size());
    if (Below(20) == 0) return Below(2) == 0 ? kNoValue : ValueId{999'999};
    return ValueId{static_cast<uint32_t>(Below(count + 1))};
  }
  ValueId Tensor() {
    for (int i = 0; i < 8; ++i) {
      const ValueId id = Value();
      if (net_.Has(id) && net_.value(id).kind != NetworkValue::Kind::kBarrier) {
        return id;
      }
    }
    return Value();
  }
  std::vector<ValueId> Values(size_t count) {
    std::vector<ValueId> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(Tensor());
    return ids;
  }
  OperationId AnyOperation() {
    const int count = static_cast<int>(net_.data().operations.size());
    if (Below(20) == 0) return kNoOperation;
    return OperationId{static_cast<uint32_t>(Below(count + 1))};
  }
  std::string Name(const char* start) {
    return start + std::to_string(Below(30));
  }
  TensorType Type() {
    TensorType type(Below(6) == 0 ? kInt64 : kFloat32);
    if (Below(8) == 0) return type;
    Shape shape;
    for (int i = Below(3); i > 0; --i) {
      const int side = Below(5);
      shape.push_back(side == 0   ? Dim::Named("n")
                      : side == 1 ? Dim()
                                  : Dim(side == 4 ? 1 : 2));
    }
    type.shape = shape;
    return type;
  }
  NDArray Data() {
    if (Below(20) == 0) return NDArray();
    if (Below(3) == 0) return MakeTensor<int64_t>({2}, {1, Below(3) - 1});
    return Floats(std::vector<float>(static_cast<size_t>(1 + Below(2))));
  }
  NewOperation Operation() {
    NewOperation operation;
    switch (Below(9)) {
      case 0:
      case 1:
        operation.attrs = AttrsOf<test_ops::Relu>();
        break;
      case 2:
      case 3:
        operation.attrs = AttrsOf<test_ops::Add>();
        break;
      case 4:
        operation.attrs = AttrsOf(test_ops::Softmax{.axis = Below(5) - 2});
        break;
      case 5:
        operation.attrs = AttrsOf<test_ops::Split>();
        break;
      case 6:
        operation.attrs = AttrsOf<test_ops::ShapeOf>();
        break;
      case 7:
        operation.attrs = AttrsOf<test_ops::Reshape>();
        break;
      default:
        operation.attrs = AttrsOf(test_ops::If{
            .then_branch = {body_, static_cast<uint32_t>(Below(2))},
            .else_branch = {body_, 1}});
    }
    const bool takes_two = operation.attrs.def().min_inputs() > 1;
    operation.inputs =
        Values(static_cast<size_t>((takes_two ? 2 : 1) + Below(8) / 7));
    if (Below(3) == 0) operation.name = Name("o");
    if (Below(3) == 0) operation.outputs = {Name("v")};
    if (Below(6) == 0) operation.outputs = {Name("v"), Name("v"), ""};
    if (Below(5) == 0) operation.before = AnyOperation();
    if (Below(5) == 0) operation.after = {Value()};
    return operation;
  }

  std::mt19937_64 random_;
  Network net_{"random"};
  SharedNetwork body_;
};

struct Counts {
  int done = 0;
  int refused = 0;
};

void CheckOneEdit(Editor* editor, Counts* counts) {
  Network& net = editor->net();
  const std::string before = TextOf(net);
  const uint64_t version = net.version();
  const absl::Status status = editor->EditOnce();
  const auto findings = Verify(net.data());
  EXPECT_THAT(ToStatus(findings), IsOk())
      << before << "\nbecame\n"
      << TextOf(net) << "\nby an edit that said " << status;
  if (status.ok()) {
    ++counts->done;
    EXPECT_GE(net.version(), version);
    return;
  }
  ++counts->refused;
  EXPECT_EQ(TextOf(net), before) << status;
  EXPECT_EQ(net.version(), version);
}

// Checks what else must hold for the resulting network.
void CheckResult(Editor* editor) {
  Network& net = editor->net();
  const std::string text = TextOf(net);
  EXPECT_EQ(net.InferAgain().value_or(1), 0u) << text;
  const auto again = ParseNetworkText(text, Ops(), "random");
  ASSERT_THAT(again, IsOk()) << text;
  EXPECT_EQ(NetworkToText(*again), text);
  EXPECT_THAT(Network::FromData(*again), IsOk());
  for (const ValueId output : net.outputs()) {
    const auto part = ExtractNetwork(net, {}, {output});
    ASSERT_THAT(part, IsOk()) << text;
    EXPECT_THAT(ToStatus(Verify(part->data())), IsOk());
  }
}

// OV-12, OV-18, OV-22, OV-34.
TEST(RandomEditTest, NetworkIsValidOrTheEditRefused) {
  const int sequences = NumCases(300, 10'000);
  const uint64_t seed = FirstSeed();
  Counts counts;
  for (int i = 0; i < sequences && !HasFailure(); ++i) {
    Editor editor(seed + static_cast<uint64_t>(i));
    for (int k = 0; k < kEdits && !HasFailure(); ++k) {
      CheckOneEdit(&editor, &counts);
    }
    if (!HasFailure()) CheckResult(&editor);
    if (HasFailure()) {
      ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                    << " nodewise_tests "
                       "--gtest_filter=RandomEditTest.*";
    }
  }
  std::cout << sequences << " sequences from NODEWISE_SEED=" << seed << ": "
            << counts.done << " edits done, " << counts.refused << " refused\n";
  // Neither kind may be missing.
  EXPECT_GT(counts.done, sequences);
  EXPECT_GT(counts.refused, sequences);
}

}  // namespace
}  // namespace nodewise
