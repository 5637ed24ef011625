#include "nodewise/foreign/c_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/matchers.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

class CCompilerTest : public testing::Test {
 protected:
  CCompilerTest() { fs::create_directories(folder_); }
  ~CCompilerTest() override {
    unsetenv("TMPDIR");
    unsetenv("CC");
    fs::remove_all(folder_);
  }

  // Writes a compiler that runs these lines before the real one.
  std::string Script(const std::string& name, const std::string& lines) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\nexec cc \"$@\"\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  const std::string folder_ =
      testing::TempDir() + "c_compiler_test_" + std::to_string(getpid());
};

TEST_F(CCompilerTest, SourceThatIsNotCIsItsOwnFault) {
  const auto compiler = CCompiler::Create();
  ASSERT_THAT(compiler, IsOk());
  EXPECT_THAT((*compiler)->Compile("this is not C\n", "-O2"),
              FailsWith(StatusCode::kAborted, HasSubstr("error")));
  EXPECT_THAT((*compiler)->Compile("int f(void) { return 1; }\n", "-O2"),
              IsOk());
}

TEST_F(CCompilerTest, NothingIsLeftOfIt) {
  setenv("TMPDIR", folder_.c_str(), 1);
  {
    const auto compiler = CCompiler::Create();
    ASSERT_THAT((*compiler)->Compile("int f(void) { return 1; }\n", "-O2"),
                IsOk());
    EXPECT_FALSE(fs::is_empty(folder_));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(CCompilerTest, ProgramThatCompilesNothingIsTheMachinesFault) {
  for (const char* command : {"false", "true", "/no/such/cc", "/dev/null"}) {
    EXPECT_THAT(CCompiler::Create(command),
                FailsWith(StatusCode::kUnavailable, HasSubstr("set CC")))
        << command;
  }
}

TEST_F(CCompilerTest, CommandInTheEnvironmentHasArguments) {
  setenv("CC", ("'" + Script("my cc", "") + "'  -DONE=1 \t").c_str(), 1);
  const auto compiler = CCompiler::Create();
  ASSERT_THAT(compiler, IsOk());
  EXPECT_THAT((*compiler)->Compile("int f(void) { return ONE; }\n", "-O2"),
              IsOk());
}

TEST_F(CCompilerTest, NoShellSeesTheCommand) {
  const std::string proof = folder_ + "/proof";
  const auto compiler = CCompiler::Create("cc; touch " + proof);
  EXPECT_THAT(compiler, FailsWith(StatusCode::kUnavailable, HasSubstr("cc;")));
  EXPECT_FALSE(fs::exists(proof));
}

TEST_F(CCompilerTest, TemporaryFolderMayHaveAnyName) {
  const std::string odd = folder_ + "/a 'b' $(touch c) \"d\" ;e\n";
  fs::create_directories(odd);
  setenv("TMPDIR", odd.c_str(), 1);
  const auto compiler = CCompiler::Create();
  ASSERT_THAT(compiler, IsOk());
  EXPECT_THAT((*compiler)->Compile("int f(void) { return 1; }\n", "-O2"),
              IsOk());
}

TEST_F(CCompilerTest, WithoutATemporaryFolderTheMachineIsAtFault) {
  setenv("TMPDIR", "/dev/null", 1);
  EXPECT_THAT(CCompiler::Create(),
              FailsWith(StatusCode::kUnavailable,
                        AllOf(HasSubstr("/dev/null"), HasSubstr("TMPDIR"))));
}

TEST_F(CCompilerTest, FullDiskIsTheMachinesFaultThoughASmallFileFits) {
  const std::string script = Script(
      "full",
      "for file; do case $file in *.c)\n"
      "  grep -q large \"$file\" && { echo 'as: /tmp/x.s: No space left on "
      "device' >&2; exit 1; };;\nesac; done");
  const auto compiler = CCompiler::Create(script);
  ASSERT_THAT(compiler, IsOk());
  EXPECT_THAT((*compiler)->Compile("int large;\n", "-O2"),
              FailsWith(StatusCode::kUnavailable, HasSubstr("No space left")));
}

TEST_F(CCompilerTest, CompilerThatBreaksLaterIsTheMachinesFault) {
  const std::string script =
      Script("later", "[ -e " + folder_ + "/broken ] && exit 1");
  const auto compiler = CCompiler::Create(script);
  ASSERT_THAT(compiler, IsOk());
  std::ofstream(folder_ + "/broken") << "";
  EXPECT_THAT((*compiler)->Compile("int f(void) { return 1; }\n", "-O2"),
              FailsWith(StatusCode::kUnavailable, HasSubstr("status 1")));
}

}  // namespace
}  // namespace nodewise
