#include "nodewise/op/random_seed.h"

#include <algorithm>

#include "nodewise/random/random.h"

namespace nodewise {

bool DrawsRandomNumbers(const OperatorDef& def, size_t num_inputs) {
  const bool has_seed =
      std::any_of(def.fields.begin(), def.fields.end(),
                  [](const AttrField& field) { return field.name == "seed"; });
  return has_seed && (def.name != "Dropout" || num_inputs > 2);
}

NamedAttr SeedOfNode(const OperatorDef& def, uint64_t seed,
                     std::string_view node) {
  // A float holds 24 bits exactly.
  const auto number =
      static_cast<int64_t>(RandomSource(seed, node).Next() >> 40);
  if (def.name == "Dropout") return {"seed", number};
  return {"seed", static_cast<float>(number)};
}

}  // namespace nodewise
