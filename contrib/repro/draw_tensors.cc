#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "contrib/repro/drawn_tensor.h"
#include "contrib/repro/node_trial.h"
#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The least that can be replaced by itself: a tensor that the node reads, or
// all that hold the same numbers beside a model. The units are what halving
// goes over.
struct DrawnUnit {
  // Those of the node are numbered first, then the earlier ones.
  std::vector<size_t> inputs;
  std::optional<uint64_t> hash = {};  // Hashes the numbers that they share.
};

ReproInput& InputAt(ReproCase* node_case, size_t index) {
  const size_t own = node_case->inputs.size();
  return index < own ? node_case->inputs[index]
                     : node_case->earlier_inputs[index - own];
}

// A drawn tensor may come out as it was, if it has too few numbers to choose
// from.
bool AreSameBytes(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool HasSpecials(const NDArray& tensor) {
  const TensorStats stats = StatsOf(*tensor);
  return stats.zeros + stats.nans + stats.infinities > 0;
}

std::string NotDrawnReason(const NDArray& tensor) {
  if (tensor.bytes() == 0) return "it has no elements";
  const TensorStats stats = StatsOf(*tensor);
  if (stats.has_numbers && stats.nans == 0 && stats.min == stats.max) {
    return fmt::format("each of its elements is {:.9g}", stats.min);
  }
  return "its few numbers can only be drawn as they are";
}

bool HoldsNumbers(const std::optional<NetworkValue>& value, uint64_t hash) {
  if (!value || value->kind != NetworkValue::Kind::kConstant) return false;
  const auto own = HashOfNumbers(value->data);
  return own.ok() && *own == hash;
}

// The network's constants with these numbers get others. A network with other
// data is made anew, which checks it.
absl::StatusOr<Network> WithOtherConstants(const Network& network,
                                           uint64_t hash,
                                           std::vector<uint64_t>* drawn) {
  NetworkData data = network.data();
  for (auto& value : data.values) {
    if (!HoldsNumbers(value, hash)) continue;
    NODEWISE_ASSIGN_OR_RETURN(value->data, WithOtherNumbers(value->data));
    value->elements = ElementsOf(value->data);
    drawn->push_back(HashBytes(value->data.data(), value->data.bytes()));
  }
  return Network::FromData(std::move(data));
}

// Replaces as many tensors as possible: all at once first, and halves of them
// as long as the failure is another one then.
struct TensorDrawer {
  const std::function<absl::StatusOr<bool>(const ReproCase&)>& accuses;
  ReproCase& node_case;
  const SameFailure same;
  const uint64_t most_runs;
  uint64_t runs = 0;

  absl::Status Run() {
    node_case.anonymity.emplace();
    const std::vector<DrawnUnit> units = Units();
    if (const std::string why = NotTriedReason(); !why.empty()) {
      SetReason(units, why);
    } else {
      NODEWISE_RETURN_IF_ERROR(Draw(units));
    }
    node_case.anonymity->runs = runs;
    return absl::OkStatus();
  }

  // Beside a model, only what both sides read may change, or both must get the
  // same numbers: else something else would be wrong than before.
  std::vector<DrawnUnit> Units() {
    std::vector<DrawnUnit> units;
    std::map<uint64_t, size_t> by_hash;
    const size_t count =
        node_case.inputs.size() + node_case.earlier_inputs.size();
    for (size_t i = 0; i < count; ++i) {
      const NDArray& tensor = InputAt(&node_case, i).tensor;
      if (!node_case.beside || IsReadByModel(i)) {
        units.push_back({{i}});
        continue;
      }
      const auto hash = HashOfNumbers(tensor);
      if (!hash.ok() || !HasConstant(*hash)) {
        InputAt(&node_case, i).why_not_drawn =
            "the model has it in another form, or not at all, so that both "
            "cannot be replaced alike";
        continue;
      }
      const auto [found, is_new] = by_hash.emplace(*hash, units.size());
      if (is_new) units.push_back({{}, *hash});
      units[found->second].inputs.push_back(i);
    }
    return units;
  }

  bool IsReadByModel(size_t input) const {
    const Network& network = node_case.region->network;
    return !network.value(network.inputs()[input]).uses.empty();
  }

  bool HasConstant(uint64_t hash) const {
    return std::ranges::any_of(
        node_case.region->network.data().values,
        [hash](const auto& value) { return HoldsNumbers(value, hash); });
  }

  // Drawing only makes sense where runs can tell whether the failure is still
  // there. A failure that comes and goes cannot be told that way, so the case
  // as it is runs once more.
  std::string NotTriedReason() {
    if (!same.can_be_tried() && accuses == nullptr) {
      return "runs of the node do not show the failure, so that none says "
             "whether it is still there";
    }
    // A node that is right has just been found to be so.
    const bool fails = node_case.failure || node_case.FindWrong() != nullptr;
    if (!fails && accuses == nullptr) return "";
    if (most_runs < 3) {
      return "too few runs of the node are allowed to try others";
    }
    ReproCase again = node_case;
    if (!IsSame(&again)) {
      return "the failure does not show in every run, so that none says "
             "whether it is still there";
    }
    return "";
  }

  // A case that cannot be run does not show the same.
  bool IsSame(ReproCase* tried) {
    ++runs;
    // Also where that decides nothing, the outputs must be those of the drawn
    // numbers: the given ones could be told from others.
    const bool is_same = same.can_be_tried() ? same.IsIn(tried).value_or(false)
                                             : same.Judge(tried).ok();
    if (!is_same) return false;
    return accuses == nullptr || accuses(*tried).value_or(false);
  }

  // All units are tried together, first with their zeros anywhere and then with
  // the zeros where they were. If neither shows the failure, each half is tried
  // on its own, with the other as it stands by then.
  absl::Status Draw(absl::Span<const DrawnUnit> units) {
    if (units.empty()) return absl::OkStatus();
    for (const SpecialPlaces places :
         {SpecialPlaces::kDrawn, SpecialPlaces::kKept}) {
      if (runs >= most_runs) {
        SetReason(units, "no more runs were left to try others");
        return absl::OkStatus();
      }
      NODEWISE_ASSIGN_OR_RETURN(const bool is_same, Try(units, places));
      if (is_same) return absl::OkStatus();
    }
    if (units.size() == 1) {
      // An input that already has a reason cannot be drawn at all.
      if (InputAt(&node_case, units[0].inputs[0]).why_not_drawn.empty()) {
        SetReason(units, "with drawn numbers it does not show the same");
      }
      return absl::OkStatus();
    }
    const size_t half = units.size() / 2;
    NODEWISE_RETURN_IF_ERROR(Draw(units.subspan(0, half)));
    return Draw(units.subspan(half));
  }

  absl::StatusOr<bool> Try(absl::Span<const DrawnUnit> units,
                           SpecialPlaces places) {
    ReproCase tried = node_case;
    bool is_other = false;
    for (const DrawnUnit& unit : units) {
      const absl::Status status = unit.hash
                                      ? DrawAlike(unit, &tried)
                                      : DrawOne(unit.inputs[0], places, &tried);
      if (absl::IsUnimplemented(status)) {
        for (const size_t input : unit.inputs) {
          const std::string why(MessageOf(status));
          InputAt(&node_case, input).why_not_drawn = why;
          InputAt(&tried, input).why_not_drawn = why;
        }
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(status);
      is_other = true;
    }
    if (!is_other || !IsSame(&tried)) return false;
    node_case = std::move(tried);
    return true;
  }

  absl::Status DrawOne(size_t index, SpecialPlaces places, ReproCase* tried) {
    ReproInput& input = InputAt(tried, index);
    // The seed depends on all of the numbers: with one that is known, the
    // quantiles could be computed back, which are all numbers of a small
    // tensor.
    RandomSource source(HashBytes(input.tensor.data(), input.tensor.bytes()),
                        fmt::format("{}:{}", input.name, index));
    NODEWISE_ASSIGN_OR_RETURN(NDArray drawn,
                              DrawnLike(input.tensor, places, source));
    if (places == SpecialPlaces::kKept && HasSpecials(input.tensor)) {
      input.why_places = "its zeros, NaN and infinities lie where they did";
    }
    SetDrawn(std::move(drawn), &input);
    return absl::OkStatus();
  }

  absl::Status DrawAlike(const DrawnUnit& unit, ReproCase* tried) {
    for (const size_t index : unit.inputs) {
      ReproInput& input = InputAt(tried, index);
      NODEWISE_ASSIGN_OR_RETURN(NDArray drawn, WithOtherNumbers(input.tensor));
      input.why_places =
          "its zeros, NaN and infinities lie where they did, and what was "
          "equal still is";
      SetDrawn(std::move(drawn), &input);
    }
    std::vector<uint64_t>* const drawn = &tried->anonymity->drawn_constants;
    NODEWISE_ASSIGN_OR_RETURN(
        tried->region->network,
        WithOtherConstants(tried->region->network, *unit.hash, drawn));
    NODEWISE_ASSIGN_OR_RETURN(
        tried->beside->model,
        WithOtherConstants(tried->beside->model, *unit.hash, drawn));
    return absl::OkStatus();
  }

  static void SetDrawn(NDArray drawn, ReproInput* input) {
    input->is_drawn = !AreSameBytes(drawn, input->tensor);
    if (!input->is_drawn) input->why_not_drawn = NotDrawnReason(input->tensor);
    input->tensor = std::move(drawn);
  }

  void SetReason(absl::Span<const DrawnUnit> units, const std::string& why) {
    for (const DrawnUnit& unit : units) {
      for (const size_t input : unit.inputs) {
        InputAt(&node_case, input).why_not_drawn = why;
      }
    }
  }
};

}  // namespace

absl::Status DrawTensors(const DrawOptions& options, const OpSet& operators,
                         ReproCase* node_case) {
  TensorDrawer drawer{options.accuses, *node_case,
                      SameFailure(*node_case, operators),
                      RunBudget(options.bounds, *node_case)};
  return drawer.Run();
}

}  // namespace nodewise
