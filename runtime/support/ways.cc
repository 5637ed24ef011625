#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

std::string_view NameInCpp(Way way) {
  switch (way) {
    case Way::kLibraryFile:
      return "ArtefactFiles::library";
    case Way::kFunction:
      return "ArtefactFiles::function";
    case Way::kMachine:
      return "VerifyOptions::device_types";
    case Way::kUnfused:
      return "LowerOptions::fuse";
    case Way::kDims:
      return "ImportOptions::dims";
    case Way::kFreeze:
      return "ImportOptions::freeze";
    case Way::kInputs:
      return "TargetSpec::inputs";
    case Way::kOpaqueProgram:
      return "SetOpaqueRunner()";
    case Way::kSanitizer:
      return "Sanitize()";
    case Way::kMoreTime:
      return "node_limit_ms";
    case Way::kRecovery:
      return "`nodewise inspect --recover`";
    case Way::kNodeTable:
      return "GraphIndex::keys()";
    case Way::kEveryLine:
      return "";
    case Way::kCounters:
      return "`nodewise profile --counter`";
    case Way::kNodeByNode:
      return "LocateInTarget()";
    case Way::kModelBeside:
      return "LocateByValue()";
    case Way::kSeed:
      return "AutotestOptions::seed";
    case Way::kWholeDocument:
      return "the document";
    case Way::kKeep:
      return "PrecisionSpec::keep";
    case Way::kVerification:
      return "VerifyNetwork()";
    case Way::kRuntimeOption:
      return "ProgramSpec::options";
    case Way::kModelOfProgram:
      return "ProgramSpec::model";
    case Way::kReference:
      return "Question::reference:";
    case Way::kMethod:
      return "Question::method";
    case Way::kRepeats:
      return "Question::repeats";
    case Way::kExactInputs:
      return "Question::uses_exact_inputs";
    case Way::kReferee:
      return "Question::referee";
    case Way::kStrict:
      return "Question::is_strict";
    case Way::kLearning:
      return "LearnDeviations()";
    case Way::kKnownFile:
      return "Question::known_file";
    case Way::kReproFolder:
      return "Question::repro_folder";
    case Way::kAnonymous:
      return "Question::is_anonymous";
    case Way::kInputSets:
      return "Question::input_sets";
    case Way::kSpecialInputs:
      return "Question::has_special_inputs";
    case Way::kTrust:
      return "Question::trust";
    case Way::kThird:
      return "Question::third";
    case Way::kSeries:
      return "Reference::builds";
    case Way::kSamples:
      return "TargetSpec::samples";
    case Way::kMostSamples:
      return "Question::most_samples";
    case Way::kMostCulprits:
      return "ReportOf()";
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
