#include "contrib/emit_c/integer_products.h"

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise::emit_c {

CTensor CentredCopy(OperationCode& code, size_t slot, size_t zero_slot,
                    const View& zero_view) {
  const CTensor& x = code.in(slot);
  // 16 bits hold the difference of any two numbers of 8 bits, and compilers
  // multiply them faster than those of 32.
  CTensor copy{"", kInt16, x.sizes};
  copy.name = code.store().Scratch(copy.type(), copy.count());
  const LoopNest nest(x.sizes, {CompactView(x.sizes), zero_view});
  if (nest.is_empty()) return copy;
  const std::string zero =
      code.has(zero_slot)
          ? fmt::format(" - {}[{}]", code.in(zero_slot).name, nest.At(1))
          : "";
  nest.Open(&code.code());
  code.code().Line(fmt::format("{0}[{1}] = (int16_t)({2}[{1}]{3});", copy.name,
                               nest.At(0), x.name, zero));
  nest.Close(&code.code());
  return copy;
}

CTensor IntegerSums(OperationCode& code) {
  CTensor sums{"", kInt32, code.out().sizes};
  sums.name = code.store().Scratch(sums.type(), sums.count());
  return sums;
}

absl::Status RequireOneScale(const OperationCode& code) {
  for (const size_t i : {6, 7}) {
    if (code.in(i).count() == 1) continue;
    return Refuse(fmt::format("input {}: has {} elements, expected 1", i,
                              code.in(i).count()));
  }
  return absl::OkStatus();
}

std::string RequantizedText(const OperationCode& code, const std::string& sum) {
  const DLDataType to = code.out().dtype;
  return fmt::format("({}){}", CTypeOf(to),
                     SaturatedText(fmt::format("{} * factor / (double){}[0]",
                                               sum, code.in(6).name),
                                   code.in(7).name + "[0]", to));
}

std::string SaturatedText(const std::string& x, const std::string& zero,
                          DLDataType to) {
  const int64_t values = int64_t{1} << to.bits;
  const int64_t low = to.code == kDLUInt ? 0 : -values / 2;
  const std::string moved = zero.empty() ? "" : " + " + zero;
  return fmt::format("nw_saturated(nearbyint({}){}, {}, {})", x, moved, low,
                     low + values - 1);
}

}  // namespace nodewise::emit_c
