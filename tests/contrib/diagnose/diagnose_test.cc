#include "nodewise/diagnose/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "nodewise/diagnose/answer.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/lower/region.h"
#include "nodewise/report/answer_report.h"
#include "tests/contrib/diagnose/diagnose_support.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// "size", or the node that is called so little as fused_1 where it is silent.
bool IsTheCulprit(const NamedCulprit& culprit) {
  const std::string& node = culprit.finding.node()->key;
  return node.starts_with("size") || node.starts_with("fused_1");
}

// What a question needs of each kind; the dumps last as long.
struct Cases {
  std::shared_ptr<const Network> right = ThreeOperations();
  std::shared_ptr<const Network> wrong = ThreeOperations("Neg");
  DumpOf speaking_dump{Lying(*right, *wrong)};
  DumpOf silent_dump{Silent(*wrong)};
  DumpOf right_dump{Speaking(*right)};
  DumpOf right_silent_dump{Silent(*right)};

  Session SubjectOf(Subject subject) const {
    TargetSpec program = SpecOfNetwork(right);
    program.program = ProgramFor(wrong);
    switch (subject) {
      case Subject::kSpeaking:
        return Opened(SpecOfGraph(Lying(*right, *wrong)));
      case Subject::kSilent:
        return Opened(SpecOfGraph(Silent(*wrong)));
      case Subject::kSpeakingDump:
        return Opened(speaking_dump.spec());
      case Subject::kSilentDump:
        return Opened(silent_dump.spec());
      case Subject::kProgram:
        return Opened(program);
    }
    return {};
  }

  void SetBeside(Beside beside, Question* question) const {
    Reference& reference = question->reference;
    const bool is_silent = DeclaresNoRegion(question->target);
    const auto build = is_silent ? Silent(*right, "right") : Speaking(*right);
    switch (beside) {
      case Beside::kDefinitions:
        return;
      case Beside::kModel:
        reference.kind = Reference::Kind::kModel;
        reference.spec = SpecOfNetwork(right);
        reference.spec.lowering.fuses = false;
        return;
      case Beside::kThirdBuild:
        question->third = SpecOfGraph(Silent(*right, "third"));
        [[fallthrough]];
      case Beside::kBuild:
        reference = BuildReference(SpecOfGraph(build));
        return;
      case Beside::kBuilds:
        reference.kind = Reference::Kind::kBuilds;
        reference.builds = {SpecOfGraph(build),
                            SpecOfGraph(is_silent ? Silent(*wrong, "wrong")
                                                  : Lying(*right, *wrong))};
        if (question->target.target == nullptr) return;
        question->target = Opened(reference.builds[0]);
        return;
      case Beside::kProgram:
        reference.kind = Reference::Kind::kProgram;
        reference.spec = SpecOfNetwork(right);
        reference.spec.program = ProgramFor(right);
        return;
      case Beside::kDump:
        reference.kind = Reference::Kind::kDump;
        reference.spec = nodewise::SubjectOf(question->target).value() ==
                                 Subject::kSilentDump
                             ? right_silent_dump.spec()
                             : right_dump.spec();
        return;
    }
  }
};

TEST(SearchTableTest, EveryPairHasOneCell) {
  std::set<std::pair<Subject, Beside>> cells;
  for (const SearchRow& row : SearchTable()) {
    EXPECT_TRUE(cells.emplace(row.subject, row.beside).second)
        << TitleOf(row.subject) << " by " << TitleOf(row.beside);
    EXPECT_FALSE(row.words.empty());
  }
  EXPECT_THAT(cells, SizeIs(5 * 7));
}

TEST(DiagnoseTest, EveryAnsweredCellNamesTheCulprit) {
  const Cases cases;
  for (const SearchRow& row : SearchTable()) {
    // Two models have a test of their own, since their graphs must differ.
    if (row.search == Search::kNone || row.search == Search::kModels) continue;
    SCOPED_TRACE(std::string(TitleOf(row.subject)) + " by " +
                 std::string(TitleOf(row.beside)));
    // A silent node that neither crashes nor hangs says nothing alone.
    if (row.subject == Subject::kSilent && row.beside == Beside::kDefinitions) {
      continue;
    }
    Question question;
    question.target = cases.SubjectOf(row.subject);
    cases.SetBeside(row.beside, &question);
    const auto answer = Diagnose(question);
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->search, row.search);
    EXPECT_EQ(answer->state, Answer::State::kWrong);
    ASSERT_THAT(answer->culprits, SizeIs(1));
    EXPECT_TRUE(IsTheCulprit(answer->culprits[0]))
        << answer->culprits[0].finding.ToString();
    EXPECT_THAT(answer->did, Not(IsEmpty()));
  }
}

TEST(DiagnoseTest, ModelsWhoseGraphsDifferAreComparedLayerByLayer) {
  const auto right = ThreeOperations();
  TargetSpec target = SpecOfNetwork(ThreeOperations("Neg"));
  TargetSpec in_program = target;
  in_program.program = ProgramFor(target.network);
  Reference model{Reference::Kind::kModel, SpecOfNetwork(right)};
  Reference program{Reference::Kind::kProgram, SpecOfNetwork(right)};
  program.spec.program = ProgramFor(right);
  for (const TargetSpec& one : {target, in_program}) {
    for (const Reference& reference : {model, program}) {
      Question question;
      question.target = Opened(one);
      question.reference = reference;
      const auto answer = Diagnose(question);
      ASSERT_THAT(answer, IsOk());
      EXPECT_EQ(answer->search, Search::kModels);
      EXPECT_EQ(answer->state, Answer::State::kWrong);
      ASSERT_THAT(answer->culprits, SizeIs(1));
      EXPECT_TRUE(IsTheCulprit(answer->culprits[0]))
          << answer->culprits[0].finding.ToString();
    }
  }
}

TEST(DiagnoseTest, AProgramBesideItsOwnModelIsJudgedByThatModel) {
  const Cases cases;
  Question question;
  question.target = cases.SubjectOf(Subject::kProgram);
  cases.SetBeside(Beside::kModel, &question);
  const auto answer = Diagnose(question);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->search, Search::kProgramNodes);
  ASSERT_THAT(answer->culprits, SizeIs(1));
  EXPECT_TRUE(IsTheCulprit(answer->culprits[0]));
}

TEST(DiagnoseTest, TwoProgramsWithOneModelNeedTheModelItself) {
  const Cases cases;
  Question question;
  question.target = cases.SubjectOf(Subject::kProgram);
  cases.SetBeside(Beside::kProgram, &question);
  EXPECT_THAT(Diagnose(question),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("both programs run one model")));
}

TEST(DiagnoseTest, CellsWithoutAnAnswerSayWhatWouldMakeItPossible) {
  const Cases cases;
  for (const SearchRow& row : SearchTable()) {
    if (row.search != Search::kNone) continue;
    SCOPED_TRACE(std::string(TitleOf(row.subject)) + " by " +
                 std::string(TitleOf(row.beside)));
    Question question;
    question.target = cases.SubjectOf(row.subject);
    cases.SetBeside(row.beside, &question);
    EXPECT_THAT(Diagnose(question),
                FailsWith(absl::StatusCode::kFailedPrecondition,
                          AllOf(HasSubstr(std::string(TitleOf(row.subject))),
                                HasSubstr(std::string(row.words)))));
  }
}

TEST(DiagnoseTest, ASoundNetworkIsRightByAnyReference) {
  const auto right = ThreeOperations();
  for (const Reference& reference :
       {Reference(), BuildReference(SpecOfGraph(Speaking(*right)))}) {
    Question question;
    question.target = Opened(SpecOfGraph(Speaking(*right)));
    question.reference = reference;
    const auto answer = Diagnose(question);
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->state, Answer::State::kRight);
    EXPECT_THAT(answer->culprits, IsEmpty());
    EXPECT_THAT(answer->verdicts, SizeIs(3));
  }
}

TEST(DiagnoseTest, ASilentNetworkAloneNeedsSomethingBesideIt) {
  Question question;
  question.target = Opened(SpecOfGraph(Silent(*ThreeOperations())));
  EXPECT_THAT(Diagnose(question),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("expected what to compare them with")));
}

TEST(DiagnoseTest, WhatMeansNothingForASearchIsRefusedByName) {
  Question question;
  question.target = Opened(SpecOfGraph(Speaking(*ThreeOperations())));
  question.input_sets = 3;
  EXPECT_THAT(Diagnose(question),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("Question::input_sets: means nothing for")));
  question.input_sets.reset();
  question.method = Method::kBisect;
  question.repeats = 3;
  EXPECT_THAT(Diagnose(question),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("Question::repeats: means nothing with "
                                  "Question::method bisect")));
}

TEST(DiagnoseTest, AMethodThatASubjectDoesNotHaveIsRefused) {
  Question question;
  question.target = Opened(SpecOfGraph(Speaking(*ThreeOperations())));
  question.method = Method::kReplay;
  EXPECT_THAT(Diagnose(question),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("Question::method replay: does not judge")));
}

// A network whose text no other test has.
std::shared_ptr<const Network> FiveOperations() {
  NetBuilder b;
  ValueId value = b.In("x", {8});
  for (const char* const kind : {"Neg", "Abs", "Tanh", "Exp", "Neg"}) {
    const std::string name = fmt::format("five{}", Index(value));
    value = b.Op(kind, {value}, {}, {}, name)[0];
  }
  b.Out({value});
  return std::make_shared<const Network>(b.net);
}

TEST(DiagnoseTest, WhatASearchOnFiveNodesNeedsIsBuiltOnce) {
  const auto target = Speaking(*FiveOperations());
  const TextMemo& texts = AllOperators().memo();
  const int64_t texts_before = texts.count_made();
  const int64_t indices_before = GraphIndex::CountMade();
  Question question;
  question.target = Opened(SpecOfGraph(target));
  ASSERT_THAT(Diagnose(question), IsOk());
  EXPECT_EQ(texts.count_made() - texts_before, 5);
  // The target's, and those of the two executors, each of which runs a graph
  // of its own: as it was compiled, and with tensors as little aligned as may
  // be.
  EXPECT_EQ(GraphIndex::CountMade() - indices_before, 3);
}

TEST(DiagnoseTest, EveryMethodNamesTheNode) {
  const auto right = ThreeOperations();
  const auto wrong = ThreeOperations("Neg");
  for (const Method method :
       {Method::kIntermediate, Method::kBisect, Method::kRecursive}) {
    SCOPED_TRACE(NameOf(method));
    Question question;
    question.target = Opened(SpecOfGraph(Lying(*right, *wrong)));
    question.method = method;
    const auto answer = Diagnose(question);
    ASSERT_THAT(answer, IsOk());
    ASSERT_THAT(answer->culprits, SizeIs(1));
    EXPECT_EQ(answer->culprits[0].finding.node()->key, "size");
    EXPECT_EQ(answer->culprits[0].finding.kind, verdict_kinds::kBroken);
  }
}

TEST(DiagnoseTest, WhatTheModelSaysInsteadIsToldBeforeAnythingRuns) {
  Question question;
  question.target = Opened(SpecOfGraph(Speaking(*ThreeOperations("Neg"))));
  question.reference =
      BuildReference(SpecOfGraph(Speaking(*ThreeOperations())));
  const auto answer = Diagnose(question);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->state, Answer::State::kWrong);
  ASSERT_TRUE(answer->evidence.differences.has_value());
  EXPECT_THAT(*answer->evidence.differences, SizeIs(1));
  EXPECT_FALSE(answer->evidence.located.has_value());
}

TEST(DiagnoseTest, BetweenTwoDumpsWhatIsBehindTheFirstWrongNodeFollows) {
  const DumpOf wrong(Silent(*ThreeOperations("Neg")));
  const DumpOf right(Silent(*ThreeOperations()));
  Question question;
  question.target = Opened(wrong.spec());
  question.reference.kind = Reference::Kind::kDump;
  question.reference.spec = right.spec();
  const auto answer = Diagnose(question);
  ASSERT_THAT(answer, IsOk());
  ASSERT_THAT(answer->culprits, SizeIs(1));
  EXPECT_EQ(answer->culprits[0].finding.kind, verdict_kinds::kDiffers);
  ASSERT_THAT(answer->verdicts, SizeIs(3));
  EXPECT_EQ(answer->verdicts[0].kind, "alike");
  EXPECT_EQ(answer->verdicts[1].kind, "differs");
  EXPECT_EQ(answer->verdicts[2].kind, "follows");
  EXPECT_THAT(SentenceOf(*answer),
              StartsWith("fused_1 is the first that differs though all that it "
                         "reads is alike"));
  const Report report = ReportOf(*answer);
  EXPECT_THAT(report.text.ToString(),
              AllOf(HasSubstr("begins at  fused_1: what it reads is alike, and "
                              "what it makes is not\n"),
                    HasSubstr("1 node follows: ")));
}

TEST(DiagnoseTest, DumpsOfDifferentGraphsAreRefused) {
  const DumpOf three(Silent(*ThreeOperations()));
  const DumpOf five(Silent(*FiveOperations(), "five"));
  Question question;
  question.target = Opened(three.spec());
  question.reference.kind = Reference::Kind::kDump;
  question.reference.spec = five.spec();
  EXPECT_THAT(Diagnose(question),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("expected dumps of the same graph")));
}

TEST(DiagnoseTest, WithoutTrustABuildIsOnlySaidToDiffer) {
  Question question;
  question.target = Opened(SpecOfGraph(Silent(*ThreeOperations("Neg"))));
  question.reference =
      BuildReference(SpecOfGraph(Silent(*ThreeOperations(), "other")));
  const auto answer = Diagnose(question);
  ASSERT_THAT(answer, IsOk());
  ASSERT_THAT(answer->culprits, SizeIs(1));
  EXPECT_EQ(answer->culprits[0].kind, "differs");
  EXPECT_EQ(answer->culprits[0].finding.kind, verdict_kinds::kDiffers);
  EXPECT_THAT(answer->notes,
              testing::Contains(HasSubstr("which of the two is right")));
}

TEST(DiagnoseTest, ACulpritThatCannotBecomeAFolderIsNamedAllTheSame) {
  const TemporaryFolder folder = TemporaryFolder::Create("diagnose").value();
  Question question;
  // Its functions are in memory alone.
  question.target = Opened(SpecOfGraph(Silent(*ThreeOperations("Neg"))));
  question.reference.kind = Reference::Kind::kModel;
  question.reference.spec = SpecOfNetwork(ThreeOperations());
  question.repro_folder = folder.path() + "/culprits";
  const auto answer = Diagnose(question);
  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(answer->culprits, SizeIs(1));
  const size_t said = answer->doubts.size() + answer->repros->notes.size();
  EXPECT_EQ(said, 1) << "the reason why it has none";
}

TEST(DiagnoseTest, TheReportHasAllOfIt) {
  Question question;
  question.target = Opened(SpecOfGraph(Silent(*ThreeOperations("Neg"))));
  question.reference.kind = Reference::Kind::kModel;
  question.reference.spec = SpecOfNetwork(ThreeOperations());
  const auto answer = Diagnose(question);
  ASSERT_THAT(answer, IsOk());
  const Report report = ReportOf(*answer);
  EXPECT_EQ(report.status, Report::Status::kDiffers);
  EXPECT_THAT(report.text.ToString(),
              AllOf(HasSubstr("culprit: fused_1, broken\n"),
                    HasSubstr("explained by  size: Neg instead of Abs"),
                    HasSubstr("3 function nodes: 1 broken, 2 healthy\n")));
}

}  // namespace
}  // namespace nodewise
