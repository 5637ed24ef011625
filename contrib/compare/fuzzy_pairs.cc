#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/support/exceptions.h"

namespace nodewise {
namespace {

// Names are paired by their words if three fifths of these are shared, as
// LikenessOf() counts them.
constexpr double kLeastLikeness = 0.6;
// Names that all share their words would be tried with each other: five
// thousand on each side take a second, and of more no more is tried.
constexpr uint64_t kMostSteps = 300'000'000;

// Lower-case runs of letters or of digits.
std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words;
  char last = ' ';
  for (const char c : name) {
    if (absl::ascii_isalnum(c)) {
      const bool goes_on = absl::ascii_isalnum(last) &&
                           absl::ascii_isdigit(last) == absl::ascii_isdigit(c);
      if (!goes_on) words.emplace_back();
      words.back() += absl::ascii_tolower(c);
    }
    last = c;
  }
  return words;
}

// The blank behind each word keeps what is appended apart from it.
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

// Returns the name that compilers give all functions of a kind, without the
// numbers that tell these apart.
std::string KindOf(std::string_view name) {
  std::vector<std::string> words = WordsOf(name);
  while (!words.empty() && absl::ascii_isdigit(words.back()[0]))
    words.pop_back();
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

// Numbers the words of two sides. Rare words come first in each name, so that
// few other names share them and the search over these ends early.
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
    std::ranges::sort(ids);
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
    // Words that are equally rare are in the order of the alphabet, so that one
    // pair of files always gives one result.
    for (const auto& [word, count] : counts_)
      by_count.emplace_back(count, word);
    std::ranges::sort(by_count);
    for (const auto& [count, word] : by_count) {
      ids_.emplace(word, static_cast<uint32_t>(ids_.size()));
    }
  }

  std::unordered_map<std::string, size_t> counts_;
  std::unordered_map<std::string_view, uint32_t> ids_;
};

// Both are sorted, so that one walk over the two finds what they share.
size_t CountCommon(const WordIds& a, const WordIds& b) {
  size_t common = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const uint32_t x = a[i], y = b[k];
    common += x == y ? 1 : 0;
    i += x <= y ? 1 : 0;
    k += y <= x ? 1 : 0;
  }
  return common;
}

struct PairingSide {
  absl::Span<const UnpairedTensor> tensors;
  std::vector<bool> is_paired = std::vector<bool>(tensors.size());
};

// The names of one side, found by their words.
class WordIndex {
 public:
  // The side must outlive it, and may get more partners meanwhile.
  WordIndex(const PairingSide& side, Vocabulary* vocabulary)
      : tensors_(side.tensors),
        is_paired_(side.is_paired),
        having_(vocabulary->size()),
        last_asker_(side.tensors.size()) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      words_.push_back(vocabulary->IdsOf(tensors_[i].name));
      if (is_paired_[i]) continue;
      for (const uint32_t word : words_[i]) having_[word].push_back(i);
    }
  }

  const WordIds& words(size_t i) const { return words_[i]; }

  // Returns which is most like a tensor with these words, if one alone is and
  // it is enough. Looks at names that share a rare word first, and at no more
  // once those with the words that are left could not be as alike. Takes what
  // it does off `steps`, and finds nothing when these are used up.
  std::optional<size_t> FindMostSimilar(const UnpairedTensor& tensor,
                                        const WordIds& words, uint64_t* steps) {
    double best = kLeastLikeness;
    std::optional<size_t> found;
    bool is_shared = false;
    ++asker_;
    // A name that shares none of the words up to this one can share no more
    // than those that are left, and then is at most this much like it.
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
        is_shared = likeness == best && found;
        if (likeness > best || !found) found = i;
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

// Two lists are paired by three rules, none of which goes by position alone.
class FuzzyPairer {
 public:
  FuzzyPairer(absl::Span<const UnpairedTensor> expected,
              absl::Span<const UnpairedTensor> actual)
      : expected_{expected}, actual_{actual} {}

  // The surest rule comes first: what it pairs no later rule can take.
  std::vector<FuzzyPair> Pair() {
    PairEqual(SpellingOf, PairedBy::kSpelling);
    PairEqual(KindOf, PairedBy::kOrder);
    PairMostSimilar();
    std::ranges::sort(pairs_, {}, &FuzzyPair::expected);
    return std::move(pairs_);
  }

 private:
  using Groups = std::map<std::string, std::vector<size_t>>;

  static Groups GroupsOf(const PairingSide& side,
                         std::string (*name_of)(std::string_view)) {
    Groups groups;
    for (size_t i = 0; i < side.tensors.size(); ++i) {
      if (side.is_paired[i]) continue;
      const std::string name = name_of(side.tensors[i].name);
      if (!name.empty()) groups[name + side.tensors[i].type].push_back(i);
    }
    return groups;
  }

  // Pairs groups with one name and equally many members in their order.
  void PairEqual(std::string (*name_of)(std::string_view), PairedBy by) {
    const Groups actual = GroupsOf(actual_, name_of);
    for (const auto& [name, left] : GroupsOf(expected_, name_of)) {
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

  // Two names are a pair only if each is what the other is most like.
  void PairMostSimilar() {
    Vocabulary vocabulary;
    vocabulary.Add(expected_.tensors);
    vocabulary.Add(actual_.tensors);
    WordIndex expected(expected_, &vocabulary);
    WordIndex actual(actual_, &vocabulary);
    uint64_t steps = kMostSteps;
    for (size_t i = 0; i < expected_.tensors.size() && steps > 0; ++i) {
      if (expected_.is_paired[i]) continue;
      const auto there = actual.FindMostSimilar(expected_.tensors[i],
                                                expected.words(i), &steps);
      if (!there) continue;
      const auto back = expected.FindMostSimilar(actual_.tensors[*there],
                                                 actual.words(*there), &steps);
      if (back == i) Add({i, *there, PairedBy::kWords});
    }
  }

  void Add(const FuzzyPair& pair) {
    expected_.is_paired[pair.expected] = true;
    actual_.is_paired[pair.actual] = true;
    pairs_.push_back(pair);
  }

  PairingSide expected_, actual_;
  std::vector<FuzzyPair> pairs_;
};

}  // namespace

std::vector<FuzzyPair> PairFuzzily(absl::Span<const UnpairedTensor> expected,
                                   absl::Span<const UnpairedTensor> actual) {
  return FuzzyPairer(expected, actual).Pair();
}

}  // namespace nodewise
