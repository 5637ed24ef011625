#include "contrib/lab/autotest/spoiled_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/networks/case_network.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/precision/node_error.h"
#include "nodewise/random/random.h"
#include "nodewise/runner/interpreter_runner.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// More than any rounding, also in the shortest types.
absl::StatusOr<NDArray> Scaled(const NDArray& value) {
  constexpr float kFactor = 1.25F;
  NODEWISE_ASSIGN_OR_RETURN(NDArray spoiled, value.CopyToHost());
  float* const elements = spoiled.As<float>();
  const size_t count = spoiled.bytes() / sizeof(float);
  for (size_t i = 0; i < count; ++i) elements[i] *= kFactor;
  return spoiled;
}

// Has only numbers that were there before, so that indices stay indices.
absl::StatusOr<NDArray> Reversed(const NDArray& value) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray from, value.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(NDArray spoiled, value.CopyToHost());
  const size_t size = ElementBytes(value.dtype());
  const size_t count = spoiled.bytes() / size;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(spoiled.As<uint8_t>() + i * size,
                from.As<uint8_t>() + (count - 1 - i) * size, size);
  }
  return spoiled;
}

// A factor needs floats, another order none. Several elements in one byte
// cannot be put in another order as bytes.
std::vector<SpoiledResult> SpoilingsOf(const Operation& operation,
                                       const NetworkValue& value) {
  std::vector<SpoiledResult> all;
  if (value.type.dtype == kFloat32) {
    all.push_back(
        {operation.name, value.name, "its result 1.25 times as large", Scaled});
  }
  if (value.type.dtype.bits % 8 == 0) {
    all.push_back({operation.name, value.name,
                   "its result with its elements in reverse order", Reversed});
  }
  return all;
}

std::vector<NDArray> TensorsIn(const std::vector<NamedTensor>& named) {
  std::vector<NDArray> tensors;
  for (const NamedTensor& each : named) tensors.push_back(each.tensor);
  return tensors;
}

// A runtime that makes something wrong in the middle passes it on to all
// behind, so a value is exchanged by a patch: what follows is computed from it,
// and the sink is shown the wrong value in the place of the right one.
class SpoiledRunner : public Runner {
 public:
  SpoiledRunner(std::unique_ptr<Runner> runner, std::unique_ptr<Runner> asked,
                SpoiledResult spoiling)
      : runner_(std::move(runner)),
        asked_(std::move(asked)),
        spoiling_(std::move(spoiling)) {}

  const std::string& name() const override { return runner_->name(); }
  const InputList& inputs() const override { return runner_->inputs(); }
  const std::vector<std::string>& outputs() const override {
    return runner_->outputs();
  }
  bool Can(Capability capability) const override {
    return runner_->Can(capability);
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    std::vector<NamedTensor> given;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      given.push_back({inputs().Key(i), std::move(tensors[i])});
    }
    if (std::ranges::count(options.patches, spoiling_.value,
                           &TensorPatch::entry) > 0) {
      return runner_->Run(given, options);
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray spoiled,
                              SpoiledIn(given, options.patches));
    RunOptions run = options;
    run.patches.push_back({spoiling_.value, spoiled, "", "a planted fault"});
    SpoilingSink sink(spoiling_.value, spoiled, options.sink);
    if (options.sink != nullptr) run.sink = &sink;
    return runner_->Run(given, run);
  }

 private:
  // Hands on everything, and the spoiled value as the runtime would have it.
  class SpoilingSink : public TensorSink {
   public:
    SpoilingSink(const std::string& value, const NDArray& spoiled,
                 TensorSink* next)
        : value_(value), spoiled_(spoiled), next_(next) {}
    absl::Status Take(const TensorItem& item) override {
      if (item.key.node != value_) return next_->Take(item);
      TensorItem shown{item.key};
      shown.tensor = spoiled_.tensor();
      shown.lasting = spoiled_;
      return next_->Take(shown);
    }

   private:
    const std::string& value_;
    const NDArray& spoiled_;
    TensorSink* next_;
  };

  // What the value would be with these inputs and patches, spoiled.
  absl::StatusOr<NDArray> SpoiledIn(const std::vector<NamedTensor>& given,
                                    const std::vector<TensorPatch>& patches) {
    ValueKeeper keeper;
    RunOptions run;
    run.sink = &keeper;
    run.patches = patches;
    run.select = [&](const std::string& node) {
      return node == spoiling_.value;
    };
    NODEWISE_RETURN_IF_ERROR(asked_->Run(given, run).status());
    const auto found = keeper.values().find(spoiling_.value);
    if (found == keeper.values().end()) {
      return absl::UnavailableError(
          fmt::format("{}: has not handed out {}, expected it for a planted "
                      "fault",
                      asked_->name(), spoiling_.value));
    }
    return spoiling_.spoil(found->second);
  }

  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Runner> asked_;
  SpoiledResult spoiling_;
};

// Draws spoilings until one shows in what the reference makes: the runtime
// itself is not asked, since each of its runs may take long.
class SpoilingSearch {
 public:
  SpoilingSearch(const CheckedNetwork& checked, double least_effect,
                 uint64_t seed)
      : checked_(checked),
        least_effect_(least_effect),
        random_(seed, checked.name),
        reference_(
            MakeNetworkRunner("reference", checked.name, checked.network)) {}

  absl::StatusOr<SpoiledResult> Run(const std::set<std::string>& values) {
    ValueKeeper keeper;
    RunOptions run;
    run.sink = &keeper;
    NODEWISE_ASSIGN_OR_RETURN(RunResult sound,
                              reference_->Run(checked_.inputs, run));
    expected_ = TensorsIn(sound.outputs);
    std::vector<SpoiledResult> all = All(values);
    while (!all.empty()) {
      const auto chosen = all.begin() + random_.Between(0, std::ssize(all) - 1);
      const auto known = keeper.values().find(chosen->value);
      if (known != keeper.values().end() && Shows(*chosen, known->second)) {
        return *chosen;
      }
      all.erase(chosen);
    }
    return absl::NotFoundError(fmt::format(
        "{}: no value that the runtime hands out changes an output when it is "
        "spoiled, expected one to plant a fault in",
        checked_.name));
  }

 private:
  // Outputs cannot be exchanged: nothing reads them.
  std::vector<SpoiledResult> All(const std::set<std::string>& values) const {
    const Network& network = *checked_.network;
    const auto outputs = network.outputs();
    std::vector<SpoiledResult> all;
    for (const OperationId id : network.order()) {
      for (const ValueId output : OutputsOf(network.operation(id))) {
        const NetworkValue& value = network.value(output);
        if (std::ranges::count(outputs, output) > 0 ||
            !values.contains(value.name)) {
          continue;
        }
        std::ranges::move(SpoilingsOf(network.operation(id), value),
                          std::back_inserter(all));
      }
    }
    return all;
  }

  bool Shows(const SpoiledResult& spoiling, const NDArray& value) const {
    auto spoiled = spoiling.spoil(value);
    if (!spoiled.ok()) return false;
    RunOptions run;
    run.patches.push_back(
        {spoiling.value, *std::move(spoiled), "", "a planted fault"});
    const auto made = reference_->Run(checked_.inputs, run);
    if (!made.ok()) return false;
    const std::vector<NDArray> found = TensorsIn(made->outputs);
    const double effect = OutputError({&expected_, 1}, {&found, 1});
    return effect > least_effect_ && std::isfinite(effect);
  }

  const CheckedNetwork& checked_;
  double least_effect_;
  RandomSource random_;
  std::unique_ptr<Runner> reference_;
  std::vector<NDArray> expected_;
};

}  // namespace

absl::StatusOr<SpoiledResult> DrawSpoiling(const CheckedNetwork& checked,
                                           const std::set<std::string>& values,
                                           double least_effect, uint64_t seed) {
  return SpoilingSearch(checked, least_effect, seed).Run(values);
}

std::unique_ptr<Runner> MakeSpoiledRunner(std::unique_ptr<Runner> runner,
                                          std::unique_ptr<Runner> asked,
                                          SpoiledResult spoiling) {
  return std::make_unique<SpoiledRunner>(std::move(runner), std::move(asked),
                                         std::move(spoiling));
}

}  // namespace nodewise
