// SPDX-License-Identifier: Apache-2.0
// checked_content: the content of a handle that was not moved from.
#pragma once

#include <stdexcept>
#include <string>

namespace gyre::nats::detail {

/// Returns `content`. Throws std::logic_error if it is null, as the handle was moved from then.
template <class Pointer>
const Pointer& checked_content(const Pointer& content, const char* class_name) {
  if (content != nullptr) return content;
  throw std::logic_error(std::string("gyre::nats::") + class_name + ": it was moved from");
}

}  // namespace gyre::nats::detail
