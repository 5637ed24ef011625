#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nodewise/diagnose/operation_times.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/profile/profile.h"
#include "nodewise/report/report.h"
#include "nodewise/session/session.h"

namespace nodewise {

// Where the time of a run went, in the words of the model: by kind of operator
// and by module. Only in builds with USE_PROFILER.

enum class ProfileGrouping { kKind, kModule };

// All nodes of one kind, or of one module.
struct ProfileGroup {
  std::string name;  // "Conv+Relu", "layer1/conv2"; empty: in no module.
  size_t nodes = 0;
  double mean_us = 0;
  double percent = 0;  // A part of the sum of all nodes.
};

// Returns the groups, the longest first. A node's kind is that of the
// operations in it, where the model is at hand; else it is its function's name
// without the numbers by which compilers tell functions apart. A node's module
// is that in which its operations are by what the model's exporter has noted;
// else what the names of its operations, or its own, have in common before
// their last slash. It is cut to `depth` parts; 0: as many as it takes to tell
// two apart.
std::vector<ProfileGroup> GroupProfile(const Session& session,
                                       const ProfileSummary& summary,
                                       ProfileGrouping grouping,
                                       size_t depth = 0);

// Shows both groupings: as a table the one that is asked for, with all its
// rows; else the longest kinds in a line. The document has `by_kind` and
// `by_module`.
void ShowProfileGroups(const Session& session, const ProfileSummary& summary,
                       std::optional<ProfileGrouping> asked, size_t depth,
                       Report* report);

// The nodes of two builds that do the same work, and whether it takes as long.
struct ProfileChange {
  std::vector<std::string> before, after;  // Keys; one may be empty.
  double before_us = 0, after_us = 0;      // Medians.
  // How probable such a difference is if there is none, after correction for
  // the number of rows (Wilcoxon's signed ranks, Holm). 1 where one side is
  // empty.
  double p = 1;

  bool is_paired() const { return !before.empty() && !after.empty(); }
};

// Pairs the nodes of two builds by the operations that they say are in them,
// or by their names, and compares their times. Runs of the two must have been
// made in turns: those with the same number belong together.
std::vector<ProfileChange> CompareProfiles(const GraphIndex& before,
                                           const Profile& profile_before,
                                           const GraphIndex& after,
                                           const Profile& profile_after);

// Shows them, the largest change first; one that is certain but less than a
// fiftieth of the time before counts as none. At most so many rows; 0: all. The
// document has `changes`.
void ShowProfileChanges(std::vector<ProfileChange> changes,
                        const std::string& before, const std::string& after,
                        size_t most, Report* report);

// Shows how long a program takes for each operation alone, the longest first,
// by kind, and what their sum says about the plain run. At most so many rows;
// 0: all. The document has `operations_alone`.
void ShowOperationTimes(const ProgramTimes& times, size_t most, Report* report);

}  // namespace nodewise
