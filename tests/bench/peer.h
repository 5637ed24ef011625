#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace nodewise {

// A process that answers each line that it is sent with one of its own. It ends
// with its input, so it lives as long as this object.
class Peer {
 public:
  // `command` is the program and its arguments.
  explicit Peer(const std::vector<std::string>& command);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // These end this program if the process has ended.
  std::string AskText(const std::string& line);
  double Ask(const std::string& line);

  pid_t process() const { return process_; }

 private:
  pid_t process_ = 0;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

// Starts a program whose standard output is thrown away.
pid_t StartSilently(const std::vector<std::string>& command);
// Waits for the end of a program that was started; true if it exits with 0.
bool EndsWell(pid_t process);
// Runs a program to its end; true if it exits with 0.
bool RunProgram(const std::vector<std::string>& command);

}  // namespace nodewise
