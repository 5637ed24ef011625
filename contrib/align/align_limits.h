#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace nodewise {

// All numbers that the search was tuned with, by what they decide, and the
// clock that ends it; how long a search may take, and how many changes it may
// try, is in SearchLimits. A distance is the largest difference between two
// tensors over the largest number of the network's tensor, with the worst set
// of inputs. What halving and doubling each constant does to a sample of
// builds, `./dev measure --constants align` says (docs/align_constants.md).

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// --- Whether a compiled tensor is one of the network's (tensor_match) ---

// Rounding errors of a whole network, and faults so small that one still knows
// the tensor again: so many units of rounding of the shorter type, and no less
// than a hundredth, which only float16 and coarser numbers exceed.
inline constexpr double kRecognisedRoundings = 64;
inline constexpr double kRecognisedLeast = 0.01;
// A tenth of the largest number is where a tensor ends to be known again,
// however coarse its numbers are: many tensors are that near to each other. No
// distance is allowed beyond it, and no part of a tensor may lie so far outside
// of the range of the whole.
inline constexpr double kFarthestKnown = 0.1;
// A layout is compared in so many elements before it is in all: most tensors
// that might match are told apart by these.
inline constexpr int64_t kSampledElements = 64;
// The likeness of two tensors is judged from so many elements, since wrong
// numbers have to be told from others by their correlation, which a few
// elements do not show.
inline constexpr int64_t kLikenessElements = 4096;
// Fewer different numbers than these are in many tensors in some order, or as a
// part.
inline constexpr size_t kManyNumbers = 16;
// Numbers that match only once they are sorted have to be this near: in order,
// those of any two tensors of one distribution are near each other.
inline constexpr double kSameWhenSorted = 1e-5;
// A match is as good as the nearest one within this factor, or if both are less
// than what float32 rounds: rounding makes one of two equal tensors a little
// nearer.
inline constexpr double kAsNearTimes = 2;
inline constexpr double kAsNearLeast = 1e-6;
// So much a layout that compilers use adds to the likeness of wrong numbers,
// which is 1 at most: as much as a moderate likeness, and less for elements
// that keep their order in another shape.
inline constexpr double kUsualLayoutBonus = 0.5;
inline constexpr double kSameOrderBonus = 0.3;

// --- Integers that stand for floats (tensor_match) ---

// Clipping and rounding to some steps change the spread of the numbers by no
// more than this share between two sets of inputs.
inline constexpr double kStepsDiffer = 0.3;
// 64-bit integers are indices and shapes, never quantised numbers.
inline constexpr size_t kMostQuantisedBytes = 4;
// Fewer pairs of numbers lie near some line by chance.
inline constexpr double kFewestPairs = 8;
// The least correlation of integers with the floats that they stand for.
inline constexpr double kQuantisedLikeness = 0.95;
// Powers of two below this one are common numbers, not the end of a range.
inline constexpr double kLeastRangeEnd = 8;
// A number may be off by half a step, and a little more since the scale is
// fitted.
inline constexpr double kHalfStep = 0.5 + 1e-3;

// --- How coarsely numbers are rounded (precision) ---

// Right tensors that one or a few operations make of the same numbers are no
// further apart than so many units of rounding: long sums in another order, and
// functions that are approximated, are some hundred units off. For float32
// that is a distance of 3e-5.
inline constexpr double kCleanRoundings = 512;
// The roundoff that is assumed at least where rounding decides, about that of
// float32: nothing that a node reads was rounded if it is all integers.
inline constexpr double kFloatRoundoff = 6e-8;
// A few thousand numbers show how they were made as well as all do.
inline constexpr int64_t kTellingElements = 8192;
// With fewer different sizes than these, numbers are multiples of some step and
// numbers of every type.
inline constexpr size_t kFewestTelling = 6;
// Numbers that were quantised to 12 bits have that many steps, and with more of
// them the numbers of any float are multiples of some step.
inline constexpr size_t kMostSteps = 4096;
// How far a number may be from a multiple of the step, in steps; and how near
// two numbers are one that was rounded twice, as a share of the largest.
inline constexpr double kNearMultiple = 0.02;
inline constexpr double kSameSize = 1e-5;
// A sum that is this much smaller than what was added has cancelled: twelve of
// its bits are gone.
inline constexpr double kCancelledShare = 1.0 / 4096;
// A step that is found again in other numbers may be a little longer.
inline constexpr double kCoarserTimes = 1.5;
// Constants with fewer elements are factors and zero points, not weights.
inline constexpr int64_t kFewestWeights = 16;
// How coarse weights of eight bits are.
inline constexpr double kEightBits = 1.0 / 256;
// Numbers that are compiled and those that the reference reads differ by a few
// roundings, which fall otherwise each time. Where rounding decides, the
// reference is computed so many times with inputs moved by as much, and the
// entry may be off by twice as much as the worst of them.
inline constexpr double kMovedRoundings = 16;
inline constexpr uint64_t kMovedTries = 2;
inline constexpr double kMovedTimes = 2;

// --- How far the walk looks (alignment, graph_walk, value_locate) ---

// One compiled node seldom covers more operations in a row. Where more lie
// between two matched entries, it is unclear of which one an entry is a part.
inline constexpr size_t kMostOperationsOfNode = 16;
// Each of these is computed and compared for every entry behind a fault.
inline constexpr size_t kMostReachable = 96;
// A compiler takes no operation apart into more nodes, so those further before
// an entry have nothing to do with it.
inline constexpr size_t kMostNodesOfOperation = 16;
// No compiler does more operations than these a second time.
inline constexpr size_t kMostDoneTwice = 8;

// --- Which tensor a wrong entry should have held (blame_search) ---

// The first entries from a suspect on are tried: a compiler takes the operation
// that it begins apart into fewer nodes than this.
inline constexpr size_t kMostSuspectEntries = 6;
// The tensors that are tried for one entry, those for which it has another
// size, and the layouts of each. The guesses that are right come early, and
// each costs a walk through what is behind.
inline constexpr size_t kMostGuessedTensors = 32;
inline constexpr size_t kMostWrongSizes = 8;
inline constexpr size_t kMostLayouts = 3;
// The nodes behind an entry are judged one by one until 8 are explained or 12
// are not: one operation may be a dozen nodes. So a share of 1 is about 8 nodes
// at most, not about all that are behind.
inline constexpr size_t kMostFollowers = 8;
inline constexpr size_t kMostUnexplained = 12;
// Operations behind the best guess that are tried instead of it: a chain that
// keeps wrong numbers as they are is short.
inline constexpr int kMostStepsOn = 4;
// Sums in another order round otherwise, here as a share of the norm in double.
inline constexpr double kSameNorm = 1e-9;
// Entries behind one with a small error are so much nearer if the entry
// is taken for the tensor that it seems to be.
inline constexpr double kNearMissTimes = 4;
// An entry that holds another tensor than it should is tried as so many
// tensors; and so many such entries are looked at before a node.
inline constexpr size_t kMostMisread = 16;

// --- Culprits and their names (value_locate) ---

// More culprits than these mean that the model is another one.
inline constexpr size_t kMostCulprits = 16;
// A guess with which so many of the next nodes are right says something.
inline constexpr double kMostAreRight = 0.5;
// A suspect that only a change can explain is taken for so many tensors, and
// tried with so many guesses of its size and of another one. All are few
// operations away: changes of long regions explain by chance.
inline constexpr size_t kMostNearGuesses = 4;
inline constexpr size_t kMostNearOperations = 8;
// More names than these do not answer anything.
inline constexpr size_t kMostNamed = 4;

// --- Changes that explain a culprit (operation_edits, region_edits) ---

// A double has no larger integers exactly.
inline constexpr double kLargestInteger = 9e15;
// Integers of so few elements are shapes and axes, where one may be wrong.
inline constexpr size_t kFewIntegers = 8;
// To change larger constants takes longer than there is time.
inline constexpr int64_t kMostEditedNumbers = int64_t{1} << 23;
// The number with few digits that is said may be so far from the fitted one.
inline constexpr double kRoundNumberNear = 1e-3;
// Steps of Gauss and Newton. Each takes two runs of what is behind the
// operation, and no number fits that has not been found by then.
inline constexpr int kMostFitSteps = 8;
// How far the number is moved to see what depends on it: far enough to be seen
// beside rounding, near enough to be linear.
inline constexpr double kFitProbe = 1e-3;

// --- Layouts (layout) ---

// With more sides than this that are larger than 1, only their own order and
// blocks of it are tried: 720 transpositions of six are quickly told apart by
// a few elements each, 5,040 of seven are not.
inline constexpr size_t kMostTransposedSides = 6;
// Blocks are tried together with transpositions of up to so many sides.
inline constexpr size_t kMostTransposedBlocks = 4;

// --- Inputs that are drawn (similar_inputs) ---

// As many numbers as fit RandomSource::Between().
inline constexpr int64_t kMostChoices = int64_t{1} << 31;
// With so many different numbers, others drawn among them are like new ones.
inline constexpr size_t kManyChoices = 64;
// One number alone may be anything within this share of its size.
inline constexpr double kNeighbourhood = 0.5;
// So rare, special numbers leave enough others in a tensor to be judged by.
inline constexpr int64_t kOneSpecialIn = 64;

// Until when something is tried. A plain value.
class TimeLimit {
 public:
  TimeLimit(int64_t (*clock)(), int64_t most_ns)
      : clock_(clock), end_ns_(clock() + most_ns) {}

  bool IsOver() const { return clock_() >= end_ns_; }
  // Returns a limit after one of so many equal parts of what is left.
  TimeLimit Part(size_t parts) const {
    const int64_t now = clock_();
    const int64_t left_ns = end_ns_ > now ? end_ns_ - now : 0;
    return {clock_, left_ns / static_cast<int64_t>(parts)};
  }

 private:
  int64_t (*clock_)();
  int64_t end_ns_;
};

}  // namespace nodewise
