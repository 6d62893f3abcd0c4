#pragma once

#include <string>
#include <string_view>

namespace sluice::runtime {

/// A kernel's name as a person reads it, at most 80 bytes: from "void a::(anonymous
/// namespace)::scan<a::Float4>(a::Args)" it leaves "scan<Float4>".
std::string readable_kernel_name(std::string_view demangled);

}  // namespace sluice::runtime
