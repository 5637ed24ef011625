#include "tests/measure/summary.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/words.h"
#include "tests/measure/exact_effect.h"
#include "tests/measure/fault_source.h"
#include "tests/measure/method.h"

namespace nodewise {
namespace {

using Outcome = Result::Outcome;

// The most large effects that may be inconclusive, as a share.
constexpr double kMostInconclusive = 0.01;

struct Counts {
  std::map<Outcome, uint64_t> of;
  uint64_t all = 0;
  uint64_t with_inconclusive = 0;
  uint64_t outputs_off = 0;
  double seconds = 0;

  void Add(const Result& result) {
    ++of[result.outcome];
    ++all;
    with_inconclusive += result.inconclusive > 0;
    outputs_off += result.size == "outputs off";
    seconds += result.seconds;
  }
  uint64_t SumOfOutcomes(std::initializer_list<Outcome> outcomes) const {
    uint64_t sum = 0;
    for (const Outcome outcome : outcomes) {
      const auto found = of.find(outcome);
      if (found != of.end()) sum += found->second;
    }
    return sum;
  }
};

std::string Percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format(
      "{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string MeanMs(const Counts& counts) {
  if (counts.all == 0) return "-";
  return fmt::format("{:.0f}",
                     1e3 * counts.seconds / static_cast<double>(counts.all));
}

using KeyOf = std::function<std::string(const Result&)>;
using Groups = std::map<std::string, Counts>;

bool IsFault(const Result& result) {
  return result.id.what == Case::What::kFault &&
         result.outcome != Outcome::kLeftOut;
}

Groups GroupBy(const std::vector<Result>& results,
               const std::function<bool(const Result&)>& selects,
               const KeyOf& key_of) {
  Groups groups;
  for (const Result& result : results) {
    if (selects(result)) groups[key_of(result)].Add(result);
  }
  return groups;
}

std::string FaultTable(const std::string& title, const std::string& head,
                       const Groups& groups) {
  if (groups.empty()) return "";
  TextTable table;
  table.AddRow({head, "faults", "found", "exact", "inconclusive", "missed",
                "others named", "died or hung", "failed", "ms each"});
  for (const auto& [key, counts] : groups) {
    const uint64_t found = counts.SumOfOutcomes(
        {Outcome::kExact, Outcome::kExtra, Outcome::kMisnamed});
    const uint64_t exact = counts.SumOfOutcomes({Outcome::kExact});
    table.AddRow(
        {key, fmt::format("{}", counts.all), Percent(found, counts.all),
         Percent(exact, counts.all),
         fmt::format("{}", counts.SumOfOutcomes({Outcome::kInconclusive})),
         fmt::format("{}", counts.SumOfOutcomes({Outcome::kMissed})),
         fmt::format("{}",
                     counts.SumOfOutcomes({Outcome::kExtra, Outcome::kOther})),
         fmt::format("{}",
                     counts.SumOfOutcomes({Outcome::kDied, Outcome::kHung})),
         fmt::format("{}", counts.SumOfOutcomes({Outcome::kFailed})),
         MeanMs(counts)});
  }
  return fmt::format("{}\n{}\n", title, table.ToString(2, 0));
}

std::string CleanTable(const Groups& groups) {
  if (groups.empty()) return "";
  TextTable table;
  table.AddRow({"", "runs", "accused", "with inconclusive nodes",
                "outputs beyond tolerance", "died or hung", "failed",
                "ms each"});
  for (const auto& [key, counts] : groups) {
    table.AddRow({key, fmt::format("{}", counts.all),
                  fmt::format("{}", counts.SumOfOutcomes({Outcome::kAccused})),
                  fmt::format("{}", counts.with_inconclusive),
                  fmt::format("{}", counts.outputs_off),
                  fmt::format("{}", counts.SumOfOutcomes(
                                        {Outcome::kDied, Outcome::kHung})),
                  fmt::format("{}", counts.SumOfOutcomes({Outcome::kFailed})),
                  MeanMs(counts)});
  }
  return fmt::format("clean runs\n{}\n", table.ToString(2, 0));
}

// What says of a value fault how large it is, and of another one its kind.
std::string SizeOf(const Result& result) {
  return result.size.empty() ? result.id.kind : result.size + " effect";
}

std::string PrecisionOf(const Result& result) {
  for (const char* name : {"fp16", "bf16", "int8"}) {
    if (result.id.subject.find(fmt::format("+{}", name)) != std::string::npos) {
      return name;
    }
  }
  return "float32";
}

std::string CleanRowOf(const Result& result) {
  const std::string& name = result.id.subject;
  switch (result.id.what) {
    case Case::What::kFixture:
      return "artefacts of TVM";
    case Case::What::kForeign:
      return "onnxruntime, " + name.substr(name.rfind('-') + 1);
    default:
      return fmt::format("{}, {}", PrecisionOf(result),
                         name.starts_with("light:") ? "light" : "zoo");
  }
}

// Lists the kinds that a method says it cannot see, which are not its cases.
std::string NotAsked(const std::vector<Result>& results) {
  std::string text;
  for (const Method& method : Methods()) {
    const auto is_used = [&](const Result& result) {
      return IsFault(result) && result.id.method == method.name;
    };
    if (std::none_of(results.begin(), results.end(), is_used)) continue;
    std::vector<std::string> names;
    for (const FaultSource& source : FaultSources()) {
      if (!method.sees(source.sign)) names.emplace_back(source.name);
    }
    if (names.empty()) continue;
    text += fmt::format("  {} cannot see: {}\n", method.name,
                        ListOf(names, names.size()));
  }
  return text.empty() ? "" : fmt::format("not asked for\n{}\n", text);
}

// What exact inputs find of the small effects that change bits of an exact
// computation.
struct ExactShare {
  uint64_t small = 0;
  uint64_t not_exact = 0;
  uint64_t other_bits = 0;
  uint64_t found = 0;
};

ExactShare ExactShareOf(const std::vector<Result>& results) {
  ExactShare share;
  for (const Result& result : results) {
    if (!IsFault(result) || result.on_whole_numbers.empty()) continue;
    ++share.small;
    share.not_exact +=
        result.on_whole_numbers == NameOf(ExactEffect::kNotExact);
    if (result.on_whole_numbers != NameOf(ExactEffect::kOtherBits)) continue;
    ++share.other_bits;
    share.found += result.outcome == Outcome::kExact;
  }
  return share;
}

std::string ExactText(const std::vector<Result>& results) {
  const ExactShare share = ExactShareOf(results);
  if (share.small == 0) return "";
  return fmt::format(
      "small effects and exact inputs: {} of {} change bits of an exact "
      "computation ({} are in nodes that have none); found of these: {} "
      "({})\n\n",
      share.other_bits, share.small, share.not_exact, share.found,
      Percent(share.found, share.other_bits));
}

// What was not run here, with the reason.
std::string LeftOut(const std::vector<Result>& results) {
  std::string text;
  for (const Result& result : results) {
    if (result.outcome == Outcome::kTheirFault) {
      text += fmt::format("  {}, not counted: {}\n", result.id.subject,
                          result.text);
    }
    if (result.outcome == Outcome::kLeftOut &&
        result.id.what == Case::What::kFixture) {
      text +=
          fmt::format("  {}, left out: {}\n", result.id.subject, result.text);
    }
  }
  return text.empty() ? "" : fmt::format("not judged\n{}\n", text);
}

std::string NetworkOf(const Result& result) {
  const std::string& name = result.id.subject;
  return name.substr(0, name.find_first_of("/+")) +
         (name.ends_with("+c") ? " in C" : "");
}

bool IsHeldOut(const Result& result) {
  const auto source = FindFaultSource(result.id.kind);
  return source.ok() && (*source)->is_held_out;
}

bool MustBeExact(const Result& result) {
  const auto method = FindMethod(result.id.method);
  if (!method.ok() || !method->is_required) return false;
  const auto source = FindFaultSource(result.id.kind);
  if (!source.ok() || (*source)->is_held_out) return false;
  if ((*source)->sign != FaultSign::kWrongValues) {
    return (*source)->is_required;
  }
  // One that could not be judged, or whose child died, has no size.
  return result.size != "small" && result.size != "unbounded";
}

// Only the planted node may be named, even where it need not be.
bool NamesOthers(const Result& result) {
  return result.outcome == Outcome::kExtra || result.outcome == Outcome::kOther;
}

bool IsFailure(const Result& result) {
  if (result.outcome == Outcome::kExact ||
      result.outcome == Outcome::kLeftOut ||
      result.outcome == Outcome::kTheirFault ||
      result.outcome == Outcome::kInconclusive) {
    return false;
  }
  return result.id.what != Case::What::kFault || MustBeExact(result) ||
         (NamesOthers(result) && !IsHeldOut(result));
}

}  // namespace

std::string Tables(const std::vector<Result>& results) {
  const auto is_large = [](const Result& result) {
    return IsFault(result) && (result.size == "large");
  };
  const auto method = [](const Result& result) { return result.id.method; };
  std::string text;
  text +=
      FaultTable("faults by method and size of the effect", "",
                 GroupBy(results, &IsFault, [&](const Result& result) {
                   return fmt::format("{}, {}", method(result), SizeOf(result));
                 }));
  text +=
      FaultTable("large effects by kind", "",
                 GroupBy(results, is_large, [&](const Result& result) {
                   return fmt::format("{}, {}", method(result), result.id.kind);
                 }));
  text += FaultTable("large effects by network", "",
                     GroupBy(results, is_large, [&](const Result& result) {
                       return fmt::format("{}, {}", method(result),
                                          NetworkOf(result));
                     }));
  text += FaultTable("large effects by precision", "",
                     GroupBy(results, is_large, [&](const Result& result) {
                       return fmt::format("{}, {}", method(result),
                                          PrecisionOf(result));
                     }));
  text += NotAsked(results);
  text += ExactText(results);
  text += CleanTable(GroupBy(
      results,
      [](const Result& result) {
        return result.id.what != Case::What::kFault &&
               result.outcome != Outcome::kLeftOut;
      },
      [&](const Result& result) {
        return fmt::format("{}, {}", method(result), CleanRowOf(result));
      }));
  text += LeftOut(results);
  return text;
}

std::vector<Result> Failures(const std::vector<Result>& results) {
  std::vector<Result> failures, unsure;
  uint64_t large = 0;
  for (const Result& result : results) {
    if (IsFailure(result)) failures.push_back(result);
    if (!IsFault(result) || !MustBeExact(result)) continue;
    ++large;
    if (result.outcome == Outcome::kInconclusive) unsure.push_back(result);
  }
  const ExactShare exact = ExactShareOf(results);
  if (2 * exact.found < exact.other_bits) {
    for (const Result& result : results) {
      if (result.on_whole_numbers == NameOf(ExactEffect::kOtherBits) &&
          result.outcome != Outcome::kExact) {
        failures.push_back(result);
      }
    }
  }
  if (static_cast<double>(unsure.size()) >
      kMostInconclusive * static_cast<double>(large)) {
    failures.insert(failures.end(), unsure.begin(), unsure.end());
  }
  return failures;
}

}  // namespace nodewise
