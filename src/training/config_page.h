#pragma once

#include <string>

namespace sluice::training {

/// Every key as a page of Markdown: type, default, what it may be, the kinds of models that have a
/// use for it, and what a resumed run may change.
std::string config_page();

}  // namespace sluice::training
