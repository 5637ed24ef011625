
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "contrib/two_models/model_side.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// More elements of a tensor tell no more about whose numbers they are.
constexpr int64_t kMostSampled = 4096;
// Fewer different numbers may be those of many tensors.
constexpr size_t kFewestNumbers = 8;

// How far numbers may be apart that are one tensor, both made of the same
// numbers: by rounding, and where one side has few bits. A variance and what an
// epsilon was added to differ by more than the first.
constexpr double kNear = 2e-5;
constexpr double kNearIfCoarse = 0.25;
// A name says more than numbers that are wrong, and less than numbers that are
// surely another tensor's.
constexpr double kFar = 0.1;
constexpr double kTimesFarther = 4;

int64_t StrideOver(int64_t count) {
  return std::max<int64_t>(1, count / kMostSampled);
}

std::vector<double> Sampled(const std::vector<double>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<double> sampled;
  for (int64_t i = 0; i < count; i += StrideOver(count)) {
    sampled.push_back(numbers[static_cast<size_t>(i)]);
  }
  return sampled;
}

double SizeOf(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number * number;
  return std::sqrt(sum /
                   static_cast<double>(std::max<size_t>(1, numbers.size())));
}

bool HasManyNumbers(const std::vector<double>& numbers) {
  std::vector<double> seen;
  for (const double number : numbers) {
    if (std::ranges::find(seen, number) != seen.end()) continue;
    seen.push_back(number);
    if (seen.size() == kFewestNumbers) return true;
  }
  return false;
}

bool IsOneNumber(const std::vector<double>& numbers) {
  return std::ranges::all_of(
      numbers, [&](double number) { return number == numbers[0]; });
}

bool RepresentsFloats(const ModelSide& side, ValueId id) {
  return IsFloat(side.network().value(id).type.dtype) ||
         side.QuantisationOf(id).has_value();
}

// A tensor of the target that may go with one of the reference.
struct Candidate {
  ValueId made = kNoValue;
  std::vector<int64_t> shape;
  std::vector<double> sampled;
  bool is_used = false;
};

// Goes through the reference in its order, so that what a value is made of has
// its partner before it. A partner is known by its name, by its numbers, by
// these in another order, by what reads the same, or by what it is made of:
// whichever comes first. Each kind of evidence has its limit, since a wrong
// pair spoils all that is behind it.
class Pairer {
 public:
  Pairer(RunningModel* reference, RunningModel* target,
         const MatchedInputs& inputs)
      : reference_(*reference), target_(*target), inputs_(inputs) {}

  absl::StatusOr<ModelPairing> Run() {
    ListCandidates();
    NODEWISE_RETURN_IF_ERROR(TakeInputs());
    ForceOutputs();
    for (const ValueId made : from_.MadeValues()) {
      NODEWISE_RETURN_IF_ERROR(Consider(made));
    }
    ListAlone();
    return std::move(pairing_);
  }

 private:
  using PairsByValue = std::unordered_map<ValueId, size_t>;

  struct Choice {
    size_t candidate = 0;
    ValuePair::Way way = ValuePair::Way::kName;
    Layout layout;
  };

  // The free candidate that is nearest by its numbers in their order, and how
  // near the next one is.
  struct Nearest {
    std::optional<size_t> candidate;
    double distance = kInfinity;
    double next = kInfinity;
  };

  // A value of the reference that a partner is looked for.
  struct Wanted {
    ValueId id = kNoValue;
    NDArray tensor;               // In the first set of inputs.
    std::vector<double> numbers;  // The numbers that it stands for.
    std::vector<double> sampled;
    Nearest nearest = {};
  };

  absl::StatusOr<std::vector<double>> NumbersOfMade(RunningModel* model,
                                                    ValueId id) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, model->Tensors(id));
    return NumbersOfValue(*model->side, id, tensors[0]);
  }

  // A value that the target cannot compute is left out.
  void ListCandidates() {
    const auto inputs = to_.network().inputs();
    std::vector<ValueId> values(inputs.begin(), inputs.end());
    for (const ValueId made : to_.MadeValues()) values.push_back(made);
    for (const ValueId id : values) {
      const auto tensors = target_.Tensors(id);
      if (!tensors.ok()) continue;
      const NDArray& first = (*tensors)[0];
      by_value_[id] = candidates_.size();
      by_count_[CountOf(first)].push_back(candidates_.size());
      candidates_.push_back({id,
                             {first.shape().begin(), first.shape().end()},
                             Sampled(NumbersOfValue(to_, id, first))});
    }
  }

  absl::Status TakeInputs() {
    const Network& reference = from_.network();
    const Network& target = to_.network();
    for (size_t i = 0; i < reference.inputs().size(); ++i) {
      const auto found = CandidateOf(target.inputs()[inputs_.places[i]]);
      if (!found.has_value()) continue;
      NODEWISE_RETURN_IF_ERROR(
          SetChoice(reference.inputs()[i],
                    {*found, ValuePair::Way::kInput, inputs_.layouts[i]}));
    }
    return absl::OkStatus();
  }

  // Outputs go together even if their numbers differ: it is for their
  // difference that the models are compared.
  void ForceOutputs() {
    const Network& reference = from_.network();
    const Network& target = to_.network();
    for (size_t i = 0; i < reference.outputs().size(); ++i) {
      const std::optional<size_t> place = PartnerOfOutput(reference, target, i);
      if (!place.has_value()) continue;
      const ValueId output = reference.outputs()[i];
      const ValueId partner = target.outputs()[*place];
      if (!from_.Varies(output) || !to_.Varies(partner)) continue;
      forced_[from_.MadeOf(output)] = to_.MadeOf(partner);
    }
  }

  std::optional<size_t> CandidateOf(ValueId made) const {
    const auto found = by_value_.find(made);
    if (found == by_value_.end()) return std::nullopt;
    return found->second;
  }

  // The target's chain that has a value of this name.
  std::optional<size_t> FindByValueName(ValueId id) const {
    const Network& target = to_.network();
    const std::string& name = from_.network().value(id).name;
    if (!target.HasValue(name)) return std::nullopt;
    const ValueId named = *target.FindValue(name);
    if (!to_.Varies(named)) return std::nullopt;
    return CandidateOf(to_.MadeOf(named));
  }

  // The pairs that a value is made of, as far as they are known, by number.
  std::vector<size_t> SourcesOf(const ModelSide& side, ValueId id,
                                const PairsByValue& pairs) const {
    const Network& network = side.network();
    std::vector<ValueId> waiting = {id};
    std::vector<bool> seen(network.data().values.size());
    std::vector<size_t> sources;
    while (!waiting.empty()) {
      const NetworkValue& value = network.value(waiting.back());
      waiting.pop_back();
      if (value.kind != NetworkValue::Kind::kOutput) continue;
      for (const ValueId input : network.operation(value.producer).inputs) {
        if (!side.Varies(input) || seen[Index(input)]) continue;
        seen[Index(input)] = true;
        const auto pair = pairs.find(side.MadeOf(input));
        if (pair == pairs.end()) {
          waiting.push_back(input);
        } else {
          sources.push_back(pair->second);
        }
      }
    }
    std::ranges::sort(sources);
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    return sources;
  }

  // Inputs of the target are made of nothing, so that none of them is too
  // early.
  bool IsTooEarly(ValueId made, size_t earliest) const {
    return to_.network().value(made).kind != NetworkValue::Kind::kInput &&
           to_.PositionOf(made) <= earliest;
  }

  bool MayHold(size_t candidate, const Wanted& wanted) const {
    return !candidates_[candidate].is_used &&
           candidates_[candidate].sampled.size() == wanted.sampled.size();
  }

  double DistanceTo(size_t candidate,
                    const std::vector<double>& sampled) const {
    const std::vector<double>& found = candidates_[candidate].sampled;
    if (found.size() != sampled.size()) return kInfinity;
    return RelativeDistance(sampled, found);
  }

  double Limit(ValueId id, size_t candidate) const {
    const bool is_coarse =
        from_.IsCoarse(id) || to_.IsCoarse(candidates_[candidate].made);
    return is_coarse ? kNearIfCoarse : kNear;
  }

  // Returns the candidates with as many elements that may still go with the
  // value.
  std::vector<size_t> FreeCandidates(const Wanted& wanted) const {
    const auto found = by_count_.find(CountOf(wanted.tensor));
    if (found == by_count_.end()) return {};
    // Numbers of the target come later than those that they are made of.
    // A partner before that would be made of less than the value is.
    size_t earliest = 0;
    for (const size_t pair : SourcesOf(from_, wanted.id, pair_of_)) {
      earliest =
          std::max(earliest, to_.PositionOf(pairing_.pairs[pair].target.made));
    }
    std::vector<size_t> free = found->second;
    std::erase_if(free, [&](size_t i) {
      const Candidate& candidate = candidates_[i];
      return candidate.is_used || IsTooEarly(candidate.made, earliest) ||
             !RepresentsFloats(to_, candidate.made);
    });
    return free;
  }

  Nearest NearestTo(const Wanted& wanted) const {
    Nearest nearest;
    for (const size_t i : FreeCandidates(wanted)) {
      const double distance = DistanceTo(i, wanted.sampled);
      if (distance < nearest.distance) {
        nearest = {i, distance, nearest.distance};
      } else {
        nearest.next = std::min(nearest.next, distance);
      }
    }
    return nearest;
  }

  // Returns whether the candidate holds the numbers of an operation behind the
  // value, and not the value's own: it is less than half as far from them. Then
  // the target computes both in one, such as a product and its activation.
  bool IsNextOperationNearer(ValueId id, size_t candidate, double distance) {
    constexpr double kRounding = 1e-3;
    constexpr size_t kMostSteps = 4;
    if (distance < kRounding) return false;
    const Network& network = from_.network();
    std::vector<ValueId> waiting = {id};
    for (size_t i = 0; i < waiting.size() && i < kMostSteps; ++i) {
      for (const Use& use : network.value(waiting[i]).uses) {
        if (use.slot == kBarrierSlot) continue;
        for (const ValueId output : network.operation(use.user).outputs) {
          if (output == kNoValue) continue;
          const auto numbers = NumbersOfMade(&reference_, output);
          if (!numbers.ok()) continue;
          if (DistanceTo(candidate, Sampled(*numbers)) < distance / 2) {
            return true;
          }
          waiting.push_back(output);
        }
      }
    }
    return false;
  }

  // Numbers in another order: the other model has its channels last, say.
  std::optional<Choice> InOtherOrder(const Wanted& wanted) {
    const double expected_size = SizeOf(wanted.sampled);
    for (const size_t i : FreeCandidates(wanted)) {
      const Candidate& candidate = candidates_[i];
      // Another order changes no sum of squares.
      const double size = SizeOf(candidate.sampled);
      if (std::fabs(size - expected_size) > kNearIfCoarse * expected_size) {
        continue;
      }
      const auto found = NumbersOfMade(&target_, candidate.made);
      if (!found.ok()) continue;
      const auto layout =
          LayoutBetween(wanted.tensor.shape(), candidate.shape, wanted.numbers,
                        *found, Limit(wanted.id, i));
      if (layout.has_value()) {
        return Choice{i, ValuePair::Way::kNumbers, *layout};
      }
    }
    return std::nullopt;
  }

  static std::optional<Layout> LayoutBetween(
      absl::Span<const int64_t> source, absl::Span<const int64_t> compiled,
      const std::vector<double>& expected, const std::vector<double>& found,
      double limit) {
    std::optional<Layout> nearest;
    double distance = limit;
    VisitLayouts(source, compiled, [&](const Layout& layout) {
      if (layout.is_same_order() || !layout.paddings.empty() ||
          layout.count() != static_cast<int64_t>(found.size())) {
        return true;
      }
      std::vector<double> a;
      std::vector<double> b;
      const int64_t stride = StrideOver(layout.count());
      for (int64_t i = 0; i < layout.count(); i += stride) {
        const int64_t place = PlaceOf(layout, i);
        if (place == kPaddingPlace) return true;
        a.push_back(expected[static_cast<size_t>(place)]);
        b.push_back(found[static_cast<size_t>(i)]);
      }
      const double one = RelativeDistance(a, b);
      if (one < distance) {
        distance = one;
        nearest = layout;
      }
      return true;
    });
    return nearest;
  }

  absl::Status Consider(ValueId id) {
    const auto tensors = reference_.Tensors(id);
    // The target's numbers may not be legal inputs of an operation of the
    // reference: then there is nothing to compare.
    if (!tensors.ok()) return absl::OkStatus();
    const auto forced = forced_.find(id);
    if (forced != forced_.end()) {
      const auto found = CandidateOf(forced->second);
      if (!found.has_value()) return absl::OkStatus();
      return TakeForced(id, (*tensors)[0], *found);
    }
    if (!RepresentsFloats(from_, id)) return absl::OkStatus();
    Wanted wanted{
        id, (*tensors)[0], NumbersOfValue(from_, id, (*tensors)[0]), {}};
    wanted.sampled = Sampled(wanted.numbers);
    wanted.nearest = NearestTo(wanted);
    std::optional<size_t> found = ByName(wanted);
    const auto way =
        found.has_value() ? ValuePair::Way::kName : ValuePair::Way::kNumbers;
    if (!found.has_value()) found = ByNumbers(wanted);
    if (!found.has_value()) {
      const auto moved = InOtherOrder(wanted);
      if (moved.has_value()) return SetChoice(id, *moved);
      found = ByPlace(wanted);
    }
    if (!found.has_value()) found = BySources(wanted);
    if (!found.has_value()) return absl::OkStatus();
    return SetChoice(id, {*found, way,
                          Layout::SameOrder(wanted.tensor.shape(),
                                            candidates_[*found].shape)});
  }

  // A name is believed unless its numbers are another tensor's.
  std::optional<size_t> ByName(const Wanted& wanted) {
    const std::optional<size_t> named = FindByValueName(wanted.id);
    if (!named.has_value() || !MayHold(*named, wanted)) return std::nullopt;
    const double distance = DistanceTo(*named, wanted.sampled);
    // A wrong layer of the same kind keeps its name. Another kind shows that
    // the name has moved.
    const bool is_another =
        (distance > kFar &&
         (wanted.nearest.distance < kNear ||
          !AreMadeAlike(wanted.id, candidates_[*named].made))) ||
        IsNextOperationNearer(wanted.id, *named, distance);
    return is_another ? std::nullopt : named;
  }

  // Exporters number their values, so that a name may have moved to another
  // operation.
  bool AreMadeAlike(ValueId id, ValueId made) const {
    const auto kind = [](const Network& network, ValueId made) {
      const NetworkValue& value = network.value(made);
      const bool is_made = value.kind == NetworkValue::Kind::kOutput;
      return is_made ? network.operation(value.producer).kind()
                     : std::string_view();
    };
    const std::string_view one = kind(from_.network(), id);
    const std::string_view other = kind(to_.network(), made);
    return one.empty() || other.empty() || one == other;
  }

  std::optional<size_t> ByNumbers(const Wanted& wanted) {
    const Nearest& nearest = wanted.nearest;
    if (!nearest.candidate.has_value()) return std::nullopt;
    // A few numbers are those of many tensors, unless one alone has them.
    if (!HasManyNumbers(wanted.sampled) &&
        (IsOneNumber(wanted.sampled) || nearest.distance > kNear ||
         nearest.next < kFar)) {
      return std::nullopt;
    }
    double limit = Limit(wanted.id, *nearest.candidate);
    // Tensors that nothing is known of but their numbers may be wrong ones, if
    // they are like no other's.
    const bool is_alone = nearest.next > kTimesFarther * nearest.distance;
    if (is_alone && to_.network().order().empty()) limit = kFar;
    if (nearest.distance >= limit ||
        IsNextOperationNearer(wanted.id, *nearest.candidate,
                              nearest.distance)) {
      return std::nullopt;
    }
    return nearest.candidate;
  }

  // Finds a result that the target makes of the partners of what is read here:
  // so a wrong layer has a partner, too, under any name.
  std::optional<size_t> ByPlace(const Wanted& wanted) {
    const NetworkValue& value = from_.network().value(wanted.id);
    const Operation& maker = from_.network().operation(value.producer);
    const auto partners = PartnersOfInputs(maker);
    if (partners.empty()) return std::nullopt;
    // An operation of the same kind comes before others that read the same
    // values, and then the one whose constants are nearest.
    std::optional<size_t> found;
    std::pair<bool, double> best{true, kInfinity};
    bool is_tied = false;
    for (const OperationId reader : ReadersOf(partners[0])) {
      const Operation& user = to_.network().operation(reader);
      if (ReadBy(user) != partners || value.slot >= user.outputs.size() ||
          !MayBeIntended(maker, user)) {
        continue;
      }
      const auto candidate = CandidateOf(user.outputs[value.slot]);
      if (!candidate.has_value() || !MayHold(*candidate, wanted)) continue;
      const std::pair<bool, double> rank{user.kind() != maker.kind(),
                                         ConstantsDistance(maker, user)};
      is_tied = found.has_value() && rank == best;
      if (found.has_value() && rank >= best) continue;
      best = rank;
      found = candidate;
    }
    if (!found.has_value() || is_tied ||
        IsNextOperationNearer(wanted.id, *found,
                              DistanceTo(*found, wanted.sampled))) {
      return std::nullopt;
    }
    return found;
  }

  // An operation may stand in the place of one of another kind by mistake, if
  // nothing says what else it should be.
  bool MayBeIntended(const Operation& maker, const Operation& user) const {
    if (maker.kind() == user.kind()) return true;
    return !OnlyMovesNumbers(maker.kind()) && !OnlyMovesNumbers(user.kind()) &&
           ConstantsOf(from_.network(), maker).empty() &&
           ConstantsOf(to_.network(), user).empty();
  }

  // Finds a value that is made of the partners of the same tensors and has the
  // numbers of no other: a wrong layer that other operations compute.
  std::optional<size_t> BySources(const Wanted& wanted) {
    const Nearest& nearest = wanted.nearest;
    if (!nearest.candidate.has_value() || !HasManyNumbers(wanted.sampled) ||
        nearest.distance > kNearIfCoarse ||
        nearest.next < 2 * nearest.distance) {
      return std::nullopt;
    }
    const ValueId made = candidates_[*nearest.candidate].made;
    if (SourcesOf(from_, wanted.id, pair_of_) !=
            SourcesOf(to_, made, pair_of_target_) ||
        IsNextOperationNearer(wanted.id, *nearest.candidate,
                              nearest.distance)) {
      return std::nullopt;
    }
    return nearest.candidate;
  }

  // The operations that read some form of a tensor of the target, each once.
  std::vector<OperationId> ReadersOf(ValueId made) const {
    const Network& network = to_.network();
    std::vector<ValueId> forms = {made};
    std::vector<OperationId> readers;
    for (size_t i = 0; i < forms.size(); ++i) {
      for (const Use& use : network.value(forms[i]).uses) {
        if (use.slot == kBarrierSlot) continue;
        for (const ValueId output : network.operation(use.user).outputs) {
          if (output != kNoValue && to_.MadeOf(output) == made) {
            forms.push_back(output);
          }
        }
        if (std::ranges::find(readers, use.user) == readers.end()) {
          readers.push_back(use.user);
        }
      }
    }
    return readers;
  }

  // How far constants are apart that both operations read; infinite if they do
  // not go together.
  double ConstantsDistance(const Operation& one, const Operation& other) const {
    const std::vector<NDArray> of_one = ConstantsOf(from_.network(), one);
    const std::vector<NDArray> of_other = ConstantsOf(to_.network(), other);
    if (of_one.size() != of_other.size()) return kInfinity;
    double distance = 0;
    for (size_t i = 0; i < of_one.size(); ++i) {
      if (CountOf(of_one[i]) != CountOf(of_other[i])) return kInfinity;
      distance +=
          RelativeDistance(ToDoubles(of_one[i]), ToDoubles(of_other[i]));
    }
    return distance;
  }

  // The first values of the target's chains that stand for what an operation of
  // the reference reads; empty if one has no partner.
  std::vector<ValueId> PartnersOfInputs(const Operation& operation) const {
    std::vector<ValueId> partners;
    for (const ValueId input : operation.inputs) {
      if (!from_.Varies(input)) continue;
      const auto pair = pair_of_.find(from_.MadeOf(input));
      if (pair == pair_of_.end()) return {};
      partners.push_back(pairing_.pairs[pair->second].target.made);
    }
    return partners;
  }

  std::vector<ValueId> ReadBy(const Operation& operation) const {
    std::vector<ValueId> read;
    for (const ValueId input : operation.inputs) {
      if (to_.Varies(input)) read.push_back(to_.MadeOf(input));
    }
    return read;
  }

  // An output need not have the numbers of its partner, but has its layout if
  // any is near.
  absl::Status TakeForced(ValueId id, const NDArray& expected,
                          size_t candidate) {
    const Candidate& found = candidates_[candidate];
    const size_t count = static_cast<size_t>(CountOf(expected));
    const auto tensors = target_.Tensors(found.made);
    if (!tensors.ok() || static_cast<size_t>(CountOf((*tensors)[0])) != count) {
      return absl::OkStatus();
    }
    Layout layout = Layout::SameOrder(expected.shape(), found.shape);
    if (SidesBeyondOne(expected.shape()) != SidesBeyondOne(found.shape)) {
      const auto moved = LayoutBetween(
          expected.shape(), found.shape, NumbersOfValue(from_, id, expected),
          NumbersOfValue(to_, found.made, (*tensors)[0]), kNearIfCoarse);
      if (moved.has_value()) layout = *moved;
    }
    return SetChoice(id, {candidate, ValuePair::Way::kOutput, layout});
  }

  // From here on the reference goes on with the target's numbers, so that what
  // was wrong before does not matter for what comes behind.
  absl::Status SetChoice(ValueId id, const Choice& choice) {
    Candidate& candidate = candidates_[choice.candidate];
    ValuePair pair{from_.ChainOf(id), to_.ChainOf(candidate.made),
                   choice.layout, choice.way};
    NODEWISE_ASSIGN_OR_RETURN(const auto made, reference_.Tensors(id));
    NODEWISE_ASSIGN_OR_RETURN(const auto expected,
                              reference_.Tensors(pair.reference.read));
    NODEWISE_ASSIGN_OR_RETURN(const auto read,
                              target_.Tensors(pair.target.read));
    auto taken = InFormOf(WhichModel::kReference, pair, from_, to_, read, made);
    // Sizes that depend on numbers may differ between sets: no pair then.
    if (!taken.ok()) return absl::OkStatus();
    if (choice.way != ValuePair::Way::kInput) {
      for (size_t set = 0; set < made.size(); ++set) {
        pair.own_error = std::max(
            pair.own_error,
            RelativeDistance(
                NumbersOfValue(from_, pair.reference.read, expected[set]),
                NumbersOfValue(from_, id, (*taken)[set])));
      }
    }
    candidate.is_used = true;
    reference_.values.Pin(id, *std::move(taken));
    pair_of_[id] = pairing_.pairs.size();
    pair_of_target_[candidate.made] = pairing_.pairs.size();
    pairing_.pairs.push_back(std::move(pair));
    return absl::OkStatus();
  }

  void ListAlone() {
    for (const ValueId made : from_.MadeValues()) {
      if (pair_of_.count(made) == 0 && RepresentsFloats(from_, made)) {
        pairing_.reference_alone.push_back(made);
      }
    }
    for (const Candidate& candidate : candidates_) {
      // A scale that is worked out from a tensor has none to go with.
      if (!candidate.is_used && candidate.sampled.size() > 1 &&
          RepresentsFloats(to_, candidate.made)) {
        pairing_.target_alone.push_back(candidate.made);
      }
    }
  }

  RunningModel& reference_;
  RunningModel& target_;
  const ModelSide& from_ = *reference_.side;
  const ModelSide& to_ = *target_.side;
  const MatchedInputs& inputs_;
  std::vector<Candidate> candidates_;
  std::unordered_map<ValueId, size_t> by_value_;  // By the first of the chain.
  std::unordered_map<int64_t, std::vector<size_t>> by_count_;
  std::unordered_map<ValueId, ValueId> forced_;
  PairsByValue pair_of_;         // By the first of the reference's chain.
  PairsByValue pair_of_target_;  // And of the target's.
  ModelPairing pairing_;
};

}  // namespace

std::optional<size_t> PartnerOfOutput(const Network& reference,
                                      const Network& target, size_t output) {
  const std::string& name = reference.value(reference.outputs()[output]).name;
  for (size_t i = 0; i < target.outputs().size(); ++i) {
    if (target.value(target.outputs()[i]).name == name) return i;
  }
  if (output < target.outputs().size()) return output;
  return std::nullopt;
}

absl::StatusOr<ModelPairing> PairModels(RunningModel* reference,
                                        RunningModel* target,
                                        const MatchedInputs& inputs) {
  return Pairer(reference, target, inputs).Run();
}

}  // namespace nodewise
