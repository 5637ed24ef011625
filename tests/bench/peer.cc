#include "tests/bench/peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "absl/strings/numbers.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

// Starts a program; its standard input and output are those given, or ours.
pid_t Start(const std::vector<std::string>& command, int in, int out) {
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (in >= 0) posix_spawn_file_actions_adddup2(&actions, in, 0);
  if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, 1);
  pid_t process = 0;
  const int error = posix_spawnp(&process, words[0], &actions, nullptr,
                                 words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

}  // namespace

Peer::Peer(const std::vector<std::string>& command) {
  int to[2];
  int from[2];
  // Closed on exec: a pipe that another peer holds too would never end.
  NODEWISE_CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
  process_ = Start(command, to[0], from[1]);
  NODEWISE_CHECK(process_ > 0);
  close(to[0]);
  close(from[1]);
  to_ = fdopen(to[1], "w");
  from_ = fdopen(from[0], "r");
}

Peer::~Peer() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(process_, nullptr, 0);
}

std::string Peer::AskText(const std::string& line) {
  NODEWISE_CHECK(std::fprintf(to_, "%s\n", line.c_str()) > 0);
  NODEWISE_CHECK(std::fflush(to_) == 0);
  std::array<char, 4096> answer;
  NODEWISE_CHECK(std::fgets(answer.data(), answer.size(), from_) != nullptr);
  std::string text = answer.data();
  NODEWISE_CHECK(text.ends_with('\n'));
  text.pop_back();
  return text;
}

double Peer::Ask(const std::string& line) {
  double number = 0;
  NODEWISE_CHECK(absl::SimpleAtod(AskText(line), &number));
  return number;
}

pid_t StartSilently(const std::vector<std::string>& command) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  NODEWISE_CHECK(nowhere >= 0);
  const pid_t process = Start(command, -1, nowhere);
  close(nowhere);
  NODEWISE_CHECK(process > 0);
  return process;
}

bool EndsWell(pid_t process) {
  int status = 0;
  return process > 0 && waitpid(process, &status, 0) == process &&
         WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool RunProgram(const std::vector<std::string>& command) {
  return EndsWell(Start(command, -1, -1));
}

}  // namespace nodewise
