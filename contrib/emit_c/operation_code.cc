#include "contrib/emit_c/operation_code.h"

#include "fmt/format.h"

namespace nodewise::emit_c {
namespace {

// Scratch memory begins at addresses that suit any processor's vectors.
constexpr int64_t kAlignment = 64;

int64_t BytesOf(std::string_view type) {
  if (type == "double" || type.find("64") != std::string_view::npos) return 8;
  if (type.find("16") != std::string_view::npos) return 2;
  return type.find('8') != std::string_view::npos ? 1 : 4;
}

}  // namespace

absl::Status Refuse(const std::string& why) {
  return absl::UnimplementedError(why);
}

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

namespace {

template <typename ItemText>
std::string WriteTable(RegionStore* store, std::string_view type, int64_t count,
                       ItemText item) {
  const std::string name = fmt::format("table{}", store->num_tables++);
  std::string line = fmt::format("static const {} {}[] = {{", type, name);
  // There are no empty tables in C.
  if (count == 0) line += "0";
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) line += i % 8 == 0 ? ",\n      " : ", ";
    line += item(i);
  }
  store->definitions.push_back({name, line + "};"});
  return name;
}

}  // namespace

std::string RegionStore::Table(absl::Span<const int64_t> numbers) {
  return WriteTable(
      this, "int64_t", static_cast<int64_t>(numbers.size()),
      [&](int64_t i) { return IntegerText(numbers[static_cast<size_t>(i)]); });
}

std::string RegionStore::Table(absl::Span<const double> numbers) {
  return WriteTable(
      this, "double", static_cast<int64_t>(numbers.size()),
      [&](int64_t i) { return DoubleText(numbers[static_cast<size_t>(i)]); });
}

std::string RegionStore::Table(const NDArray& tensor) {
  return WriteTable(this, CTypeOf(tensor.dtype()), CountIn(tensor.shape()),
                    [&](int64_t i) {
                      // Weights are most of a file: what C converts by itself
                      // needs no cast.
                      std::string text = ElementText(tensor, i);
                      constexpr std::string_view kCast = "(float)";
                      if (text.starts_with(kCast)) text.erase(0, kCast.size());
                      return text;
                    });
}

bool OperationCode::has(size_t i) const {
  return i < operation_.inputs.size() && operation_.inputs[i] != kNoValue;
}

bool OperationCode::wants(size_t i) const {
  return i < operation_.outputs.size() && operation_.outputs[i] != kNoValue;
}

DLDataType OperationCode::StoredType(size_t i) const {
  return network_.value(operation_.inputs[i]).type.dtype;
}

std::optional<Sizes> OperationCode::Ints(size_t i) const {
  if (!has(i)) return std::nullopt;
  const std::vector<InputInfo> infos = network_.InputsOf(operation_.id);
  return Inputs(infos).Ints(i);
}

const NDArray* OperationCode::Constant(size_t i) const {
  if (!has(i)) return nullptr;
  const NetworkValue& value = network_.value(operation_.inputs[i]);
  return value.kind == NetworkValue::Kind::kConstant ? &value.data : nullptr;
}

void CopyCode(CodeWriter* code, const Sizes& sizes, const std::string& from,
              const View& from_view, const std::string& to,
              const View& to_view) {
  const LoopNest nest(sizes, {from_view, to_view});
  if (nest.is_empty()) return;
  if (nest.is_one_row()) {
    code->Line(fmt::format("memcpy({0} + {1}, {2} + {3}, {4} * sizeof(*{0}));",
                           to, to_view.offset, from, from_view.offset,
                           IntegerText(CountIn(sizes))));
    return;
  }
  nest.Open(code);
  code->Line(fmt::format("{}[{}] = {}[{}];", to, nest.At(1), from, nest.At(0)));
  nest.Close(code);
}

void WriteIndex(CodeWriter* code, std::string_view operation,
                const std::string& variable, const std::string& element,
                int64_t size) {
  code->Line(fmt::format("const int64_t {} = nw_index({}, {});", variable,
                         element, size));
  code->Line(
      fmt::format("if ({} < 0) return nw_fail(\"{}: an index is out of "
                  "range\");",
                  variable, operation));
}

}  // namespace nodewise::emit_c
