#include "nodewise/compare/pairing.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr char kBlanks[] = " \t\r";
// What names must have in common to be paired by their words.
constexpr double kLeastLikeness = 0.6;
// Names that all share their words would be tried with each other: five
// thousand on each side take a second, and of more no more is tried.
constexpr uint64_t kMostSteps = 300'000'000;

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

// How alike names are: twice the words that both have, over those of each.
double LikenessOf(size_t common, size_t all) {
  return all == 0 ? 0
                  : 2 * static_cast<double>(common) / static_cast<double>(all);
}

// The words of a name as numbers, from the rarest word of all names to the
// commonest; a word's second time in a name is another word.
using WordIds = std::vector<uint32_t>;

// Numbers the words of two sides.
class Vocabulary {
 public:
  void Add(absl::Span<const UnpairedTensor> tensors) {
    for (const UnpairedTensor& tensor : tensors) {
      for (const std::string& word : MarkedWordsOf(tensor.name)) {
        ++counts_[word];
      }
    }
  }
  // REQUIRES: all names have been added.
  WordIds IdsOf(std::string_view name) {
    if (ids_.empty()) Number();
    WordIds ids;
    for (const std::string& word : MarkedWordsOf(name)) {
      ids.push_back(ids_.at(word));
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  size_t size() const { return counts_.size(); }

 private:
  static std::vector<std::string> MarkedWordsOf(std::string_view name) {
    std::vector<std::string> words = WordsOf(name);
    std::map<std::string, size_t> times;
    for (std::string& word : words) {
      const size_t before = times[word]++;
      if (before > 0) word += fmt::format(" {}", before);
    }
    return words;
  }
  void Number() {
    std::vector<std::pair<size_t, std::string_view>> by_count;
    for (const auto& [word, count] : counts_)
      by_count.emplace_back(count, word);
    std::sort(by_count.begin(), by_count.end());
    for (const auto& [count, word] : by_count) {
      ids_.emplace(word, static_cast<uint32_t>(ids_.size()));
    }
  }

  std::unordered_map<std::string, size_t> counts_;
  std::unordered_map<std::string_view, uint32_t> ids_;
};

size_t CountCommon(const WordIds& a, const WordIds& b) {
  size_t common = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    common += a[i] == b[k] ? 1 : 0;
    const bool next_a = a[i] <= b[k];
    const bool next_b = b[k] <= a[i];
    i += next_a ? 1 : 0;
    k += next_b ? 1 : 0;
  }
  return common;
}

// The names of one side, found by their words.
class WordIndex {
 public:
  WordIndex(absl::Span<const UnpairedTensor> tensors,
            const std::vector<bool>& is_paired, Vocabulary* vocabulary)
      : tensors_(tensors),
        is_paired_(is_paired),
        having_(vocabulary->size()),
        last_asker_(tensors.size()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      words_.push_back(vocabulary->IdsOf(tensors[i].name));
      if (is_paired[i]) continue;
      for (const uint32_t word : words_[i]) having_[word].push_back(i);
    }
  }

  const WordIds& words(size_t i) const { return words_[i]; }

  // Returns which is most like a tensor with these words, if one alone is and
  // it is enough. Looks at names that share a rare word first, and at no more
  // once those with the words that are left could not be as alike. Takes what
  // it does off `steps`, and finds nothing when these are used up.
  std::optional<size_t> MostAlike(const UnpairedTensor& tensor,
                                  const WordIds& words, uint64_t* steps) {
    double best = kLeastLikeness;
    std::optional<size_t> found;
    bool is_shared = false;
    ++asker_;
    for (size_t w = 0; w < words.size(); ++w) {
      const size_t left = words.size() - w;
      if (LikenessOf(left, words.size() + left) < best) break;
      for (const size_t i : having_[words[w]]) {
        const uint64_t cost = 1 + words.size() + words_[i].size();
        if (*steps < cost) return std::nullopt;
        --*steps;
        if (last_asker_[i] == asker_ || is_paired_[i]) continue;
        last_asker_[i] = asker_;
        *steps -= cost - 1;
        if (tensors_[i].type != tensor.type) continue;
        const double likeness = LikenessOf(CountCommon(words, words_[i]),
                                           words.size() + words_[i].size());
        if (likeness < best) continue;
        is_shared = likeness == best && found.has_value();
        if (likeness > best || !found.has_value()) found = i;
        best = likeness;
      }
    }
    return is_shared ? std::nullopt : found;
  }

 private:
  const absl::Span<const UnpairedTensor> tensors_;
  const std::vector<bool>& is_paired_;
  std::vector<WordIds> words_;               // By tensor.
  std::vector<std::vector<size_t>> having_;  // By word: tensors.
  std::vector<uint64_t> last_asker_;         // By tensor.
  uint64_t asker_ = 0;
};

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
      // Several names of one spelling are paired no more clearly by it than by
      // the order of their numbers.
      if (by == PairedBy::kSpelling && left.size() > 1) continue;
      for (size_t i = 0; i < left.size(); ++i) {
        Add({left[i], right->second[i], by});
      }
    }
  }

  void PairAlike() {
    Vocabulary vocabulary;
    vocabulary.Add(expected_);
    vocabulary.Add(actual_);
    WordIndex expected(expected_, is_paired_expected_, &vocabulary);
    WordIndex actual(actual_, is_paired_actual_, &vocabulary);
    uint64_t steps = kMostSteps;
    for (size_t i = 0; i < expected_.size() && steps > 0; ++i) {
      if (is_paired_expected_[i]) continue;
      const auto there =
          actual.MostAlike(expected_[i], expected.words(i), &steps);
      if (!there.has_value()) continue;
      if (expected.MostAlike(actual_[*there], actual.words(*there), &steps) ==
          i) {
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
