#include "decoding/poll.h"

#include "runtime/span.h"

namespace sluice::decoding {

Poll::Poll(const runtime::Context& context, std::int64_t every, const char* search)
    : context_(context),
      every_(every > 0                              ? every
             : context.device().runs_host_kernels() ? 1
                                                    : 8),
      search_(search) {}

bool Poll::is_done(std::int64_t taken, std::int64_t now, const runtime::Tensor& unfinished) const {
  if (taken / every_ == now / every_) return false;
  const runtime::Span span(context_, search_, "wait");
  return context_.download<std::int32_t>(unfinished)[0] == 0;
}

}  // namespace sluice::decoding
