#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Splits a command; the rules are in the header.
class CommandSplitter {
 public:
  explicit CommandSplitter(std::string_view text) : rest_(text) {}

  // Returns false if a quote or a \ has no end.
  bool Split() {
    while (!rest_.empty()) {
      const char c = Next();
      if (c == ' ' || c == '\t') {
        EndWord();
        continue;
      }
      // A pair of quotes makes a word, also one without characters.
      has_word_ = true;
      if (c == '\'' || c == '"') {
        if (!TakeQuoted(c)) return false;
      } else if (c == '\\') {
        if (rest_.empty()) return false;
        word_ += Next();
      } else {
        word_ += c;
      }
    }
    EndWord();
    return true;
  }

  std::vector<std::string> TakeWords() { return std::move(words_); }

 private:
  char Next() {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  bool TakeQuoted(char quote) {
    while (!rest_.empty()) {
      char c = Next();
      if (c == quote) return true;
      const bool is_escape = quote == '"' && c == '\\' && !rest_.empty() &&
                             (rest_[0] == '"' || rest_[0] == '\\');
      if (is_escape) c = Next();
      word_ += c;
    }
    return false;
  }

  void EndWord() {
    if (has_word_) words_.push_back(std::exchange(word_, ""));
    has_word_ = false;
  }

  std::string_view rest_;
  std::string word_;
  bool has_word_ = false;
  std::vector<std::string> words_;
};

}  // namespace

absl::StatusOr<ForeignCommand> ParseForeignCommand(std::string_view text) {
  CommandSplitter splitter(text);
  if (!splitter.Split()) {
    return absl::InvalidArgumentError(fmt::format(
        "command {}: ends within quotes or after a backslash, expected their "
        "end",
        Printable(text)));
  }
  ForeignCommand command;
  command.arguments = splitter.TakeWords();
  if (command.arguments.empty() || command.arguments[0].empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "command \"{}\": has no program, expected one", Printable(text)));
  }
  command.name =
      std::filesystem::path(command.arguments[0]).filename().string();
  return command;
}

}  // namespace nodewise
