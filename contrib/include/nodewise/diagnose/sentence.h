#pragma once

#include <string>

#include "nodewise/diagnose/answer.h"

namespace nodewise {

// Returns what a colleague would say of an answer: who is wrong, why, and
// whether that is all. In one sentence; empty where the search says it better.
std::string SentenceOf(const Answer& answer);

}  // namespace nodewise
