#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace nodewise {

// The options and arguments that a command accepts; the only code that reads
// command lines. The values must outlive the list.
class OptionList {
 public:
  // Accepts whole numbers from `least` to `most`.
  struct Number {
    std::optional<uint64_t>* value;
    uint64_t least = 0;
    uint64_t most = UINT64_MAX;
  };

  // Adds required arguments without a name. A vector takes one or more and must
  // come last.
  void AddPositional(std::string name, std::string help, std::string* value);
  void AddPositional(std::string name, std::string help,
                     std::vector<std::string>* value);
  // Adds an option: `name` is "--lib"; `placeholder` stands for its value in
  // help. An option with a vector may be given again.
  void AddFlag(std::string name, std::string help, bool* value);
  void AddText(std::string name, std::string placeholder, std::string help,
               std::string* value);
  void AddTexts(std::string name, std::string placeholder, std::string help,
                std::vector<std::string>* value);
  // Adds an option that takes all values that follow it, up to the next option.
  void AddList(std::string name, std::string placeholder, std::string help,
               std::vector<std::string>* value);
  void AddNumber(std::string name, std::string placeholder, std::string help,
                 Number value);

  // Fills in the values. Fails with kInvalidArgument, with what was found and
  // the nearest option, for anything that is not accepted.
  absl::Status Parse(const std::vector<std::string>& arguments) const;

  // Returns those of a command line's arguments that `other` takes, too, but
  // for the options called in `except`: positionals, and options with their
  // values. REQUIRES: this list parses the arguments.
  std::vector<std::string> SharedWith(
      const OptionList& other, const std::vector<std::string>& arguments,
      const std::vector<std::string>& except) const;

  // " TARGET [options]", and the lines that describe each option.
  std::string Usage() const;
  std::string Help() const;

 private:
  struct Row {
    std::string name;
    std::string placeholder;  // For an option with a value.
    std::string help;
    std::variant<bool*, std::string*, std::vector<std::string>*, Number> value;
    bool takes_rest = false;  // All values that follow.

    bool is_positional() const { return name[0] != '-'; }
    bool takes_many() const {
      return std::holds_alternative<std::vector<std::string>*>(value);
    }
    // `name` may hold two: "-o,--output".
    bool IsCalled(const std::string& one) const;
    std::string Left() const;  // "--lib FILE"
  };

  // Returns the row of that name, or null.
  const Row* Find(const std::string& name) const;
  // CLI11 takes "--json=no" and "--json=" for the flag.
  absl::Status CheckFlags(const std::vector<std::string>& arguments) const;
  static absl::Status Store(const Row& row, std::vector<std::string> texts);
  // Assigns what is not an option to the positionals.
  absl::Status SortRest(const std::vector<std::string>& rest,
                        std::vector<std::vector<std::string>>* given) const;

  std::vector<Row> rows_;
};

}  // namespace nodewise
