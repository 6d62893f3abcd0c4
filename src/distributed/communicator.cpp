#include "distributed/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <system_error>

namespace sluice::distributed {

std::string from_first(Communicator& ranks, std::string_view own) {
  return ranks.exchange(ranks.rank() == 0 ? own : std::string_view()).front();
}

bool any(Communicator& ranks, bool own) {
  const std::vector<std::string> all = ranks.exchange(own ? "1" : "0");
  return std::find(all.begin(), all.end(), "1") != all.end();
}

void agree(Communicator& ranks, std::string_view what, std::string_view own) {
  const std::vector<std::string> all = ranks.exchange(own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    SLUICE_CHECK(all[rank] == all[0],
                 "rank {} has another {} than rank 0; start all ranks with the same files and "
                 "options",
                 rank, what);
  }
}

Error error_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::system_error& error) {
    return Error(ErrorCode::kIo, fmt::format("the system refused: {}", error.what()));
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, error.what());
  } catch (...) {
    return Error(ErrorCode::kInternal, "the caller ended it");
  }
}

}  // namespace sluice::distributed
