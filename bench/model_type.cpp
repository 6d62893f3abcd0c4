#include "bench/model_type.h"

#include "base/check.h"
#include "base/dtype.h"
#include "runtime/context.h"

namespace sluice::bench {

std::string parse_model_type(std::string_view text) {
  if (text == "tf32") return "tf32";
  SLUICE_CHECK(text != "int8",
               "models are measured in float32, tf32, bfloat16 or float16, not in int8");
  const std::string name(base::name_of(base::parse_dtype(text)));
  runtime::Precision::parse(name);  // refuses what no model computes in
  return name;
}

}  // namespace sluice::bench
