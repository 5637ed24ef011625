#include "apps/nodewise/command.h"

#include <algorithm>
#include <array>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Help fits a terminal of 80 columns. Most options with their placeholders fit
// before column 24; a longer one has its description on the next line.
constexpr size_t kHelpColumn = 24;
constexpr size_t kLineWidth = 80;

// Breaks `help` into lines that fit after the column of names.
std::string Wrapped(std::string_view help) {
  std::string text;
  size_t column = kHelpColumn;
  while (!help.empty()) {
    const size_t length = std::min(help.find(' '), help.size());
    if (column > kHelpColumn && column + 1 + length >= kLineWidth) {
      text += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    }
    if (column > kHelpColumn) {
      text += ' ';
      ++column;
    }
    text += help.substr(0, length);
    column += length;
    help.remove_prefix(std::min(length + 1, help.size()));
  }
  return text + "\n";
}

// A limit that is left open is not worth a word in the message.
absl::Status StoreNumber(const std::string& name, const std::string& text,
                         const NumberOption& number) {
  uint64_t value = 0;
  if (ReadNumber(text, &value) && value >= number.least &&
      value <= number.most) {
    *number.value = value;
    return absl::OkStatus();
  }
  return InvalidArgument(
      "{} is \"{}\", expected a whole number from {}{}", name, text,
      number.least,
      number.most == UINT64_MAX ? "" : fmt::format(" to {}", number.most));
}

// Puts what CLI11 has found behind an option where its verb wants it; `texts`
// is empty for an option that was left out. Flags have been set already.
absl::Status Store(const CommandOption& option,
                   std::vector<std::string> texts) {
  if (option.is_positional() && texts.empty()) {
    return InvalidArgument("{} is missing", option.name);
  }
  // An unset variable of a shell script must not pass for an option that was
  // left out.
  if (std::count(texts.begin(), texts.end(), "") > 0) {
    return InvalidArgument(
        "{} is empty, expected {}", option.name,
        option.placeholder.empty() ? option.name : option.placeholder);
  }
  if (texts.empty()) return absl::OkStatus();
  if (const auto* number = std::get_if<NumberOption>(&option.value)) {
    return StoreNumber(option.name, texts[0], *number);
  }
  if (auto* const* text = std::get_if<std::string*>(&option.value)) {
    **text = std::move(texts[0]);
  } else if (option.takes_many()) {
    *std::get<std::vector<std::string>*>(option.value) = std::move(texts);
  }
  return absl::OkStatus();
}

// CLI11 throws exceptions; they end here.
absl::Status ParseWith(CLI::App* app,
                       const std::vector<std::string>& arguments) {
  try {
    // CLI11 wants them in reverse.
    app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ArgumentMismatch& error) {
    // "--lib: 1 required TEXT missing", or an option that came twice.
    const std::string name(error.what(), std::string(error.what()).find(':'));
    const auto times = std::count(arguments.begin(), arguments.end(), name);
    return absl::InvalidArgumentError(
        times > 1
            ? fmt::format("{} is given {} times, expected once", name, times)
            : fmt::format("{} has no value", name));
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return absl::OkStatus();
}

}  // namespace

// A name may hold two: "-o,--output".
bool CommandOption::IsCalled(const std::string& one) const {
  return ("," + name + ",").find("," + one + ",") != std::string::npos;
}

// CLI11 knows the options and finds their values. It is given no positionals:
// what it leaves over is sorted here, for messages that say what was meant.
absl::Status OptionList::Parse(
    const std::vector<std::string>& arguments) const {
  NODEWISE_RETURN_IF_ERROR(CheckFlags(arguments));
  CLI::App app;
  app.set_help_flag();
  // Other arguments are returned as they are: CLI11 would report a misspelt
  // option's value as one positional too many.
  app.allow_extras();
  std::vector<std::vector<std::string>> given(options_.size());
  for (size_t i = 0; i < options_.size(); ++i) {
    const CommandOption& known = options_[i];
    if (known.is_positional()) continue;
    if (known.is_flag()) {
      app.add_flag(known.name, *std::get<bool*>(known.value));
      continue;
    }
    CLI::Option* const option = app.add_option(known.name, given[i]);
    if (!known.takes_many()) option->expected(1);
    option->allow_extra_args(known.takes_rest);  // Else one value each time.
  }
  NODEWISE_RETURN_IF_ERROR(ParseWith(&app, arguments));
  NODEWISE_RETURN_IF_ERROR(SortRest(app.remaining(), &given));
  for (size_t i = 0; i < options_.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(Store(options_[i], std::move(given[i])));
  }
  return absl::OkStatus();
}

// CLI11 takes "--json=no" and "--json=" for the flag.
absl::Status OptionList::CheckFlags(
    const std::vector<std::string>& arguments) const {
  for (auto it = arguments.begin(); it != arguments.end() && *it != "--";
       ++it) {
    const size_t equals = it->find('=');
    const std::string name = it->substr(0, equals);
    const CommandOption* const option = Find(name);
    if (option == nullptr) continue;
    const bool has_value = equals != std::string::npos;
    if (!option->is_flag()) {
      // The argument behind an option is its value, even if it looks like one.
      if (!has_value && it + 1 != arguments.end()) ++it;
    } else if (has_value) {
      return InvalidArgument("{} is given the value \"{}\", expected none",
                             name, it->substr(equals + 1));
    }
  }
  return absl::OkStatus();
}

const CommandOption* OptionList::Find(const std::string& name) const {
  const auto found =
      std::ranges::find_if(options_, [&](const CommandOption& known) {
        return !known.is_positional() && known.IsCalled(name);
      });
  return found == options_.end() ? nullptr : &*found;
}

// Goes through the arguments option by option, each with its values, and keeps
// or leaves them together.
std::vector<std::string> OptionList::SharedWith(
    const OptionList& other, const std::vector<std::string>& arguments,
    const std::vector<std::string>& except) const {
  std::vector<std::string> shared;
  auto places =
      std::ranges::count_if(other.options_, &CommandOption::is_positional);
  for (size_t i = 0; i < arguments.size();) {
    const std::string& first = arguments[i];
    const size_t equals = first.find('=');
    const CommandOption* const ours = Find(first.substr(0, equals));
    size_t count = 1;
    if (ours != nullptr && !ours->is_flag() && equals == std::string::npos) {
      ++count;
      while (ours->takes_rest && i + count < arguments.size() &&
             !arguments[i + count].starts_with("-")) {
        ++count;
      }
    }
    count = std::min(count, arguments.size() - i);
    const bool is_excepted =
        ours != nullptr && std::ranges::any_of(except, [&](const auto& name) {
          return ours->IsCalled(name);
        });
    // `run --reference` takes no value, `locate --reference` does.
    const CommandOption* const theirs = other.Find(first.substr(0, equals));
    const bool means_as_much = ours != nullptr && theirs != nullptr &&
                               !is_excepted &&
                               ours->value.index() == theirs->value.index();
    if (ours == nullptr ? places-- > 0 : means_as_much) {
      shared.insert(shared.end(), arguments.begin() + i,
                    arguments.begin() + i + count);
    }
    i += count;
  }
  return shared;
}

// What begins with a dash is a misspelt option, unless it stands behind "--".
absl::Status OptionList::SortRest(
    const std::vector<std::string>& rest,
    std::vector<std::vector<std::string>>* given) const {
  // A single dash is a value: for --text it stands for stdout.
  std::vector<std::string> names;
  for (const CommandOption& option : options_) names.push_back(option.name);
  const auto dashes = std::find(rest.begin(), rest.end(), "--");
  for (auto it = rest.begin(); it != dashes; ++it) {
    if (it->size() < 2 || (*it)[0] != '-') continue;
    const std::string name = it->substr(0, it->find('='));
    return InvalidArgument("unknown option {}{}", name,
                           DidYouMean(name, names));
  }
  // Positionals take one argument each, in the order of their declaration; the
  // last one takes what is left, if it takes many.
  size_t place = 0;
  for (auto it = rest.begin(); it != rest.end(); ++it) {
    if (it == dashes) continue;
    while (place < options_.size() &&
           (!options_[place].is_positional() ||
            (!(*given)[place].empty() && !options_[place].takes_many()))) {
      ++place;
    }
    if (place == options_.size()) {
      return InvalidArgument(
          "{} is one argument too many{}", *it,
          it->ends_with(".json")
              ? " (--json prints; --archive FILE writes a file)"
              : "");
    }
    (*given)[place].push_back(*it);
  }
  return absl::OkStatus();
}

// Options are too many to be named here; help lists them.
std::string OptionList::Usage() const {
  std::string usage;
  for (const CommandOption& option : options_) {
    if (!option.is_positional()) continue;
    usage += " " + option.name + (option.takes_many() ? "..." : "");
  }
  return usage + " [options]";
}

std::string OptionList::Help() const {
  std::string help;
  for (const CommandOption& option : options_) {
    std::string line = "  " + option.name;
    if (!option.placeholder.empty()) line += " " + option.placeholder;
    if (line.size() + 2 > kHelpColumn) {
      line += "\n" + std::string(kHelpColumn, ' ');
    } else {
      line.append(kHelpColumn - line.size(), ' ');
    }
    help += line + Wrapped(option.help);
  }
  return help;
}

CommandOption AllLinesOption(bool* all) {
  return {"--all", "", "every line of lists that are cut otherwise", all};
}

// The bound is that of the thread pool, which knows no more tasks.
CommandOption ThreadsOption(std::optional<uint64_t>* threads) {
  return {"--threads", "N", "threads for the compiled code's parallel loops",
          NumberOption{threads, 1, kMaxTasks}};
}

void UseThreads(const std::optional<uint64_t>& threads) {
  if (threads.has_value()) SetNumThreads(static_cast<int>(*threads));
}

// The message names one option even if several are wrong: the user takes them
// away one by one, or reads the page of the verb.
absl::Status RefuseGiven(const GivenOptions& options, std::string_view before,
                         std::string_view after) {
  for (const auto& [is_given, name] : options) {
    if (!is_given) continue;
    return InvalidArgument("{}{}{}", before, name, after);
  }
  return absl::OkStatus();
}

absl::Status BadValue(std::string_view option, std::string_view found,
                      std::string_view expected) {
  return InvalidArgument("{}: found \"{}\", expected {}", option, found,
                         expected);
}

bool ReadShard(std::string_view text, uint64_t* part, uint64_t* parts) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos &&
         ReadNumber(text.substr(0, slash), part) &&
         ReadNumber(text.substr(slash + 1), parts) && *part >= 1 &&
         *part <= *parts;
}

absl::Span<const CommandRow> Commands() {
  // Not at namespace scope: the rows of other files might be made later.
  static const std::array rows = {
      kDemoCommand,     kRunCommand,     kProfileCommand, kDumpCommand,
      kCompareCommand,  kLocateCommand,  kAlignCommand,   kReproCommand,
      kVerifyCommand,   kInspectCommand, kConvertCommand, kExtractCommand,
      kAutotestCommand, kAdapterCommand, kReportCommand,
  };
  return rows;
}

}  // namespace nodewise
