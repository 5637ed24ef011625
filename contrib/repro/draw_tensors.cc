#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "contrib/repro/drawn_tensor.h"
#include "contrib/repro/same_failure.h"
#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// What can be replaced by itself: a tensor that the node reads, or all that
// hold the same numbers beside a model.
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

bool AreSameBytes(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool HasSpecials(const NDArray& tensor) {
  const TensorStats stats = StatsOf(*tensor);
  return stats.zeros + stats.nans + stats.infinities > 0;
}

std::string WhySame(const NDArray& tensor) {
  if (tensor.bytes() == 0) return "it has no elements";
  const TensorStats stats = StatsOf(*tensor);
  if (stats.has_numbers && stats.nans == 0 && stats.min == stats.max) {
    return fmt::format("each of its elements is {:.9g}", stats.min);
  }
  return "its few numbers can only be drawn as they are";
}

// The network's constants with these numbers get others. A network with other
// data is made anew, which checks it.
absl::StatusOr<Network> WithOtherConstants(const Network& network,
                                           uint64_t hash,
                                           std::vector<uint64_t>* drawn) {
  NetworkData data = network.data();
  for (auto& value : data.values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    const auto own = HashOfNumbers(value->data);
    if (!own.ok() || *own != hash) continue;
    NODEWISE_ASSIGN_OR_RETURN(value->data, WithOtherNumbers(value->data));
    value->elements = ElementsOf(value->data);
    drawn->push_back(HashBytes(value->data.data(), value->data.bytes()));
  }
  return Network::FromData(std::move(data));
}

class TensorDrawer {
 public:
  TensorDrawer(const DrawOptions& options, const OpSet& operators,
               ReproCase* node_case)
      : accuses_(options.accuses),
        case_(*node_case),
        same_(*node_case, operators),
        most_runs_(std::min(AffordedRuns(options.bounds, *node_case),
                            AffordedHangs(options.bounds, *node_case))) {}

  absl::Status Run() {
    case_.anonymity.emplace();
    const std::vector<DrawnUnit> units = Units();
    if (const std::string why = WhyNotTried(); !why.empty()) {
      SetReason(units, why);
    } else {
      NODEWISE_RETURN_IF_ERROR(Draw(units));
    }
    case_.anonymity->runs = runs_;
    return absl::OkStatus();
  }

 private:
  // Beside a model, only what both sides read may change, or both must get the
  // same numbers: else something else would be wrong than before.
  std::vector<DrawnUnit> Units() {
    std::vector<DrawnUnit> units;
    std::map<uint64_t, size_t> by_hash;
    const size_t count = case_.inputs.size() + case_.earlier_inputs.size();
    for (size_t i = 0; i < count; ++i) {
      const NDArray& tensor = InputAt(&case_, i).tensor;
      if (!case_.beside.has_value() || IsReadByModel(i)) {
        units.push_back({{i}});
        continue;
      }
      const auto hash = HashOfNumbers(tensor);
      if (!hash.ok() || !HasConstant(*hash)) {
        InputAt(&case_, i).why_not_drawn =
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
    const Network& network = case_.region->network;
    return !network.value(network.inputs()[input]).uses.empty();
  }

  bool HasConstant(uint64_t hash) const {
    for (const auto& value : case_.region->network.data().values) {
      if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
        continue;
      }
      const auto own = HashOfNumbers(value->data);
      if (own.ok() && *own == hash) return true;
    }
    return false;
  }

  std::string WhyNotTried() {
    if (!same_.can_be_tried() && accuses_ == nullptr) {
      return "runs of the node do not show the failure, so that none says "
             "whether it is still there";
    }
    // A node that is right has just been found to be so.
    const bool fails =
        case_.failure.has_value() || case_.FindWrong() != nullptr;
    if (!fails && accuses_ == nullptr) return "";
    if (most_runs_ < 3)
      return "too few runs of the node are allowed to try others";
    ReproCase again = case_;
    if (!IsSame(&again)) {
      return "the failure does not show in every run, so that none says "
             "whether it is still there";
    }
    return "";
  }

  // A case that cannot be run does not show the same.
  bool IsSame(ReproCase* tried) {
    ++runs_;
    // Also where that decides nothing, the outputs must be those of the drawn
    // numbers: the given ones could be told from others.
    const bool is_same = same_.can_be_tried()
                             ? same_.IsIn(tried).value_or(false)
                             : same_.Judge(tried).ok();
    if (!is_same) return false;
    return accuses_ == nullptr || accuses_(*tried).value_or(false);
  }

  absl::Status Draw(absl::Span<const DrawnUnit> units) {
    if (units.empty()) return absl::OkStatus();
    for (const SpecialPlaces places :
         {SpecialPlaces::kDrawn, SpecialPlaces::kKept}) {
      if (runs_ >= most_runs_) {
        SetReason(units, "no more runs were left to try others");
        return absl::OkStatus();
      }
      NODEWISE_ASSIGN_OR_RETURN(const bool is_same, Try(units, places));
      if (is_same) return absl::OkStatus();
    }
    if (units.size() == 1) {
      // An input that already has a reason cannot be drawn at all.
      if (InputAt(&case_, units[0].inputs[0]).why_not_drawn.empty()) {
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
    ReproCase tried = case_;
    bool is_other = false;
    for (const DrawnUnit& unit : units) {
      const absl::Status status = unit.hash.has_value()
                                      ? DrawAlike(unit, &tried)
                                      : DrawOne(unit.inputs[0], places, &tried);
      if (absl::IsUnimplemented(status)) {
        for (const size_t input : unit.inputs) {
          const std::string why(MessageOf(status));
          InputAt(&case_, input).why_not_drawn = why;
          InputAt(&tried, input).why_not_drawn = why;
        }
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(status);
      is_other = true;
    }
    if (!is_other || !IsSame(&tried)) return false;
    case_ = std::move(tried);
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
    if (!input->is_drawn) input->why_not_drawn = WhySame(input->tensor);
    input->tensor = std::move(drawn);
  }

  void SetReason(absl::Span<const DrawnUnit> units, const std::string& why) {
    for (const DrawnUnit& unit : units) {
      for (const size_t input : unit.inputs) {
        InputAt(&case_, input).why_not_drawn = why;
      }
    }
  }

  const std::function<absl::StatusOr<bool>(const ReproCase&)>& accuses_;
  ReproCase& case_;
  const SameFailure same_;
  const uint64_t most_runs_;
  uint64_t runs_ = 0;
};

}  // namespace

absl::Status DrawTensors(const DrawOptions& options, const OpSet& operators,
                         ReproCase* node_case) {
  return TensorDrawer(options, operators, node_case).Run();
}

}  // namespace nodewise
