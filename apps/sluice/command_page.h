#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sluice::app {

/// Every command of a program as a page of Markdown, made from what --help prints.
std::string command_page(const CLI::App& program);

}  // namespace sluice::app
