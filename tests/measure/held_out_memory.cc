// Faults in where elements are read and written. They keep the node's own
// kernel, which may be of any kind.

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"
#include "tests/measure/held_out_kinds.h"

namespace nodewise {
namespace {

bool HasElements(const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  return IsFloat(dtype) || IsInteger(dtype) || IsBool(dtype);
}

Spoiling Wrapped(size_t input, int bits) {
  return SpoilBeforeCall(
      fmt::format("an index into input {} has {} bits", input, bits),
      [input, bits](NodeCall* call) -> absl::Status {
        NODEWISE_ASSIGN_OR_RETURN(NDArray copy,
                                  call->inputs[input].CopyToHost());
        const size_t element = ElementBytes(copy.dtype());
        const size_t period = element << bits;
        auto* const bytes = copy.As<char>();
        for (size_t at = period; at < copy.bytes(); at += element) {
          std::memcpy(bytes + at, bytes + at % period, element);
        }
        call->inputs[input] = std::move(copy);
        return absl::OkStatus();
      });
}

// What a kernel makes whose output 0 lies where an input does: the elements
// from `begin` on are computed when those before them have been stored.
absl::Status RunOverInput(const PackedFunc& sound, size_t input, int64_t begin,
                          const NodeCall& call) {
  NODEWISE_RETURN_IF_ERROR(CallNode(sound, call));
  NodeCall late = call;
  NODEWISE_ASSIGN_OR_RETURN(const NDArray overwritten,
                            call.inputs[input].CopyToHost());
  const NDArray& result = call.outputs[0];
  const size_t stored =
      static_cast<size_t>(begin) * ElementBytes(result.dtype());
  std::memcpy(overwritten.data(), result.data(), stored);
  // A node may read one tensor as two inputs.
  for (NDArray& read : late.inputs) {
    if (read.data() == call.inputs[input].data()) read = overwritten;
  }
  for (NDArray& made : late.outputs) {
    NODEWISE_ASSIGN_OR_RETURN(
        made, NDArray::Empty(made.shape(), made.dtype(), {kDLCPU, 0}));
  }
  NODEWISE_RETURN_IF_ERROR(CallNode(sound, late));
  std::memcpy(result.As<char>() + stored, late.outputs[0].As<char>() + stored,
              result.bytes() - stored);
  return absl::OkStatus();
}

Spoiling InMemoryOf(size_t input, int64_t begin) {
  Spoiling made;
  made.what = fmt::format(
      "the first {} elements of output 0 have overwritten input {} when the "
      "others are computed",
      begin, input);
  made.bind = [input, begin](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    // One of the calls reads a copy: nothing that is known about changes of
    // the input says anything about that.
    KernelRequest blind = request;
    blind.changes = {};
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound.Bind(blind));
    return NodeFunction(
        request.num_outputs,
        [function = std::move(function), input, begin](const NodeCall& call) {
          return RunOverInput(function, input, begin, call);
        });
  };
  return made;
}

}  // namespace

absl::StatusOr<Spoilings> WrappedIndex(const FaultPlace& place,
                                       RandomSource& random) {
  Spoilings made;
  for (size_t i = 0; i < place.sound.inputs.size(); ++i) {
    const NDArray& input = place.sound.inputs[i];
    if (!HasElements(input)) continue;
    for (const int bits : {5, 6, 8, 16}) {
      if (CountOf(input) > int64_t{1} << bits) made.push_back(Wrapped(i, bits));
    }
  }
  if (made.empty()) return NotPlantable("it reads no more than 32 elements");
  Shuffle(&made, random);
  return made;
}

absl::StatusOr<Spoilings> OverwrittenInput(const FaultPlace& place,
                                           RandomSource& random) {
  const NDArray& result = place.sound.outputs[0];
  const int64_t count = CountOf(result);
  Spoilings made;
  for (size_t i = 0; i < place.sound.inputs.size() && count > 1; ++i) {
    const NDArray& input = place.sound.inputs[i];
    // Integers may be indices: other ones could lead anywhere.
    if (place.is_constant[i] || !IsFloat(input.dtype()) ||
        !(input.dtype() == result.dtype()) || CountOf(input) < count) {
      continue;
    }
    for (const int64_t quarters : {1, 2, 3}) {
      made.push_back(InMemoryOf(i, std::max<int64_t>(1, count * quarters / 4)));
    }
  }
  if (made.empty()) {
    return NotPlantable(
        "its result has room in no tensor of floats that it reads");
  }
  Shuffle(&made, random);
  return made;
}

}  // namespace nodewise
