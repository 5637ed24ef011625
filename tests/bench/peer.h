#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace nodewise {

// A process that does the same thing again and again. It is sent a line and
// answers with a number on one:
//   run           does it; how many nanoseconds that took
//   PATH.npy      the same, and writes its first output there
//   memory        the most bytes of memory that it has ever had
// It lives as long as this object.
class Peer {
 public:
  // `command` is the program and its arguments. Its threads are two, whichever
  // library counts them.
  explicit Peer(const std::vector<std::string>& command);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // Ends this program if the process has ended.
  double Ask(const std::string& line);

 private:
  pid_t process_ = 0;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

// Runs a program to its end; true if it exits with 0.
bool RunProgram(const std::vector<std::string>& command);

}  // namespace nodewise
