#include "tests/measure/case.h"

#include <charconv>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr std::string_view kWhatNames[] = {"fault", "clean", "fixture",
                                           "foreign"};
constexpr std::string_view kOutcomeNames[] = {
    "exact",   "missed", "inconclusive", "extra",  "other",       "misnamed",
    "accused", "died",   "hung",         "failed", "their fault", "left out"};
static_assert(std::size(kOutcomeNames) ==
              static_cast<size_t>(Result::Outcome::kLeftOut) + 1);

template <typename Enum, size_t kCount>
bool FindName(const std::string_view (&names)[kCount], std::string_view name,
              Enum* found) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] != name) continue;
    *found = static_cast<Enum>(i);
    return true;
  }
  return false;
}

absl::Status BadCase(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\": is not a case, expected \"fault NETWORK KIND SEED "
                  "METHOD\" or the like",
                  Printable(text)));
}

}  // namespace

std::string_view NameOf(Case::What what) {
  return kWhatNames[static_cast<size_t>(what)];
}

std::string_view NameOf(Result::Outcome outcome) {
  return kOutcomeNames[static_cast<size_t>(outcome)];
}

std::vector<std::string> SplitAt(char separator, std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string Case::ToString() const {
  return fmt::format("{} {} {} {} {}", NameOf(what), subject, kind, seed,
                     method);
}

absl::StatusOr<Case> ParseCase(std::string_view text) {
  const std::vector<std::string> words = SplitAt(' ', text);
  if (words.size() != 5) return BadCase(text);
  Case read;
  if (!FindName(kWhatNames, words[0], &read.what)) return BadCase(text);
  read.subject = words[1];
  read.kind = words[2];
  const char* const end = words[3].data() + words[3].size();
  const auto [stop, error] = std::from_chars(words[3].data(), end, read.seed);
  if (error != std::errc() || stop != end) return BadCase(text);
  read.method = words[4];
  return read;
}

std::string Result::ToLine() const {
  nlohmann::ordered_json line;
  line["case"] = id.ToString();
  line["outcome"] = NameOf(outcome);
  line["size"] = size;
  if (!on_whole_numbers.empty()) line["on_whole_numbers"] = on_whole_numbers;
  // JSON has no infinity, which is the effect of a NaN.
  line["effect"] = fmt::format("{:.3g}", effect);
  line["seconds"] = seconds;
  line["inconclusive"] = inconclusive;
  line["node"] = node;
  line["text"] = text;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<Result> ParseResult(std::string_view line) {
  const auto fail = [&](std::string_view why) {
    return absl::DataLossError(
        fmt::format("\"{}\": {}, expected a result", Printable(line), why));
  };
  Result result;
  std::string id, outcome;
  try {
    const auto read = nlohmann::json::parse(line);
    id = read.at("case").get<std::string>();
    outcome = read.at("outcome").get<std::string>();
    result.size = read.at("size").get<std::string>();
    result.on_whole_numbers = read.value("on_whole_numbers", "");
    result.effect =
        std::strtod(read.at("effect").get<std::string>().c_str(), nullptr);
    result.seconds = read.at("seconds").get<double>();
    result.inconclusive = read.at("inconclusive").get<uint64_t>();
    result.node = read.at("node").get<std::string>();
    result.text = read.at("text").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    return fail(error.what());
  }
  NODEWISE_ASSIGN_OR_RETURN(result.id, ParseCase(id));
  if (!FindName(kOutcomeNames, outcome, &result.outcome)) {
    return fail("has an unknown outcome");
  }
  return result;
}

}  // namespace nodewise
