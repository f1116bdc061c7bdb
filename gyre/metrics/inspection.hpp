// SPDX-License-Identifier: Apache-2.0
// inspection: the base of what shows a program to its operators, so that a runtime can own it
// without linking HTTP.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <memory>

namespace gyre::metrics {

class registry;

/// Shows a program to its operators, from its construction to its destruction. http::inspect_at()
/// makes one.
class inspection {
 public:
  inspection() noexcept = default;
  inspection& operator=(inspection&&) = delete;
  virtual ~inspection() = default;
};

/// Makes an inspection of the program whose metrics the registry has, which outlives it.
using inspection_factory = move_only_function<std::unique_ptr<inspection>(const registry&)>;

}  // namespace gyre::metrics
