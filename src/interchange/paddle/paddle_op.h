#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "io/formats/paddle/paddle_program.h"

namespace sluice::interchange::paddle {

/// "operation mul ('fc_0.tmp_0')", by its first output
std::string describe(const io::formats::PaddleOp& op);

/// Throws ErrorCode::kUnsupported: "operation mul ('fc_0.tmp_0') <why>".
[[noreturn]] void refuse(const io::formats::PaddleOp& op, std::string_view why);

/// The only variable of an input or output; kFormat if there is not one.
const std::string& only_input(const io::formats::PaddleOp& op, std::string_view parameter);
const std::string& only_output(const io::formats::PaddleOp& op, std::string_view parameter);
bool has_input(const io::formats::PaddleOp& op, std::string_view parameter);
void refuse_input(const io::formats::PaddleOp& op, std::string_view parameter);

/// An attribute, or what Paddle takes without it; kFormat if it is of another kind.
std::int64_t int_of(const io::formats::PaddleOp& op, std::string_view name, std::int64_t otherwise);
bool bool_of(const io::formats::PaddleOp& op, std::string_view name, bool otherwise);
float float_of(const io::formats::PaddleOp& op, std::string_view name, float otherwise);
std::string text_of(const io::formats::PaddleOp& op, std::string_view name,
                    std::string_view otherwise);

}  // namespace sluice::interchange::paddle
