#include "kernels/onednn_part.h"

namespace sluice::kernels {
namespace {

OpenedOnednn open() {
  using runtime::SymbolSearch;
  const runtime::OpenedPart opened =
      runtime::open_part({.name = "libsluice_onednn",
                          .entry = kOnednnEntry,
                          .needs = "oneDNN",
                          .remedy = "build it by `./dev build`, or take it from a bundle",
                          .search = SymbolSearch::kOwnLibrariesFirst});
  return {static_cast<const OnednnPart*>(opened.part), opened.missing};
}

}  // namespace

const OpenedOnednn& onednn_part() {
  static const OpenedOnednn opened = open();
  return opened;
}

}  // namespace sluice::kernels
