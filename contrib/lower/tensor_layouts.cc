#include "contrib/lower/tensor_layouts.h"

#include <algorithm>
#include <utility>

#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

class LayoutChooser {
 public:
  LayoutChooser(const Network& network,
                const std::vector<std::vector<OperationId>>& regions)
      : network_(network),
        region_of_(network.data().operations.size(), kNone),
        tensors_(regions.size()),
        can_(network.data().values.size()),
        gains_(can_.size()) {
    for (size_t r = 0; r < regions.size(); ++r) {
      for (const OperationId id : regions[r]) region_of_[Index(id)] = r;
    }
    for (size_t r = 0; r < regions.size(); ++r) FindTensors(regions[r], r);
    for (const auto& value : network.data().values) {
      if (value.has_value()) can_[Index(value->id)] = IsBetweenRegions(*value);
    }
  }

  // Two sets that only change in one direction, so that both loops end: what
  // can have its channels last shrinks, and then what does grows within it.
  std::vector<bool> Choose(const std::vector<LayoutPreference>& preferences) {
    for (bool changes = true; changes;) {
      changes = false;
      for (size_t r = 0; r < tensors_.size(); ++r) {
        if (!MustBePlain(preferences[r], tensors_[r])) continue;
        for (const ValueId id : tensors_[r]) changes |= Set(id, false, &can_);
      }
    }
    // The tensors of regions that gain, and all that are connected with them.
    const auto gains = [this](ValueId id) { return gains_[Index(id)]; };
    for (bool changes = true; changes;) {
      changes = false;
      for (size_t r = 0; r < tensors_.size(); ++r) {
        if (preferences[r] != LayoutPreference::kChannelsLast &&
            std::ranges::none_of(tensors_[r], gains)) {
          continue;
        }
        for (const ValueId id : tensors_[r]) {
          changes |= can_[Index(id)] && Set(id, true, &gains_);
        }
      }
    }
    return std::move(gains_);
  }

 private:
  // For operations that make nothing, which are in no region.
  static constexpr size_t kNone = ~size_t{0};

  void FindTensors(const std::vector<OperationId>& region, size_t r) {
    for (const OperationId id : region) {
      const Operation& operation = network_.operation(id);
      for (const ValueId input : operation.inputs) {
        if (input == kNoValue) continue;
        const NetworkValue& value = network_.value(input);
        // A value that is made and read within one region never lies anywhere
        // by itself.
        const bool is_inner = value.kind == NetworkValue::Kind::kOutput &&
                              region_of_[Index(value.producer)] == r;
        const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
        if (!is_inner && !is_constant && HasLayouts(value.type)) {
          tensors_[r].push_back(input);
        }
      }
    }
    // Only the last operation makes what can be read outside.
    for (const ValueId output : network_.operation(region.back()).outputs) {
      if (output != kNoValue && HasLayouts(network_.value(output).type)) {
        tensors_[r].push_back(output);
      }
    }
  }

  // Inputs and outputs of the network lie as its user sees them, so they cannot
  // change.
  bool IsBetweenRegions(const NetworkValue& value) const {
    const auto outputs = network_.outputs();
    if (value.kind != NetworkValue::Kind::kOutput || !HasLayouts(value.type) ||
        region_of_[Index(value.producer)] == kNone ||
        std::ranges::find(outputs, value.id) != outputs.end()) {
      return false;
    }
    return std::ranges::all_of(value.uses, [this](const Use& use) {
      return region_of_[Index(use.user)] != kNone;
    });
  }

  // A region that neither gains nor loses takes all of its tensors in one
  // layout.
  bool MustBePlain(LayoutPreference preference,
                   const std::vector<ValueId>& tensors) const {
    if (preference == LayoutPreference::kChannelsLast) return false;
    if (preference == LayoutPreference::kPlain) return true;
    return !std::ranges::all_of(tensors,
                                [this](ValueId id) { return can_[Index(id)]; });
  }

  // Returns whether that is new.
  static bool Set(ValueId id, bool value, std::vector<bool>* list) {
    const bool is_new = (*list)[Index(id)] != value;
    (*list)[Index(id)] = value;
    return is_new;
  }

  const Network& network_;
  std::vector<size_t> region_of_;              // By operation.
  std::vector<std::vector<ValueId>> tensors_;  // By region, with layouts.
  std::vector<bool> can_;                      // By value.
  std::vector<bool> gains_;                    // By value.
};

LayoutPreference PreferenceOf(const Network& network,
                              const std::vector<OperationId>& region,
                              const LayoutPreferenceOf& preference_of) {
  auto all = LayoutPreference::kAny;
  for (const OperationId id : region) {
    const LayoutPreference one = preference_of(network, id);
    // One operation that cannot take them decides for its region, since all of
    // it is one kernel.
    if (one == LayoutPreference::kPlain) return one;
    if (one == LayoutPreference::kChannelsLast) all = one;
  }
  return all;
}

}  // namespace

std::vector<bool> ChooseChannelsLast(
    const Network& network,
    const std::vector<std::vector<OperationId>>& regions,
    const LayoutPreferenceOf& preference_of) {
  std::vector<LayoutPreference> preferences;
  for (const auto& region : regions) {
    preferences.push_back(PreferenceOf(network, region, preference_of));
  }
  return LayoutChooser(network, regions).Choose(preferences);
}

}  // namespace nodewise
