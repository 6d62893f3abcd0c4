#include "api/recording.h"

#include <limits>

#include "base/check.h"

namespace sluice::api {
namespace {

constexpr profiling::StepRange kAll{1, std::numeric_limits<std::int64_t>::max()};

}  // namespace

void Recording::begin(runtime::Context& context, const ProfileRequest& request) {
  SLUICE_CHECK(!session_, "a profile of this model has begun already; end it first");
  SLUICE_CHECK(request.is_asked_for(), "a profile needs a file for its trace, or a breakdown");
  session_.emplace(request, profiling::print, profiling::Session::Turns::kMany);
  try {
    session_->attach(context, kAll);
  } catch (...) {
    session_.reset();
    throw;
  }
}

void Recording::finish() {
  if (!session_) return;
  session_->finish();
  session_.reset();
}

}  // namespace sluice::api
