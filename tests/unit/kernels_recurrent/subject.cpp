#include "unit/kernels_recurrent/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "sluice/error.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {

const Candidate& Subject::candidate() const {
  const auto opened = runtime::open_device(device);
  const auto list = candidates(*opened);
  return *std::ranges::find(list, implementation, &Candidate::name);
}

bool Subject::can_run(const Descriptor& descriptor) const {
  return !candidate().refuse(descriptor, *runtime::open_device(device)).has_value();
}

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.implementation << " on " << subject.device;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const char* device : sluice::testing::device_names()) {
    if (std::string_view(device) == "test") continue;
    std::unique_ptr<runtime::Device> opened;
    try {
      opened = runtime::open_device(device);
    } catch (const Error&) {
      continue;
    }
    for (const Candidate& candidate : candidates(*opened)) {
      all.push_back({device, std::string(candidate.name)});
    }
  }
  return all;
}

std::string parameter_name(const ::testing::TestParamInfo<SubjectAndPrecision>& info) {
  const auto& [subject, precision] = info.param;
  std::string name = fmt::format("{}_{}_{}", subject.device, subject.implementation, precision);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace sluice::kernels::recurrent::testing
