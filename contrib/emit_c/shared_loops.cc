#include "contrib/emit_c/shared_loops.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/str_join.h"
#include "contrib/emit_c/c_text.h"

namespace nodewise::emit_c {
namespace {

// Reads code piece by piece, as far as it takes to tell numbers from all else.
class PieceReader {
 public:
  explicit PieceReader(std::string_view code) : code_(code) {}

  bool is_at_end() const { return at_ == code_.size(); }

  std::string_view Next() {
    const char c = code_[at_];
    if (StartsWith("static const ")) return TakeChars(End(";"));
    if (StartsWith("INT64_C(") || StartsWith("UINT64_C(")) {
      return TakeChars(End(")"));
    }
    if (StartsWith("/*")) return TakeChars(End("*/"));
    if (c == '"') return TakeChars(code_.find('"', at_ + 1) + 1 - at_);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return TakeNumber();
    return TakeChars(IsWordByte(c) ? LengthWhile(IsWordByte) : 1);
  }

 private:
  bool StartsWith(std::string_view text) const {
    return code_.substr(at_).starts_with(text);
  }
  size_t End(std::string_view mark) const {
    return code_.find(mark, at_) + mark.size() - at_;
  }
  std::string_view TakeChars(size_t length) {
    const std::string_view piece = code_.substr(at_, length);
    at_ += piece.size();
    return piece;
  }
  template <typename Kind>
  size_t LengthWhile(Kind is_of_kind) const {
    const auto begin = code_.begin() + static_cast<std::ptrdiff_t>(at_);
    return static_cast<size_t>(
        std::find_if_not(begin, code_.end(), is_of_kind) - begin);
  }
  // A float, its exponent and its suffix are one piece. A sign belongs to it
  // only behind the letter of an exponent.
  std::string_view TakeNumber() {
    char before = code_[at_];
    return TakeChars(LengthWhile([&before](char c) {
      const bool is_sign = (c == '+' || c == '-') && before == 'e';
      before = c;
      return IsWordByte(c) || c == '.' || is_sign;
    }));
  }

  std::string_view code_;
  size_t at_ = 0;
};

// Pieces that begin with a digit are numbers; those of digits alone can be
// parameters. A float or a number with a suffix has its type in its text, which
// a parameter would lose.
bool IsWholeNumber(std::string_view piece) {
  return piece.find_first_not_of("0123456789") == std::string_view::npos;
}

// Texts that differ in numbers alone, and these numbers by text.
struct Class {
  std::vector<size_t> members;
  std::vector<Skeleton> skeletons;
};

// Returns the function that computes all texts of a class, and tells each of
// its members what to call it with. A number that all texts have stays where it
// is. Each other one becomes a parameter: a column, with the number of each
// text. Numbers whose columns are the same are one parameter, so that compilers
// see that they are always equal.
SharedLoops::Function FunctionOf(const Class& all, const LoopsText& text,
                                 std::vector<SharedLoops::Call>* calls) {
  const Skeleton& first = all.skeletons[0];
  std::map<std::vector<std::string>, size_t> columns;
  std::string body = first.between[0];
  for (size_t i = 0; i < first.numbers.size(); ++i) {
    std::vector<std::string> column;
    for (const Skeleton& one : all.skeletons) column.push_back(one.numbers[i]);
    const bool is_same = std::count(column.begin(), column.end(), column[0]) ==
                         static_cast<std::ptrdiff_t>(column.size());
    if (is_same) {
      body += column[0];
    } else {
      const auto [known, is_new] = columns.emplace(column, columns.size());
      body += fmt::format("number{}", known->second);
      for (size_t m = 0; is_new && m < column.size(); ++m) {
        (*calls)[all.members[m]].numbers.push_back(column[m]);
      }
    }
    body += first.between[i + 1];
  }
  std::string declarations;
  for (size_t i = 0; i < columns.size(); ++i) {
    declarations +=
        fmt::format("  const int64_t number{0} = numbers[{0}];\n", i);
  }
  return {text.parameters, declarations + body, !columns.empty()};
}

}  // namespace

// Numbers in identifiers are not pieces of their own, since a word is read to
// its end.
Skeleton SkeletonOf(std::string_view code) {
  Skeleton skeleton;
  skeleton.between.emplace_back();
  PieceReader reader(code);
  while (!reader.is_at_end()) {
    const std::string_view piece = reader.Next();
    if (IsWholeNumber(piece)) {
      skeleton.numbers.emplace_back(piece);
      skeleton.between.emplace_back();
    } else {
      skeleton.between.back() += piece;
    }
  }
  return skeleton;
}

SharedLoops ShareLoops(absl::Span<const LoopsText> texts) {
  std::map<std::string, size_t> known;
  std::vector<Class> classes;
  for (size_t i = 0; i < texts.size(); ++i) {
    Skeleton skeleton = SkeletonOf(texts[i].body);
    // Texts that share nothing have a key of their own.
    const std::string key =
        texts[i].keeps_sizes
            ? std::to_string(i)
            : texts[i].parameters + absl::StrJoin(skeleton.between, "#");
    const auto [found, is_new] = known.emplace(key, classes.size());
    if (is_new) classes.emplace_back();
    classes[found->second].members.push_back(i);
    classes[found->second].skeletons.push_back(std::move(skeleton));
  }
  SharedLoops shared;
  shared.calls.resize(texts.size());
  for (const Class& all : classes) {
    for (const size_t member : all.members) {
      shared.calls[member].function = shared.functions.size();
    }
    shared.functions.push_back(
        FunctionOf(all, texts[all.members[0]], &shared.calls));
  }
  return shared;
}

}  // namespace nodewise::emit_c
