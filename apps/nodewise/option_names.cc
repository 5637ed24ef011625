#include "apps/nodewise/option_names.h"

#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

std::string_view OptionOf(Way way) {
  switch (way) {
    case Way::kLibraryFile:
      return "--lib";
    case Way::kFunction:
      return "--function";
    case Way::kMachine:
      return "--target";
    case Way::kUnfused:
      return "--no-fuse";
    case Way::kDims:
      return "--dim";
    case Way::kFreeze:
      return "--freeze";
    case Way::kInputs:
      return "--inputs FILE";
    case Way::kOpaqueProgram:
      return "--opaque ort";
    case Way::kSanitizer:
      return "nodewise run --sanitize";
    case Way::kMoreTime:
      return "--node-timeout";
    case Way::kRecovery:
      return "nodewise inspect --recover";
    case Way::kNodeTable:
      return "nodewise profile --csv";
    case Way::kEveryLine:
      return "--all";
    case Way::kCounters:
      return "nodewise profile --counter";
    case Way::kNodeByNode:
      return "locate --method auto";
    case Way::kModelBeside:
      return "nodewise locate --reference MODEL.onnx";
    case Way::kSeed:
      return "--seed";
    case Way::kWholeDocument:
      return "--json";
    case Way::kKeep:
      return "--keep";
    case Way::kVerification:
      return "nodewise verify";
    case Way::kRuntimeOption:
      return "--runtime-option";
    case Way::kModelOfProgram:
      return "--model FILE";
    case Way::kReference:
      return "--reference";
    case Way::kMethod:
      return "--method";
    case Way::kRepeats:
      return "--repeats";
    case Way::kExactInputs:
      return "--inputs exact";
    case Way::kReferee:
      return "--referee";
    case Way::kStrict:
      return "--strict";
    case Way::kLearning:
      return "nodewise adapter learn";
    case Way::kKnownFile:
      return "--known";
    case Way::kReproFolder:
      return "--repro";
    case Way::kAnonymous:
      return "--anonymous";
    case Way::kInputSets:
      return "--sets";
    case Way::kSpecialInputs:
      return "--special-inputs";
    case Way::kTrust:
      return "--trust";
    case Way::kThird:
      return "--third";
    case Way::kSeries:
      return "--series";
    case Way::kSamples:
      return "--samples";
    case Way::kMostSamples:
      return "--worst";
    case Way::kMostCulprits:
      return "--top";
  }
  return "";
}

}  // namespace

void UseOptionNames() { SetNamesOfWays(&OptionOf); }

}  // namespace nodewise
