#include "nodewise/support/ways.h"

#include <cstddef>
#include <iterator>

namespace nodewise {
namespace {

struct WayRow {
  Way way;
  std::string_view name;
};

// What a C++ program sets, calls or reads; a command where the C++ API has
// nothing of the kind. Programs with options bring a table of their own.
constexpr WayRow kNamesInCpp[] = {
    {Way::kLibraryFile, "ArtefactFiles::library"},
    {Way::kFunction, "ArtefactFiles::function"},
    {Way::kMachine, "VerifyOptions::device_types"},
    {Way::kUnfused, "LowerOptions::fuse"},
    {Way::kDims, "ImportOptions::dims"},
    {Way::kFreeze, "ImportOptions::freeze"},
    {Way::kInputs, "TargetSpec::inputs"},
    {Way::kOpaqueProgram, "SetOpaqueRunner()"},
    {Way::kSanitizer, "Sanitize()"},
    {Way::kMoreTime, "node_limit_ms"},
    {Way::kRecovery, "`nodewise inspect --recover`"},
    {Way::kNodeTable, "GraphIndex::keys()"},
    {Way::kEveryLine, ""},
    {Way::kCounters, "`nodewise profile --counter`"},
    {Way::kNodeByNode, "LocateInTarget()"},
    {Way::kModelBeside, "LocateByValue()"},
    {Way::kSeed, "AutotestOptions::seed"},
    {Way::kWholeDocument, "the document"},
    {Way::kKeep, "PrecisionSpec::keep"},
    {Way::kVerification, "VerifyNetwork()"},
    {Way::kRuntimeOption, "ProgramSpec::options"},
    {Way::kModelOfProgram, "ProgramSpec::model"},
    {Way::kReference, "Question::reference:"},
    {Way::kMethod, "Question::method"},
    {Way::kRepeats, "Question::repeats"},
    {Way::kExactInputs, "Question::uses_exact_inputs"},
    {Way::kReferee, "Question::referee"},
    {Way::kStrict, "Question::is_strict"},
    {Way::kLearning, "LearnDeviations()"},
    {Way::kKnownFile, "Question::known_file"},
    {Way::kReproFolder, "Question::repro_folder"},
    {Way::kAnonymous, "Question::is_anonymous"},
    {Way::kInputSets, "Question::input_sets"},
    {Way::kSpecialInputs, "Question::has_special_inputs"},
    {Way::kTrust, "Question::trust"},
    {Way::kThird, "Question::third"},
    {Way::kSeries, "Reference::builds"},
    {Way::kSamples, "TargetSpec::samples"},
    {Way::kMostSamples, "Question::most_samples"},
    {Way::kMostCulprits, "ReportOf()"},
};

static_assert(std::size(kNamesInCpp) ==
              static_cast<size_t>(Way::kMostCulprits) + 1);

std::string_view NameInCpp(Way way) {
  for (const WayRow& row : kNamesInCpp) {
    if (row.way == way) return row.name;
  }
  return "";
}

std::string_view (*names_of_ways)(Way way) = &NameInCpp;

}  // namespace

std::string_view NameOf(Way way) { return names_of_ways(way); }

void SetNamesOfWays(std::string_view (*names)(Way way)) {
  names_of_ways = names;
}

}  // namespace nodewise
