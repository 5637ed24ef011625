#include "contrib/emit_c/operation_code.h"

#include <unordered_map>

#include "nodewise/op/shape_rules.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// Scratch memory begins at addresses that suit any processor's vectors.
constexpr int64_t kAlignment = 64;

// The size of a type of C, by its name: all but float and double end in their
// bits, as in "uint16_t".
int64_t BytesOf(std::string_view type) {
  if (type == "double" || type.find("64") != std::string_view::npos) return 8;
  if (type.find("16") != std::string_view::npos) return 2;
  return type.find('8') != std::string_view::npos ? 1 : 4;
}

template <typename ItemText>
std::string WriteTable(RegionStore* store, std::string_view type, size_t count,
                       ItemText item) {
  const std::string name = fmt::format("table{}", store->num_tables++);
  std::string line = fmt::format("static const {} {}[] = {{", type, name);
  // There are no empty tables in C.
  if (count == 0) line += "0";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) line += i % 8 == 0 ? ",\n      " : ", ";
    line += item(i);
  }
  store->definitions.push_back({name, line + "};"});
  return name;
}

}  // namespace

// All memory of a region is one block, from which its tensors are cut off one
// behind the other. None is given back, so no two of them overlap, which
// "restrict" promises to the C compiler.
std::string RegionStore::Scratch(std::string_view type, int64_t count) {
  const std::string name = fmt::format("tmp{}", num_scratch++);
  definitions.push_back(
      {name, fmt::format("{}* restrict {} = ({}*)(scratch + {});", type, name,
                         type, IntegerText(scratch_bytes))});
  int64_t bytes = 0;
  const bool is_too_much =
      __builtin_mul_overflow(count, BytesOf(type), &bytes) || bytes < 0 ||
      bytes >= kTooMuch - scratch_bytes - kAlignment;
  scratch_bytes = is_too_much ? kTooMuch
                              : scratch_bytes + (bytes + kAlignment - 1) /
                                                    kAlignment * kAlignment;
  return name;
}

CTensor RegionStore::ScratchTensor(DLDataType dtype, const Sizes& sizes) {
  return {Scratch(CTypeOf(dtype), CountIn(sizes)), dtype, sizes};
}

std::string RegionStore::Table(absl::Span<const int64_t> numbers) {
  return WriteTable(this, "int64_t", numbers.size(),
                    [&](size_t i) { return IntegerText(numbers[i]); });
}

// Numbers of tables are written with all their digits, as those in expressions
// are.
std::string RegionStore::Table(absl::Span<const double> numbers) {
  return WriteTable(this, "double", numbers.size(),
                    [&](size_t i) { return DoubleText(numbers[i]); });
}

std::string RegionStore::Table(const NDArray& tensor) {
  const auto count = static_cast<size_t>(CountIn(tensor.shape()));
  return WriteTable(this, CTypeOf(tensor.dtype()), count, [&](size_t i) {
    // Weights are most of a file: numbers that C converts by itself need no
    // cast.
    std::string text = ElementText(tensor, static_cast<int64_t>(i));
    constexpr std::string_view kCast = "(float)";
    if (text.starts_with(kCast)) text.erase(0, kCast.size());
    return text;
  });
}

// All that is known of values counts, and not constants alone: an input need
// not be a constant to be known, as that of a Shape is.
std::optional<Sizes> OperationCode::Ints(size_t i) const {
  if (!has(i)) return std::nullopt;
  const std::vector<InputInfo> infos = network.InputsOf(operation.id);
  return Inputs(infos).Ints(i);
}

const NDArray* OperationCode::Constant(size_t i) const {
  if (!has(i)) return nullptr;
  const NetworkValue& value = network.value(operation.inputs[i]);
  return value.kind == NetworkValue::Kind::kConstant ? &value.data : nullptr;
}

absl::StatusOr<size_t> SideAt(int64_t axis, const Sizes& sizes) {
  NODEWISE_ASSIGN_OR_RETURN(const int side,
                            Axis(axis, static_cast<int>(sizes.size())));
  return static_cast<size_t>(side);
}

absl::StatusOr<std::vector<bool>> SidesAt(absl::Span<const int64_t> axes,
                                          const Sizes& sizes) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(axes, static_cast<int>(sizes.size())));
  std::vector<bool> is_among(sizes.size());
  for (const int side : sides) is_among[static_cast<size_t>(side)] = true;
  return is_among;
}

void CopyCode(CodeWriter* code, const Sizes& sizes, const std::string& from,
              const View& from_view, const std::string& to,
              const View& to_view) {
  const LoopNest nest(sizes, {from_view, to_view});
  if (nest.is_empty()) return;
  if (nest.is_one_row()) {
    code->Line("memcpy({0} + {1}, {2} + {3}, {4} * sizeof(*{0}));", to,
               to_view.offset, from, from_view.offset,
               IntegerText(CountIn(sizes)));
    return;
  }
  nest.Each(code, "{}[{}] = {}[{}];", to, nest.At(1), from, nest.At(0));
}

void WriteIndex(CodeWriter* code, std::string_view operation,
                const std::string& variable, const std::string& element,
                int64_t size) {
  code->Line("const int64_t {} = nw_index({}, {});", variable, element, size);
  code->Line("if ({} < 0) return nw_fail(\"{}: an index is out of range\");",
             variable, operation);
}

const Row* FindRow(const void* type) {
  // It is never destroyed, so that the order does not matter in which static
  // objects go at the end of a process.
  static const auto* const by_type = [] {
    auto* const rows = new std::unordered_map<const void*, const Row*>();
    for (const auto family :
         {ElementRows(), ProductRows(), WindowRows(), ReductionRows(),
          NormRows(), MoveRows(), PickRows(), FillRows(), ResizeRows(),
          SignalRows(), QuantizedRows(), RecurrentRows(), BodyRows()}) {
      for (const Row& row : family) {
        for (const void* const version : row.types) {
          if (version != nullptr) rows->emplace(version, &row);
        }
      }
    }
    return rows;
  }();
  const auto found = by_type->find(type);
  return found == by_type->end() ? nullptr : found->second;
}

}  // namespace nodewise::emit_c
