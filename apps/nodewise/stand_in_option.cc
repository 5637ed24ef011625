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

void ShowStandIns(const Session& session, Outcome* outcome) {
  if (session.stand_ins.empty()) return;
  outcome->text += fmt::format("{} computed by the reference: {}\n",
                               CountOf(session.stand_ins.size(), "node"),
                               ListOf(session.stand_ins));
  outcome->json.Add("stand_ins", session.stand_ins);
}

}  // namespace nodewise
