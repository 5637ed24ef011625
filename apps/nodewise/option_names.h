#pragma once

namespace nodewise {

// Has the messages of the libraries name options of the command.
void UseOptionNames();

}  // namespace nodewise
