#pragma once

#include <string>

namespace nodewise {

// Each measures, prints lines that begin with `name`, and returns whether all
// results are within their limits.

// A run of 1,000 small nodes against a loop of calls.
bool BenchDispatchOne(const std::string& name);
bool BenchDispatchTwo(const std::string& name);
bool BenchDispatchThousand(const std::string& name);
bool BenchFfiDispatchOne(const std::string& name);
bool BenchFfiDispatchTwo(const std::string& name);
bool BenchFfiDispatchThousand(const std::string& name);

// Parameters from a file into an executor against one memcpy into fresh memory,
// also of huge pages.
bool BenchLoad40(const std::string& name);
bool BenchLoad160(const std::string& name);
bool BenchLoadHugePages(const std::string& name);
// The anonymous memory that loading takes beyond the tensors.
bool BenchLoadMemory(const std::string& name);

// 100,000 nodes parsed, checked and planned against a JSON document alone.
bool BenchParse(const std::string& name);

// An empty launch of two tasks against a round trip between two threads.
bool BenchParallelRun(const std::string& name);
bool BenchParallelLaunch(const std::string& name);

// A look at the floating-point environment against reading its registers.
bool BenchFloatLook(const std::string& name);

// What the debug executor costs on top of a plain run: the time of every node,
// the statistics of every entry, a full dump, and the memory for it.
bool BenchDebugFixture(const std::string& name);
bool BenchDebugLarge(const std::string& name);
bool BenchDebugChain(const std::string& name);
// The fixed costs of each run and each node, however small the tensors.
bool BenchDebugFixedCost(const std::string& name);

// The reference interpreter against ONNX's reference evaluator: time, memory,
// and that their outputs are the same. Skipped where that is not installed.
bool BenchInterpreterResidualNet(const std::string& name);
bool BenchInterpreterEncoder(const std::string& name);
bool BenchInterpreterChain(const std::string& name);
bool BenchInterpreterPackaged(const std::string& name);
// The reference judging a run of the fastest kernels, with lazy bounds, against
// a plain run of the interpreter; beside it what all bounds cost.
bool BenchJudgedResidualNet(const std::string& name);
bool BenchJudgedEncoder(const std::string& name);
// `nodewise locate` against the sum of `run` and `run --reference`, and against
// Polygraphy's comparison of all tensors, in time and peak memory; the latter
// is skipped where it is not installed.
bool BenchLocateResidualNet(const std::string& name);
bool BenchLocatePolygraphy(const std::string& name);
// The peak memory of `nodewise locate --method recursive` against four times
// the largest set of tensors alive at once and 32 MiB.
bool BenchRecursiveMemory(const std::string& name);
// A run of a folder that `nodewise convert` made against a run of the model, in
// peak memory and processor time: the larger of both ratios.
bool BenchFolder(const std::string& name);
// A graph with oneDNN's kernels against onnxruntime, with one and two threads,
// and from the start of the process; and against the interpreter.
bool BenchOneDnnResidualNet(const std::string& name);
bool BenchOneDnnEncoder(const std::string& name);
// The metrics of two tensors of 100,000,000 elements against reading both once
// on two threads; those of int8 against as many float32, and those of float32
// against numpy's expressions, which are skipped where that is not installed.
bool BenchCompareFloat32(const std::string& name);
bool BenchCompareFloat16(const std::string& name);
bool BenchCompareBfloat16(const std::string& name);
bool BenchCompareInt8(const std::string& name);
bool BenchCompareNumpy(const std::string& name);
// Random tests of operators against a loop of torch and numpy, in processor
// time for one set of values: with kernels of this process, whose own time is
// not counted, gradients too; and with oneDNN's, which are created for each
// configuration. Skipped where Debian's torch is not installed.
bool BenchAutotestBuiltIn(const std::string& name);
bool BenchAutotestGradients(const std::string& name);
bool BenchAutotestOneDnn(const std::string& name);
// What the Python package adds to a run in microseconds, and the time until the
// tensors of a dump of 10,000 can be asked for, against the library's. Skipped
// where the native module was not built.
bool BenchPythonRun(const std::string& name);
bool BenchPythonDump(const std::string& name);
// Runs a network in the VM of today's TVM and here, in turns.
bool BenchModernChain(const std::string& name);
bool BenchModernConvnet(const std::string& name);

}  // namespace nodewise
