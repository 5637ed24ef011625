#pragma once

#include <string>
#include <vector>

#include "apps/nodewise/command.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/session/session.h"

namespace nodewise {

// --stand-in REGEX
void AddStandInOption(OptionList* options,
                      std::vector<std::string>* expressions);

// Shows the nodes that the reference computes; nothing if there are none.
void ShowStandIns(const Session& loaded, Outcome* outcome);

}  // namespace nodewise
