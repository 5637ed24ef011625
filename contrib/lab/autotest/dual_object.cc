#include "nodewise/autotest/dual_object.h"

#include <cstdlib>
#include <random>

#include "contrib/lab/autotest/dual_case.h"
#include "contrib/lab/autotest/simpler_choices.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Program = std::function<void(DualObject& onnx)>;

uint64_t SeedOf(const DualOptions& options) {
  if (options.seed.has_value()) return *options.seed;
  const char* const given = std::getenv("NODEWISE_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10)
                          : std::random_device()();
}

// One case on its way.
struct Tried {
  absl::Status status;
  bool is_refused = false;
  std::string text;
  std::vector<Choice> made;
  std::vector<ChoiceSpan> groups;
};

Tried Try(const OpSet& ops, Candidate& tested, const Program& program,
          const DualOptions& options, Choices choices) {
  Tried tried;
  DualCase one(ops, tested, options, &choices);
  tried.status = one.Run(program);
  tried.is_refused = one.is_refused();
  if (tried.status.ok()) tried.status = one.Compare();
  tried.text = one.Text();
  tried.made.assign(choices.made().begin(), choices.made().end());
  tried.groups.assign(choices.groups().begin(), choices.groups().end());
  return tried;
}

bool Differs(const Tried& tried) { return absl::IsInternal(tried.status); }

// Returns the simplest case that differs, too.
Tried Simplest(const OpSet& ops, Candidate& tested, const Program& program,
               const DualOptions& options, Tried best) {
  size_t tries = 0;
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (auto& values :
         SimplerThan(best.made, best.groups, options.most_tries)) {
      if (++tries > options.most_tries) return best;
      Tried tried =
          Try(ops, tested, program, options, Choices(std::move(values)));
      if (!Differs(tried) ||
          !IsSimpler(ValuesOf(tried.made), ValuesOf(best.made))) {
        continue;
      }
      best = std::move(tried);
      has_changed = true;
      break;
    }
  }
  return best;
}

}  // namespace

const std::string& DualObject::name() const { return state_->name; }
const GeneratedValue& DualObject::reference() const {
  return state_->reference;
}
const GeneratedValue& DualObject::tested() const { return state_->tested; }

DualObject DualObject::operator[](std::string_view attribute) const {
  return state_->owner->Attribute(*state_, attribute);
}
DualObject DualObject::operator()(std::vector<DualInput> inputs,
                                  std::vector<DualAttribute> attributes) const {
  const size_t outputs =
      state_->def == nullptr ? 1 : state_->def->min_outputs();
  return Call(std::move(inputs), std::move(attributes), outputs);
}
DualObject DualObject::Call(std::vector<DualInput> inputs,
                            std::vector<DualAttribute> attributes,
                            size_t num_outputs) const {
  return state_->owner->Call(*state_, std::move(inputs), std::move(attributes),
                             num_outputs);
}
DualObject DualObject::Module(std::vector<DualAttribute> attributes,
                              std::vector<DualInput> parameters) const {
  return state_->owner->Bind(*state_, std::move(attributes),
                             std::move(parameters));
}
DualObject DualObject::Output(size_t output) const {
  return output < state_->outputs.size() ? state_->outputs[output] : *this;
}

// NOLINTNEXTLINE(readability-identifier-naming)
absl::Status autotest(const OpSet& ops, Candidate& tested,
                      const Program& program, const DualOptions& options) {
  const uint64_t seed = SeedOf(options);
  absl::Status refused;
  for (uint64_t number = 0; number < options.n; ++number) {
    Tried tried;
    uint64_t attempt = 0;
    do {
      tried = Try(ops, tested, program, options,
                  Choices(RandomSource(
                      seed, fmt::format("case {}.{}", number, attempt))));
    } while (tried.is_refused && ++attempt < options.most_refused);
    if (tried.is_refused) {
      return At(fmt::format("seed {}, case {}: none of {} draws is legal", seed,
                            number, options.most_refused),
                tried.status);
    }
    if (tried.status.ok()) continue;
    if (!Differs(tried)) {
      return At(fmt::format("seed {}, case {}", seed, number), tried.status);
    }
    tried = Simplest(ops, tested, program, options, std::move(tried));
    return absl::InternalError(
        fmt::format("{}\n\nThe program, as simple as it could be made:\n\n{}\n"
                    "NODEWISE_SEED={} draws case {} again.\n",
                    MessageOf(tried.status), tried.text, seed, number));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
