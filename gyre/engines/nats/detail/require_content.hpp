// SPDX-License-Identifier: Apache-2.0
// require_content: refuses the use of a handle that was moved from.
#pragma once

#include <stdexcept>
#include <string>

namespace gyre::nats::detail {

/// Throws std::logic_error if `content` is null, as the handle was moved from then.
template <class Pointer>
void require_content(const Pointer& content, const char* class_name) {
  if (content != nullptr) return;
  throw std::logic_error(std::string("gyre::nats::") + class_name + ": it was moved from");
}

}  // namespace gyre::nats::detail
