#include "apps/nodewise/stand_in_option.h"

#include "fmt/format.h"
#include "nodewise/support/words.h"

namespace nodewise {

void AddStandInOption(OptionList* options,
                      std::vector<std::string>* expressions) {
  options->AddTexts("--stand-in", "REGEX",
                    "has the reference compute the nodes in whose name, key or "
                    "function it is found; may be repeated",
                    expressions);
}

void ShowStandIns(const LoadedTarget& loaded, Outcome* outcome) {
  if (loaded.stand_ins.empty()) return;
  outcome->text += fmt::format("{} computed by the reference: {}\n",
                               CountOf(loaded.stand_ins.size(), "node"),
                               ListOf(loaded.stand_ins));
  outcome->json.Add("stand_ins", loaded.stand_ins);
}

}  // namespace nodewise
