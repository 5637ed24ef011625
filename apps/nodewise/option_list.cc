#include "apps/nodewise/option_list.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

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

absl::Status BadNumber(const std::string& name, const std::string& found,
                       const OptionList::Number& number) {
  const std::string range =
      number.most == UINT64_MAX
          ? fmt::format("a whole number from {}", number.least)
          : fmt::format("a whole number from {} to {}", number.least,
                        number.most);
  return absl::InvalidArgumentError(
      fmt::format("{} is \"{}\", expected {}", name, found, range));
}

absl::Status ReadNumber(const std::string& name, const std::string& text,
                        const OptionList::Number& number) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < number.least ||
      value > number.most) {
    return BadNumber(name, text, number);
  }
  *number.value = value;
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

bool OptionList::Row::IsCalled(const std::string& one) const {
  return ("," + name + ",").find("," + one + ",") != std::string::npos;
}

std::string OptionList::Row::Left() const {
  return placeholder.empty() ? name : name + " " + placeholder;
}

void OptionList::AddPositional(std::string name, std::string help,
                               std::string* value) {
  rows_.push_back({std::move(name), "", std::move(help), value});
}

void OptionList::AddPositional(std::string name, std::string help,
                               std::vector<std::string>* value) {
  rows_.push_back({std::move(name), "", std::move(help), value});
}

void OptionList::AddFlag(std::string name, std::string help, bool* value) {
  rows_.push_back({std::move(name), "", std::move(help), value});
}

void OptionList::AddText(std::string name, std::string placeholder,
                         std::string help, std::string* value) {
  rows_.push_back(
      {std::move(name), std::move(placeholder), std::move(help), value});
}

void OptionList::AddTexts(std::string name, std::string placeholder,
                          std::string help, std::vector<std::string>* value) {
  rows_.push_back(
      {std::move(name), std::move(placeholder), std::move(help), value});
}

void OptionList::AddList(std::string name, std::string placeholder,
                         std::string help, std::vector<std::string>* value) {
  rows_.push_back(
      {std::move(name), std::move(placeholder), std::move(help), value, true});
}

void OptionList::AddNumber(std::string name, std::string placeholder,
                           std::string help, Number value) {
  rows_.push_back(
      {std::move(name), std::move(placeholder), std::move(help), value});
}

absl::Status OptionList::Parse(
    const std::vector<std::string>& arguments) const {
  NODEWISE_RETURN_IF_ERROR(CheckFlags(arguments));
  CLI::App app;
  app.set_help_flag();
  // Other arguments are returned as they are: CLI11 would report a misspelt
  // option's value as one positional too many.
  app.allow_extras();
  std::vector<std::vector<std::string>> given(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.is_positional()) continue;
    if (const auto* flag = std::get_if<bool*>(&row.value)) {
      app.add_flag(row.name, **flag);
      continue;
    }
    CLI::Option* const option = app.add_option(row.name, given[i]);
    if (!row.takes_many()) option->expected(1);
    option->allow_extra_args(row.takes_rest);  // Else one value each time.
  }
  NODEWISE_RETURN_IF_ERROR(ParseWith(&app, arguments));
  NODEWISE_RETURN_IF_ERROR(SortRest(app.remaining(), &given));
  for (size_t i = 0; i < rows_.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(Store(rows_[i], std::move(given[i])));
  }
  return absl::OkStatus();
}

absl::Status OptionList::CheckFlags(
    const std::vector<std::string>& arguments) const {
  for (auto it = arguments.begin(); it != arguments.end() && *it != "--";
       ++it) {
    const size_t equals = it->find('=');
    const std::string name = it->substr(0, equals);
    const Row* const row = Find(name);
    if (row == nullptr) continue;
    const bool has_value = equals != std::string::npos;
    if (!std::holds_alternative<bool*>(row->value)) {
      // The argument behind an option is its value, even if it looks like one.
      if (!has_value && it + 1 != arguments.end()) ++it;
    } else if (has_value) {
      return absl::InvalidArgumentError(
          fmt::format("{} is given the value \"{}\", expected none", name,
                      it->substr(equals + 1)));
    }
  }
  return absl::OkStatus();
}

const OptionList::Row* OptionList::Find(const std::string& name) const {
  const auto row =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& known) {
        return !known.is_positional() && known.IsCalled(name);
      });
  return row == rows_.end() ? nullptr : &*row;
}

std::vector<std::string> OptionList::SharedWith(
    const OptionList& other, const std::vector<std::string>& arguments,
    const std::vector<std::string>& except) const {
  std::vector<std::string> shared;
  auto places =
      std::count_if(other.rows_.begin(), other.rows_.end(),
                    [](const Row& known) { return known.is_positional(); });
  for (size_t i = 0; i < arguments.size();) {
    const std::string& first = arguments[i];
    const size_t equals = first.find('=');
    const Row* const row = Find(first.substr(0, equals));
    size_t count = 1;
    if (row != nullptr && !std::holds_alternative<bool*>(row->value) &&
        equals == std::string::npos) {
      ++count;
      while (row->takes_rest && i + count < arguments.size() &&
             !arguments[i + count].starts_with("-")) {
        ++count;
      }
    }
    count = std::min(count, arguments.size() - i);
    const bool is_excepted =
        row != nullptr &&
        std::any_of(except.begin(), except.end(), [&](const std::string& name) {
          return row->IsCalled(name);
        });
    // `run --reference` takes no value, `locate --reference` does.
    const Row* const theirs = other.Find(first.substr(0, equals));
    const bool means_as_much = row != nullptr && theirs != nullptr &&
                               !is_excepted &&
                               row->value.index() == theirs->value.index();
    if (row == nullptr ? places-- > 0 : means_as_much) {
      shared.insert(shared.end(), arguments.begin() + i,
                    arguments.begin() + i + count);
    }
    i += count;
  }
  return shared;
}

absl::Status OptionList::Store(const Row& row, std::vector<std::string> texts) {
  if (row.is_positional() && texts.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} is missing", row.name));
  }
  // An unset variable of a shell script must not pass for an option that was
  // left out.
  if (std::count(texts.begin(), texts.end(), "") > 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} is empty, expected {}", row.name,
                    row.placeholder.empty() ? row.name : row.placeholder));
  }
  if (texts.empty()) return absl::OkStatus();
  if (const auto* number = std::get_if<Number>(&row.value)) {
    return ReadNumber(row.name, texts[0], *number);
  }
  if (auto* const* text = std::get_if<std::string*>(&row.value)) {
    **text = std::move(texts[0]);
  } else if (auto* const* list =
                 std::get_if<std::vector<std::string>*>(&row.value)) {
    **list = std::move(texts);
  }
  return absl::OkStatus();
}

absl::Status OptionList::SortRest(
    const std::vector<std::string>& rest,
    std::vector<std::vector<std::string>>* given) const {
  std::vector<std::string> names;
  for (const Row& row : rows_) names.push_back(row.name);
  const auto dashes = std::find(rest.begin(), rest.end(), "--");
  for (auto it = rest.begin(); it != dashes; ++it) {
    if (it->size() < 2 || (*it)[0] != '-') continue;
    const std::string name = it->substr(0, it->find('='));
    return absl::InvalidArgumentError(
        fmt::format("unknown option {}{}", name, DidYouMean(name, names)));
  }
  size_t row = 0;
  for (auto it = rest.begin(); it != rest.end(); ++it) {
    if (it == dashes) continue;
    while (row < rows_.size() &&
           (!rows_[row].is_positional() ||
            (!(*given)[row].empty() && !rows_[row].takes_many()))) {
      ++row;
    }
    if (row == rows_.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{} is one argument too many{}", *it,
                      it->ends_with(".json")
                          ? " (--json prints; --archive FILE writes a file)"
                          : ""));
    }
    (*given)[row].push_back(*it);
  }
  return absl::OkStatus();
}

std::string OptionList::Usage() const {
  std::string usage;
  for (const Row& row : rows_) {
    if (!row.is_positional()) continue;
    usage += " " + row.name + (row.takes_many() ? "..." : "");
  }
  return usage + " [options]";
}

std::string OptionList::Help() const {
  std::string help;
  for (const Row& row : rows_) {
    std::string line = "  " + row.Left();
    if (line.size() + 2 > kHelpColumn) {
      line += "\n" + std::string(kHelpColumn, ' ');
    } else {
      line.append(kHelpColumn - line.size(), ' ');
    }
    help += line + Wrapped(row.help);
  }
  return help;
}

}  // namespace nodewise
