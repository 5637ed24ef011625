#pragma once

#include <string>
#include <vector>

#include "apps/nodewise/command.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/locate/referee.h"
#include "nodewise/locate/side_difference.h"

namespace nodewise {

// Adds an error where nothing was found and an input holds a NaN, which nobody
// can judge beyond. For ways to search that do not look at what nodes read.
void ShowGivenNan(absl::Span<const NamedTensor> inputs, Outcome* outcome);

// Shows the culprits, then how many nodes have which verdict, then whether the
// outputs differ; and sets the status. The document has `culprits` and
// `verdicts`.
void ShowLocated(const LocateResult& result, Outcome* outcome);

// Does the same for a search that judged only some nodes: without the counts of
// verdicts.
void ShowCulprits(const LocateResult& result, Outcome* outcome);

// As ShowLocated(), and adds to the document what could not be observed.
void ShowLocatedInNetwork(const NetworkLocated& located, Outcome* outcome);

// Shows whom the referee agrees with about each culprit that it was asked
// about. The document has `referee`. Nothing without a referee (empty).
void ShowReferee(const std::string& referee, const LocateResult& result,
                 const std::vector<RefereeOpinion>& opinions, Outcome* outcome);

// As ShowLocated(), then whom the definitions of the operators stand with. The
// document has `referee`, as with ShowReferee().
void ShowOutsideLocated(const OutsideLocated& located, Outcome* outcome);

// Shows what differs before anything has run, and sets the status if anything
// does. The document has `differences`.
void ShowSideDifferences(const std::vector<SideDifference>& differences,
                         Outcome* outcome);

}  // namespace nodewise
