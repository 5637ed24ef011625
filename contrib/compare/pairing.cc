#include "nodewise/compare/pairing.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr char kBlanks[] = " \t\r";
// What names must have in common to be paired by their words.
constexpr double kLeastLikeness = 0.6;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The two names of a line; none unless there are two.
std::optional<std::pair<std::string, std::string>> NamesIn(
    std::string_view line) {
  size_t end = line.find('\t');
  const bool has_tab = end != std::string_view::npos;
  if (!has_tab) end = line.find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view left = Trimmed(line.substr(0, end));
  const std::string_view right = Trimmed(line.substr(end));
  const bool is_clear =
      right.find(has_tab ? '\t' : ' ') == std::string_view::npos;
  if (left.empty() || right.empty() || !is_clear) return std::nullopt;
  return std::pair(std::string(left), std::string(right));
}

bool IsLetterOrDigit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool IsDigit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Lower-case runs of letters or of digits.
std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words;
  char last = ' ';
  for (const char c : name) {
    if (IsLetterOrDigit(c)) {
      const bool goes_on = IsLetterOrDigit(last) && IsDigit(last) == IsDigit(c);
      if (!goes_on) words.emplace_back();
      words.back() +=
          static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    last = c;
  }
  return words;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

// "/Conv_1/output_0" of ONNX, "conv_1:0" of TensorFlow and "conv_1" are one
// name.
std::string SpellingOf(std::string_view name) {
  std::vector<std::string> words = WordsOf(name);
  if (words.size() > 1 && words.back() == "0") words.pop_back();
  if (words.size() > 1 && words.back() == "output") words.pop_back();
  return Joined(words);
}

// What compilers call all functions of a kind, without what numbers them.
std::string KindOf(std::string_view name) {
  std::vector<std::string> words = WordsOf(name);
  while (!words.empty() && IsDigit(words.back()[0])) words.pop_back();
  return Joined(words);
}

// Twice the words that both have, over those of each.
double LikenessOf(const std::string& a, const std::string& b) {
  const auto words_a = WordsOf(a), words_b = WordsOf(b);
  const std::multiset<std::string> x(words_a.begin(), words_a.end());
  const std::multiset<std::string> y(words_b.begin(), words_b.end());
  std::vector<std::string> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(),
                        std::back_inserter(both));
  const size_t all = x.size() + y.size();
  return all == 0
             ? 0
             : 2 * static_cast<double>(both.size()) / static_cast<double>(all);
}

class FuzzyPairer {
 public:
  FuzzyPairer(absl::Span<const UnpairedTensor> expected,
              absl::Span<const UnpairedTensor> actual)
      : expected_(expected),
        actual_(actual),
        is_paired_expected_(expected.size()),
        is_paired_actual_(actual.size()) {}

  std::vector<FuzzyPair> Pair() {
    PairEqual(SpellingOf, PairedBy::kSpelling);
    PairEqual(KindOf, PairedBy::kOrder);
    PairAlike();
    std::sort(pairs_.begin(), pairs_.end(),
              [](const FuzzyPair& a, const FuzzyPair& b) {
                return a.expected < b.expected;
              });
    return std::move(pairs_);
  }

 private:
  using Groups = std::map<std::string, std::vector<size_t>>;

  static Groups GroupsOf(absl::Span<const UnpairedTensor> tensors,
                         const std::vector<bool>& is_paired,
                         std::string (*name_of)(std::string_view)) {
    Groups groups;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (is_paired[i]) continue;
      const std::string name = name_of(tensors[i].name);
      if (!name.empty()) groups[name + tensors[i].type].push_back(i);
    }
    return groups;
  }

  // Pairs groups with one name and equally many members in their order.
  void PairEqual(std::string (*name_of)(std::string_view), PairedBy by) {
    const Groups actual = GroupsOf(actual_, is_paired_actual_, name_of);
    for (const auto& [name, left] :
         GroupsOf(expected_, is_paired_expected_, name_of)) {
      const auto right = actual.find(name);
      if (right == actual.end() || right->second.size() != left.size()) {
        continue;
      }
      // Two of one spelling are no clearer than their numbers in order.
      if (by == PairedBy::kSpelling && left.size() > 1) continue;
      for (size_t i = 0; i < left.size(); ++i) {
        Add({left[i], right->second[i], by});
      }
    }
  }

  // Returns which is most like tensor `i`, if one alone is and it is enough.
  static std::optional<size_t> MostAlike(
      const UnpairedTensor& tensor, absl::Span<const UnpairedTensor> others,
      const std::vector<bool>& is_paired) {
    double best = 0;
    std::optional<size_t> found;
    for (size_t i = 0; i < others.size(); ++i) {
      if (is_paired[i] || others[i].type != tensor.type) continue;
      const double likeness = LikenessOf(tensor.name, others[i].name);
      if (likeness == best) found.reset();
      if (likeness <= best) continue;
      best = likeness;
      found = i;
    }
    return best < kLeastLikeness ? std::nullopt : found;
  }

  void PairAlike() {
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (is_paired_expected_[i]) continue;
      const auto there = MostAlike(expected_[i], actual_, is_paired_actual_);
      if (!there.has_value()) continue;
      if (MostAlike(actual_[*there], expected_, is_paired_expected_) == i) {
        Add({i, *there, PairedBy::kWords});
      }
    }
  }

  void Add(const FuzzyPair& pair) {
    is_paired_expected_[pair.expected] = true;
    is_paired_actual_[pair.actual] = true;
    pairs_.push_back(pair);
  }

  const absl::Span<const UnpairedTensor> expected_, actual_;
  std::vector<bool> is_paired_expected_, is_paired_actual_;
  std::vector<FuzzyPair> pairs_;
};

}  // namespace

absl::StatusOr<NameMap> ParseNameMap(std::string_view text,
                                     const std::string& where) {
  NameMap names;
  std::set<std::string> actual;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line[0] == '#') continue;
    const auto found = NamesIn(line);
    if (!found.has_value()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: found \"{}\", expected two names (with a tab between them)",
          where, number, Printable(line)));
    }
    if (!names.emplace(*found).second || !actual.insert(found->second).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: a name of \"{}\" stands there a second time, "
                      "expected it once",
                      where, number, Printable(line)));
    }
  }
  return names;
}

std::string_view NameOf(PairedBy by) {
  switch (by) {
    case PairedBy::kName:
      return "name";
    case PairedBy::kMap:
      return "map";
    case PairedBy::kSpelling:
      return "spelling";
    case PairedBy::kOrder:
      return "order";
    case PairedBy::kWords:
      return "words";
  }
  return "";
}

std::vector<FuzzyPair> PairFuzzily(absl::Span<const UnpairedTensor> expected,
                                   absl::Span<const UnpairedTensor> actual) {
  return FuzzyPairer(expected, actual).Pair();
}

}  // namespace nodewise
