// Random calls that cannot be right: unknown, removed and foreign numbers,
// attributes of nothing, networks that were moved away, pointers that their
// makers kept. Each sequence runs in a process of its own and must end by
// itself, or in a checked abort with its message; nothing else.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>

#include "nodewise/ir/network.h"
#include "nodewise/ir/pass.h"
#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/random_cases.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using test_ops::AttrsOf;
using test_ops::Ops;

constexpr int kCalls = 20;
// How a child ends that has found a fault by itself.
constexpr int kInvalidNetwork = 3;

// Two networks, one of which may have been moved away, and calls on both.
class Caller {
 public:
  explicit Caller(uint64_t seed) : random_(seed) {
    for (Network* net : {&net_, &other_}) Fill(net);
  }

  void CallOnce() {
    Network& net = Below(3) == 0 ? other_ : net_;
    if (Below(2) == 0) {
      Read(net);
    } else {
      Edit(&net);
    }
    if (!ToStatus(Verify(net.data())).ok()) _exit(kInvalidNetwork);
  }

 private:
  int Below(int limit) {
    return static_cast<int>(random_() % static_cast<uint64_t>(limit));
  }

  void Fill(Network* net) {
    const ValueId x =
        net->AddInput("x", TensorType(kFloat32, {Dim::Named("n"), 2})).value();
    const ValueId a = net->Add(Ops(), test_ops::Relu{}, {x}, "a").value();
    const ValueId gone = net->Add(Ops(), test_ops::Relu{}, {a}, "gone").value();
    const ValueId b = net->Add(Ops(), test_ops::Add{}, {a, x}, "b").value();
    (void)net->Remove(net->value(gone).producer);
    (void)net->SetOutputs({b});
    kept_ = MakeTensor<int64_t>({2}, {1, 2});
    (void)net->AddConstant("kept", kept_);
  }

  // Mostly numbers that do not exist, or are not what is wanted.
  uint32_t Number() {
    switch (Below(4)) {
      case 0:
        return UINT32_MAX - static_cast<uint32_t>(Below(2));
      case 1:
        return static_cast<uint32_t>(random_());
      default:
        return static_cast<uint32_t>(Below(12));
    }
  }
  ValueId Value() { return ValueId{Number()}; }
  OperationId AnyOperation() { return OperationId{Number()}; }
  OpAttrs Attrs() {
    switch (Below(4)) {
      case 0:
        return OpAttrs();
      case 1:
        return OpAttrs::From(nullptr, test_ops::Relu{});
      case 2:
        return OpAttrs::From(Ops().FindType(&kTypeTag<test_ops::Add>),
                             test_ops::Relu{});
      default:
        return AttrsOf<test_ops::If>();  // Without bodies.
    }
  }

  // Called seldom: readers that check end the sequence.
  void ReadOrAbort(const Network& net) {
    switch (Below(7)) {
      case 0:
        return Use(net.value(Value()).uses.size());
      case 1:
        return Use(net.operation(AnyOperation()).inputs.size());
      case 2:
        return Use(net.InputsOf(AnyOperation()).size());
      case 3:
        return Use(Attrs().def().since);
      case 4:
        return Use(NamedAttrsOf(Attrs()).size());
      case 5:
        return Use(net.SupportBy(Target(), AnyOperation()).can);
      default:
        return Use(SharedNetwork()->order().size());
    }
  }

  void Read(const Network& net) {
    if (Below(8) == 0) return ReadOrAbort(net);
    switch (Below(6)) {
      case 0:
        return Use(net.FindValue(Value()).ok());
      case 1:
        return Use(net.FindOperation(AnyOperation()).ok());
      case 2:
        return Use(net.FindInputsOf(AnyOperation()).ok());
      case 3:
        return Use(ExtractNetwork(net, {Value()}, {Value()}).ok());
      case 4:
        return Use(net.FindValue("none").ok());
      default:
        return Use(net.Has(Value()) || net.Has(AnyOperation()));
    }
  }

  void Edit(Network* net) {
    switch (Below(16)) {
      case 0:
        return Use(net->AddOperation({.attrs = Attrs(),
                                      .inputs = {Value(), Value()},
                                      .before = AnyOperation()})
                       .ok());
      case 1:
        return Use(net->AddOperation({.attrs = AttrsOf<test_ops::Relu>(),
                                      .inputs = {Value()},
                                      .after = {Value()}})
                       .ok());
      case 2:
        return Use(net->SetOutputs({Value(), Value()}).ok());
      case 3:
        return Use(net->Rename(Value(), "x").ok());
      case 4:
        return Use(net->Rename(AnyOperation(), "").ok());
      case 5:
        return Use(net->ReplaceInput(AnyOperation(), Number(), Value()).ok());
      case 6:
        return Use(net->ReplaceUses({Value()}, {Value()}).ok());
      case 7:
        return Use(net->RunAfter(AnyOperation(), AnyOperation()).ok());
      case 8:
        return Use(net->SetInputType(Value(), TensorType(kInt64, {-1})).ok());
      case 9:
        return Use(net->Freeze(Value(), NDArray()).ok());
      case 10:
        return Use(net->Remove(AnyOperation()).ok() ||
                   net->RemoveInput(Value()).ok());
      case 11:
        return Use(net->SetOpset("", static_cast<int>(Number())).ok());
      case 12:
        return Use(net->AddConstant("c", NDArray()).ok());
      case 13:
        kept_.As<int64_t>()[0] += 1;
        return;
      case 14:
        return MoveAway(net);
      default:
        return Use(net->BindDim("n", Below(5) - 2).ok());
    }
  }

  void MoveAway(Network* net) {
    const SideTable<int> table(*net, "plan", 1);
    const Network moved = std::move(*net);
    if (table.Get().ok()) _exit(kInvalidNetwork);
  }

  // So that no call is removed as having no use.
  template <typename T>
  void Use(T value) {
    used_ = used_ + static_cast<uint64_t>(value);
  }

  std::mt19937_64 random_;
  Network net_{"net"};
  Network other_{"other"};
  NDArray kept_;
  volatile uint64_t used_ = 0;
};

struct End {
  int status = 0;
  std::string text;  // What it wrote to stderr.
};

End EndOfSequence(uint64_t seed) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    Caller caller(seed);
    for (int i = 0; i < kCalls; ++i) caller.CallOnce();
    _exit(0);
  }
  close(ends[1]);
  End end;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof(part))) > 0;) {
    end.text.append(part, static_cast<size_t>(n));
  }
  close(ends[0]);
  EXPECT_EQ(waitpid(child, &end.status, 0), child);
  return end;
}

// OV-17 to OV-20.
TEST(IllegalCallsTest, EndInAStatusOrACheckedAbort) {
  const int sequences = NumCases(300, 10'000);
  const uint64_t seed = FirstSeed();
  int ended = 0;
  int aborted = 0;
  for (int i = 0; i < sequences && !HasFailure(); ++i) {
    const End end = EndOfSequence(seed + static_cast<uint64_t>(i));
    if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) {
      ++ended;
    } else if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT &&
               end.text.find(": check failed: ") != std::string::npos) {
      ++aborted;
    } else {
      ADD_FAILURE() << "status " << end.status << ": " << end.text
                    << "\nrepeat with NODEWISE_SEED=" << seed + i
                    << " nodewise_tests --gtest_filter=IllegalCallsTest.*";
    }
  }
  std::cout << sequences << " sequences from NODEWISE_SEED=" << seed << ": "
            << ended << " ended, " << aborted << " aborted\n";
  EXPECT_GT(ended, 0);
  EXPECT_GT(aborted, 0);
}

}  // namespace
}  // namespace nodewise
