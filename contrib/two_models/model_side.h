#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/followed_reference.h"
#include "nodewise/align/layout.h"
#include "nodewise/ir/network.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {

// Returns whether the operator makes no number that it has not read.
bool OnlyMovesNumbers(std::string_view kind);

// Whether the operator computes with integers that stand for floats.
bool IsOfIntegers(std::string_view kind);

// Returns the constants that the operation reads.
std::vector<NDArray> ConstantsOf(const Network& network,
                                 const Operation& operation);

// The facts about one of two models before it is compared: which values depend
// on inputs, which are one tensor in several forms, and how integers stand for
// floats.
class ModelSide {
 public:
  // REQUIRES: the network outlives this.
  explicit ModelSide(const Network& network);

  const Network& network() const { return network_; }
  // Whether there is a value, and it depends on an input.
  bool Varies(ValueId id) const {
    return id != kNoValue && values_[Index(id)].varies;
  }
  // Whether what the operation makes does.
  bool VariesIn(OperationId id) const;
  // The chain that the value belongs to.
  ValueChain ChainOf(ValueId id) const;
  // The first of the chain; kNoValue for what depends on no input.
  ValueId MadeOf(ValueId id) const { return values_[Index(id)].first; }
  // Whether the value is the first of its chain.
  bool IsMade(ValueId id) const { return MadeOf(id) == id; }
  // The values that are the first of their chains and that operations make, in
  // the order of the network.
  std::vector<ValueId> MadeValues() const;
  // Whether some form of the tensor is coarser than float32: integers that
  // stand for floats, or shorter floats.
  bool IsCoarse(ValueId id) const;
  // Whether operators take integers that stand for floats, such as QLinearConv:
  // then a float is put into integers for its reader alone.
  bool takes_integers() const { return takes_integers_; }
  // Where the operation stands that makes the value; 0 for an input.
  size_t PositionOf(ValueId id) const { return values_[Index(id)].position; }
  // How integers stand for floats, by the operation that reads or makes them
  // with a constant scale; none for all else.
  std::optional<Layout::Quantisation> QuantisationOf(ValueId id) const;

 private:
  struct ValueFacts {
    bool varies = false;
    ValueId first = kNoValue;  // The first value of the chain.
    size_t length = 0;         // How many of the chain are before it.
    size_t position = 0;
    // Kept at the first of the chain: the last one, and whether any is coarse.
    ValueId last = kNoValue;
    bool is_coarse = false;
  };

  std::optional<Layout::Quantisation> FindQuantisation(ValueId id) const;

  const Network& network_;
  std::vector<ValueFacts> values_;  // By value.
  bool takes_integers_ = false;
  mutable std::map<ValueId, std::optional<Layout::Quantisation>> known_;
};

// A model that is being run: the side, and the numbers.
struct RunningModel {
  const ModelSide* side = nullptr;
  FollowedReference values;

  // Returns all sets of the value.
  absl::StatusOr<std::vector<NDArray>> Tensors(ValueId id) {
    auto value = values.ValueOf(id);
    if (!value.ok()) return value.status();
    return (*value)->tensors;
  }
};

// Returns numbers of `pair`, which are the other model's, in the form of the
// first value of this model's chain; `like` is a tensor of that form. Fails as
// UndoLayout().
enum class WhichModel { kReference, kTarget };
absl::StatusOr<std::vector<NDArray>> InFormOf(WhichModel which,
                                              const ValuePair& pair,
                                              const ModelSide& reference,
                                              const ModelSide& target,
                                              absl::Span<const NDArray> read,
                                              absl::Span<const NDArray> like);

// Returns the numbers that a tensor of this value stands for.
std::vector<double> NumbersOfValue(const ModelSide& side, ValueId id,
                                   const NDArray& tensor);

// Returns the root of the sum of squared differences, relative to that of
// `expected`; 1 for a difference from zeros alone.
double RelativeDistance(absl::Span<const double> expected,
                        absl::Span<const double> found);

// Returns which output of the target stands for one of the reference: that of
// its name, or else the one in its place; none if there are fewer.
std::optional<size_t> PartnerOfOutput(const Network& reference,
                                      const Network& target, size_t output);

// Pairs the values of two models that have been given the same inputs. The
// reference is computed from what the target has made: at the end its values
// are pinned to the target's numbers. Fails as reading back tensors does.
absl::StatusOr<ModelPairing> PairModels(RunningModel* reference,
                                        RunningModel* target,
                                        const MatchedInputs& inputs);

// Returns the tensors of which the reference makes numbers that the target's
// integers cannot hold, the ones that lose most first. What a range leaves out
// on purpose, as those of a Relu that a quantiser took into it, the reference
// does not make. Fails as running the reference does.
absl::StatusOr<std::vector<NarrowRange>> FindNarrowRanges(
    const ModelPairing& pairing, const ModelSide& target,
    RunningModel* reference);

// Returns the type that the target's weights were brought to and the
// reference's were not, by the numbers that they hold: "4-bit integers",
// "float16". None if most of the weights that the reference does not have are
// as exact as its own.
std::optional<std::string> ShorterWeights(const Network& reference,
                                          const Network& target);

}  // namespace nodewise
