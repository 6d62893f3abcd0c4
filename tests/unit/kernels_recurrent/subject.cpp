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

std::optional<std::string> Subject::refusal(const Descriptor& descriptor) const {
  return recurrent::refusal(candidate(), descriptor, *runtime::open_device(device));
}

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.implementation << " on " << subject.device;
}

namespace {

std::vector<Subject> all_subjects() {
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

bool has_8_bits(const Subject& subject) {
  return subject.implementation.find("int8") != std::string::npos;
}

}  // namespace

std::vector<Subject> subjects() {
  std::vector<Subject> all = all_subjects();
  std::erase_if(all, has_8_bits);
  return all;
}

std::vector<Subject> int8_subjects() {
  std::vector<Subject> all = all_subjects();
  std::erase_if(all, [](const Subject& one) { return !has_8_bits(one); });
  return all;
}

std::string parameter_name(const ::testing::TestParamInfo<SubjectAndPrecision>& info) {
  const auto& [subject, precision] = info.param;
  std::string name = fmt::format("{}_{}_{}", subject.device, subject.implementation, precision);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<SubjectAndPrecision> own_subjects() {
  std::vector<SubjectAndPrecision> all;
  for (const Subject& subject : subjects()) {
    if (subject.candidate().peer) continue;
    for (const std::string precision : {"float32", "tf32", "bfloat16", "float16"}) {
      if (subject.device == "cpu" && precision == "tf32") continue;
      all.emplace_back(subject, precision);
    }
  }
  return all;
}

}  // namespace sluice::kernels::recurrent::testing
