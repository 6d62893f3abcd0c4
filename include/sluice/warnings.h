#pragma once

#include <functional>
#include <string_view>

namespace sluice {

/// Takes the library's warnings, each one sentence without a line end: the call goes on, but its
/// caller should know. Empty: they are lines "sluice: warning: ..." on standard error. Called on
/// the thread that called the library, during that call; one that is given to several threads must
/// be thread-safe. It must not throw.
using WarningHandler = std::function<void(std::string_view warning)>;

}  // namespace sluice
