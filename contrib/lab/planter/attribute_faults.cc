// Faults in what a node is told to compute: its own kernel is bound for a
// region in which an attribute is another one.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

// An attribute with another value, or a constant in the region that plays the
// part of one (axes and pads are inputs since opset 13).
struct OtherValue {
  std::string from, to;  // In words.
  AttrValue value;
};
// Returns the values that an attribute might have had by mistake. `rank` is
// that of the operation's first input, 0 if it is not known.
using OtherValuesOf = std::vector<OtherValue> (*)(std::string_view name,
                                                  const AttrValue& value,
                                                  int rank,
                                                  RandomSource& random);

std::string InWords(const Ints& list) {
  return "[" + absl::StrJoin(list, ", ") + "]";
}

OtherValue OtherList(const Ints& from, Ints to) {
  return {InWords(from), InWords(to), AttrValue(std::move(to))};
}

// --- Kinds ---

// One element of padding stands at the other end, so that sizes stay.
std::vector<OtherValue> OtherPadding(std::string_view name,
                                     const AttrValue& value, int,
                                     RandomSource&) {
  std::vector<OtherValue> others;
  if (const auto* const word = std::get_if<std::string>(&value)) {
    if (name != "auto_pad") return {};
    for (const char* other : {"SAME_UPPER", "SAME_LOWER"}) {
      if (word->starts_with("SAME") && *word != other) {
        others.push_back({*word, other, AttrValue(std::string(other))});
      }
    }
  }
  const auto* const pads = std::get_if<Ints>(&value);
  if (pads == nullptr || name != "pads" || pads->size() % 2 != 0) return others;
  const size_t sides = pads->size() / 2;
  for (size_t i = 0; i < pads->size(); ++i) {
    const size_t other_end = (i + sides) % pads->size();
    if ((*pads)[i] <= 0) continue;
    Ints moved = *pads;
    --moved[i];
    ++moved[other_end];
    others.push_back(OtherList(*pads, std::move(moved)));
  }
  return others;
}

// Another axis, or other sides exchanged.
std::vector<OtherValue> OtherOrder(std::string_view name,
                                   const AttrValue& value, int rank,
                                   RandomSource&) {
  std::vector<OtherValue> others;
  if (const auto* const axis = std::get_if<int64_t>(&value)) {
    if (name != "axis") return {};
    const int64_t now = *axis < 0 ? *axis + rank : *axis;
    for (int64_t other = 0; other < rank; ++other) {
      if (other == now) continue;
      others.push_back({fmt::format("{}", *axis), fmt::format("{}", other),
                        AttrValue(other)});
    }
  }
  const auto* const list = std::get_if<Ints>(&value);
  if (list == nullptr) return others;
  for (size_t i = 0; i < list->size(); ++i) {
    if (name == "axes" || name == "axis") {
      for (int64_t axis = 0; axis < rank; ++axis) {
        Ints other = *list;
        other[i] = axis;
        if (other != *list) others.push_back(OtherList(*list, other));
      }
    }
    for (size_t j = 0; name == "perm" && j < i; ++j) {
      Ints other = *list;
      std::swap(other[i], other[j]);
      others.push_back(OtherList(*list, other));
    }
  }
  return others;
}

// Another number, or the other setting of a switch.
std::vector<OtherValue> OtherNumber(std::string_view, const AttrValue& value,
                                    int, RandomSource& random) {
  if (const auto* const number = std::get_if<float>(&value)) {
    if (*number == 0 || !std::isfinite(*number)) return {};
    // An epsilon must change by a lot to be seen beside a variance.
    const std::vector<float> factors = std::fabs(*number) < 0.01F
                                           ? std::vector<float>{100, 1000}
                                           : std::vector<float>{0.5F, 1.5F, 10};
    const float other = *number * OneOf(factors, random);
    return {{fmt::format("{:.4g}", *number), fmt::format("{:.4g}", other),
             AttrValue(other)}};
  }
  const auto* const flag = std::get_if<int64_t>(&value);
  if (flag == nullptr || (*flag != 0 && *flag != 1)) return {};
  return {{fmt::format("{}", *flag), fmt::format("{}", 1 - *flag),
           AttrValue(1 - *flag)}};
}

// --- What they have in common ---

int RankOfFirst(const Network& network, const Operation& operation) {
  if (operation.inputs.empty() || operation.inputs[0] == kNoValue) return 0;
  const TensorType& type = network.value(operation.inputs[0]).type;
  return type.has_rank() ? type.rank() : 0;
}

// Returns the region with other data of its network, or an error if that is not
// a valid network: types of outputs must stay what they are.
absl::StatusOr<Region> RegionWith(const Region& region, NetworkData data) {
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            Network::FromData(std::move(data)));
  Region changed = region;
  changed.network = std::move(network);
  return changed;
}

class RegionChanger {
 public:
  RegionChanger(const FaultPlace& place, OtherValuesOf others,
                RandomSource& random)
      : region_(*place.region), others_(others), random_(random) {}

  Spoilings Find() {
    for (const OperationId id : SourceOperations(region_)) {
      ChangeAttributes(region_.network.operation(id));
      ChangeConstants(region_.network.operation(id));
    }
    Shuffle(&made_, random_);
    return std::move(made_);
  }

 private:
  void ChangeAttributes(const Operation& operation) {
    const std::vector<NamedAttr> attrs = NamedAttrsOf(operation.attrs);
    const int rank = RankOfFirst(region_.network, operation);
    for (size_t i = 0; i < attrs.size(); ++i) {
      for (OtherValue& other :
           others_(attrs[i].name, attrs[i].value, rank, random_)) {
        std::vector<NamedAttr> changed = attrs;
        changed[i].value = std::move(other.value);
        auto made = MakeAttrs(operation.def(), changed);
        if (!made.ok()) continue;
        NetworkData data = region_.network.data();
        data.operations[Index(operation.id)]->attrs = *std::move(made);
        Take(operation, attrs[i].name, other, std::move(data));
      }
    }
  }

  // Looks at the inputs that are constants of the region itself.
  void ChangeConstants(const Operation& operation) {
    const int rank = RankOfFirst(region_.network, operation);
    const auto& params = operation.def().inputs;
    for (size_t i = 1; i < operation.inputs.size() && i < params.size(); ++i) {
      if (operation.inputs[i] == kNoValue) continue;
      const NetworkValue& value = region_.network.value(operation.inputs[i]);
      if (value.kind != NetworkValue::Kind::kConstant ||
          !(value.data.dtype() == DLDataType{kDLInt, 64, 1})) {
        continue;
      }
      const auto* const first = value.data.As<int64_t>();
      const Ints list(first, first + CountOf(value.data));
      for (OtherValue& other :
           others_(params[i].name, AttrValue(list), rank, random_)) {
        ChangeConstant(operation, value, params[i].name, other);
      }
    }
  }

  void ChangeConstant(const Operation& operation, const NetworkValue& value,
                      std::string_view name, const OtherValue& other) {
    auto tensor =
        NDArray::Empty(value.data.shape(), value.data.dtype(), {kDLCPU, 0});
    if (!tensor.ok()) return;
    const auto& list = std::get<Ints>(other.value);
    std::copy(list.begin(), list.end(), tensor->As<int64_t>());
    NetworkData data = region_.network.data();
    NetworkValue& changed = *data.values[Index(value.id)];
    changed.elements = ElementsOf(*tensor);
    changed.data = *std::move(tensor);
    Take(operation, name, other, std::move(data));
  }

  void Take(const Operation& operation, std::string_view name,
            const OtherValue& other, NetworkData data) {
    const auto changed = RegionWith(region_, std::move(data));
    if (!changed.ok()) return;
    made_.push_back(
        WithRegion(fmt::format("{} of {} is {} instead of {}", name,
                               operation.name, other.to, other.from),
                   *changed));
  }

  const Region& region_;
  const OtherValuesOf others_;
  RandomSource& random_;
  Spoilings made_;
};

absl::StatusOr<Spoilings> OtherRegions(const FaultPlace& place,
                                       OtherValuesOf others, const char* lacks,
                                       RandomSource& random) {
  if (place.region == nullptr) return Lacks(place.why_unknown);
  if (!place.is_bound_by_attributes) {
    return Lacks(
        "its function is compiled: no attribute can be changed any more");
  }
  Spoilings made = RegionChanger(place, others, random).Find();
  if (made.empty()) return Lacks(lacks);
  return made;
}

}  // namespace

absl::StatusOr<Spoilings> WrongOrder(const FaultPlace& place,
                                     RandomSource& random) {
  auto made = OtherRegions(place, &OtherOrder, "it has no axis", random);
  auto transposed = TransposedOutput(place, random);
  if (!made.ok() && !transposed.ok()) {
    return Lacks(fmt::format("{}, and {}", MessageOf(made.status()),
                             MessageOf(transposed.status())));
  }
  Spoilings both;
  if (made.ok()) both = *std::move(made);
  if (transposed.ok()) {
    both.insert(both.end(), transposed->begin(), transposed->end());
  }
  Shuffle(&both, random);
  return both;
}

absl::StatusOr<Spoilings> WrongPadding(const FaultPlace& place,
                                       RandomSource& random) {
  return OtherRegions(place, &OtherPadding, "it has no padding", random);
}

absl::StatusOr<Spoilings> WrongAttribute(const FaultPlace& place,
                                         RandomSource& random) {
  return OtherRegions(place, &OtherNumber,
                      "it has no number or switch among its attributes that "
                      "could be another one",
                      random);
}

}  // namespace nodewise
