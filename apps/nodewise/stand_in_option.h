#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/option_list.h"

namespace nodewise {

// --stand-in REGEX
void AddStandInOption(OptionList* options,
                      std::vector<std::string>* expressions);

// Puts the reference in the place of the nodes that the expressions choose, and
// notes which. Fails as ChooseNodes(), and for a model that is no graph.
absl::Status StandIn(const std::vector<std::string>& expressions,
                     LoadedTarget* loaded);

// Shows the nodes that the reference computes; nothing if there are none.
void ShowStandIns(const LoadedTarget& loaded, Outcome* outcome);

}  // namespace nodewise
