// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/duration_check.hpp>

#include <stdexcept>
#include <string>

namespace gyre::detail {
namespace {

[[noreturn, gnu::cold]] void refuse(duration value, std::string_view name,
                                    const char* requirement) {
  throw std::invalid_argument(
      std::string(name).append(" is ").append(std::to_string(value.count())).append(requirement));
}

}  // namespace

void require_positive(duration value, std::string_view name) {
  if (value <= duration::zero()) refuse(value, name, " ns; it must be positive");
}

void require_not_negative(duration value, std::string_view name) {
  if (value < duration::zero()) refuse(value, name, " ns; it must not be negative");
}

}  // namespace gyre::detail
