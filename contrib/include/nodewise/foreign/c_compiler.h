#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/support/temporary.h"

namespace nodewise {

// A C compiler that is known to work here, with a temporary folder for what it
// makes. Whether a failure is that of the source or of the machine is its
// question: only the first says something about who wrote the source.
class CCompiler {
 public:
  // `command` is a program with arguments, split as exec:COMMAND is; no shell
  // sees it. Empty: $CC, or cc. Has it compile a trivial file. Fails with
  // kUnavailable where that does not work: there is no such program, no
  // temporary folder or no room in it, or no compiler that makes libraries.
  static absl::StatusOr<std::shared_ptr<const CCompiler>> Create(
      std::string_view command = "");

  // Makes a library of the source, with "-O2" say, and returns its path; the
  // caller removes it. Fails with kAborted, and what the compiler says, if the
  // compiler does not take this source, and with kUnavailable if it would not
  // take any. A forked child may call, too.
  absl::StatusOr<std::string> Compile(std::string_view source,
                                      std::string_view optimisation) const;

 private:
  CCompiler(ForeignCommand command, TemporaryFolder folder);
  absl::StatusOr<std::string> Run(std::string_view source,
                                  std::string_view optimisation) const;
  absl::Status Try() const;

  const ForeignCommand command_;
  const TemporaryFolder folder_;
};

}  // namespace nodewise
